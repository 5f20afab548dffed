"""What a session's entries say about its runs, its queue and its effects: one fold, kept up to date entry by entry."""

from collections.abc import Callable, Iterable, Sequence
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
    SessionInfoEntry,
    ToolStartedData,
    entry_data,
)
from app.protocol.events import QueuedMessage
from app.protocol.messages import AssistantMessage, tool_calls_of
from app.sessions.summary import session_name


@dataclass
class RunRecord:
    """A run as the file tells it: its message entries in file order, and how it ended (None: it did not)."""

    run_id: str
    messages: list[MessageEntry] = field(default_factory=list)
    outcome: str | None = None


class History:
    """The fold over a file's entries, branches included.

    ``runs`` stand in the order of their starts; a run's messages are those between its start and its end in the file
    (there is one writer, and one run at a time). ``queue`` holds the messages that wait, ``returned`` those that
    were given back unsent and not taken away since. ``name`` is the session's name, "" when it has none.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.runs: dict[str, RunRecord] = {}
        self.queue: list[QueuedMessage] = []
        self.returned: list[QueuedMessage] = []
        self.name = ""
        self._current: RunRecord | None = None
        self._run_of: dict[str, str] = {}
        self._effects: dict[str, list[tuple[str | None, ToolStartedData]]] = {}
        self._taken: dict[str, str] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Takes the next entry of the file."""
        match entry:
            case MessageEntry():
                self._add_message(entry)
            case SessionInfoEntry():
                self.name = session_name([entry]) or self.name
            case CustomEntry():
                self._add_custom(entry)
            case _:
                pass

    def _add_message(self, entry: MessageEntry) -> None:
        if entry.id in self._taken:
            self._drop(self._taken.pop(entry.id))
        if self._current is not None:
            self._current.messages.append(entry)
            self._run_of[entry.id] = self._current.run_id

    def _add_custom(self, entry: CustomEntry) -> None:
        run = entry_data(entry, RUN, RunData)
        queued = entry_data(entry, QUEUED, QueuedData)
        effect = entry_data(entry, TOOL_STARTED, ToolStartedData)
        if run is not None and run.status == "started":
            self._current = self.runs.setdefault(run.run_id, RunRecord(run.run_id))
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

    def newest_run_on(self, path: Sequence[Entry]) -> str | None:
        """Returns the id of the run that made the newest message of a path; None when no run made any."""
        return next((self._run_of[entry.id] for entry in reversed(path) if entry.id in self._run_of), None)

    def effect_begun(self, path: Callable[[], Iterable[Entry]], tool_call_id: str) -> ToolStartedData | None:
        """Returns what was written before the effect of a call of a path, if the call got that far.

        Another branch may have a call with the same id: a side entry belongs to a path when its parent does. The path
        can be long, so it is only walked for a call that has begun somewhere.
        """
        begun = self._effects.get(tool_call_id)
        if not begun:
            return None
        on_path = {entry.id for entry in path()}
        return next((effect for parent_id, effect in reversed(begun) if parent_id in on_path), None)


def call_ids_on(path: Iterable[Entry]) -> set[str]:
    """Returns the ids of all tool calls on a path."""
    return {
        call.id
        for entry in path
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage)
        for call in tool_calls_of(entry.message)
    }
