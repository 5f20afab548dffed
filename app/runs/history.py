"""What a session's entries say about its runs, its queue and its effects: one fold, kept up to date entry by entry."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.protocol.entries import (
    QUEUED,
    RUN,
    TOOL_STARTED,
    CustomEntry,
    Entry,
    MessageEntry,
    QueuedData,
    RunData,
    ToolStartedData,
    entry_data,
    is_side_entry,
)
from app.protocol.events import QueuedMessage, RunKind
from app.sessions.outline import SIDE
from app.sessions.store import Session


@dataclass
class RunRecord:
    """A run as the file tells it: its message entries in file order, and how it ended (None: it did not).

    ``kind`` is "prompt" for an answer, "compact" or "summary" for work that makes no message.
    """

    run_id: str
    kind: RunKind = "prompt"
    messages: list[str] = field(default_factory=list)
    outcome: str | None = None


class History:
    """The fold over a file's entries, branches included.

    ``runs`` stand in the order of their starts; a run's messages are the ids of those between its start and its end in
    the file (there is one writer, and one run at a time). ``queue`` holds the messages that wait, ``returned`` those
    that were given back unsent and not taken away since.
    """

    def __init__(self) -> None:
        self.runs: dict[str, RunRecord] = {}
        self.queue: list[QueuedMessage] = []
        self.returned: list[QueuedMessage] = []
        self._current: RunRecord | None = None
        self._newest_run: dict[str, str] = {}
        self._effects: dict[str, list[tuple[str | None, ToolStartedData]]] = {}
        self._taken: dict[str, str] = {}

    @classmethod
    def of(cls, session: Session) -> "History":
        """Returns the fold over a session; of its entries only those are read that say something about runs."""
        history, outline = cls(), session.outline
        for at, entry_id in enumerate(outline.ids):
            if outline.kinds[at].startswith("custom:") and outline.flags[at] & SIDE:
                history.add(session.at(at).entry)
            elif not outline.flags[at] & SIDE:
                above = outline.parents[at]
                parent_id = outline.ids[above] if above >= 0 else None
                history._add_chain(entry_id, parent_id, is_message=outline.is_message(at))
        return history

    def add(self, entry: Entry) -> None:
        """Takes the next entry of the file."""
        if isinstance(entry, CustomEntry) and is_side_entry(entry):
            self._add_custom(entry)
        elif not is_side_entry(entry):
            self._add_chain(entry.id, entry.parent_id, is_message=isinstance(entry, MessageEntry))

    def _add_chain(self, entry_id: str, parent_id: str | None, *, is_message: bool) -> None:
        if entry_id in self._taken:
            self._drop(self._taken.pop(entry_id))
        newest = self._newest_run.get(parent_id or "")
        if is_message and self._current is not None:
            self._current.messages.append(entry_id)
            newest = self._current.run_id
        if newest is not None:
            self._newest_run[entry_id] = newest

    def _add_custom(self, entry: CustomEntry) -> None:
        run = entry_data(entry, RUN, RunData)
        queued = entry_data(entry, QUEUED, QueuedData)
        effect = entry_data(entry, TOOL_STARTED, ToolStartedData)
        if run is not None and run.status == "started":
            self._current = self.runs.setdefault(run.run_id, RunRecord(run.run_id, run.kind))
        elif run is not None and run.run_id in self.runs:
            self.runs[run.run_id].outcome = run.reason or "done"
            self._current = None
        elif queued is not None:
            self._add_queued(queued)
        elif effect is not None:
            self._effects.setdefault(effect.tool_call_id, []).append((entry.parent_id, effect))

    def _add_queued(self, data: QueuedData) -> None:
        if data.status == "added":
            self.queue.append(QueuedMessage(id=data.id, text=data.text, kind=data.kind))
        elif data.entry_id:
            # Taken; a torn write may have lost the message itself, and then it still waits.
            self._taken[data.entry_id] = data.id
        else:
            dropped = self._drop(data.id)
            self.returned += dropped if data.status == "returned" else []

    def _drop(self, queue_id: str) -> list[QueuedMessage]:
        dropped = [queued for queued in (*self.queue, *self.returned) if queued.id == queue_id]
        self.queue = [queued for queued in self.queue if queued.id != queue_id]
        self.returned = [queued for queued in self.returned if queued.id != queue_id]
        return dropped

    def newest_run_at(self, leaf_id: str | None) -> str | None:
        """Returns the id of the run that made the newest message of the path to an entry; None when no run made any."""
        return self._newest_run.get(leaf_id or "")

    def effect_begun(self, on_path: Callable[[str], bool], tool_call_id: str) -> ToolStartedData | None:
        """Returns what was written before the effect of a call of a path, if the call got that far.

        Another branch may have a call with the same id: a side entry belongs to a path when its parent does, which
        ``on_path`` says of an entry's id.
        """
        begun = self._effects.get(tool_call_id, [])
        return next((effect for parent_id, effect in reversed(begun) if on_path(parent_id or "")), None)
