"""What a session's entries say about its runs: pure folds over entries in file order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.protocol.entries import (
    QUEUED,
    RUN,
    TOOL_STARTED,
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


@dataclass
class RunRecord:
    """A run as the file tells it: its message entries in file order, and how it ended (None: it did not)."""

    run_id: str
    messages: list[MessageEntry] = field(default_factory=list)
    outcome: str | None = None


def runs_of(entries: Iterable[Entry]) -> list[RunRecord]:
    """Returns the runs in the order of their starts.

    A run's messages are those between its start and its end in the file; there is one writer and one run at a time.
    """
    runs: dict[str, RunRecord] = {}
    current: RunRecord | None = None
    for entry in entries:
        data = entry_data(entry, RUN, RunData)
        if data is not None:
            if data.status == "started":
                current = runs.setdefault(data.run_id, RunRecord(data.run_id))
            elif data.run_id in runs:
                runs[data.run_id].outcome = data.reason or "done"
                current = None
        elif current is not None and isinstance(entry, MessageEntry):
            current.messages.append(entry)
    return list(runs.values())


def newest_run_on(path: Sequence[Entry], runs: Sequence[RunRecord]) -> str | None:
    """Returns the id of the run that made the newest message of a path; None when no run made any."""
    run_of_entry = {entry.id: run.run_id for run in runs for entry in run.messages}
    for entry in reversed(path):
        if entry.id in run_of_entry:
            return run_of_entry[entry.id]
    return None


def queue_of(entries: Iterable[Entry]) -> list[QueuedMessage]:
    """Returns the messages that still wait, in the order of their sending, folded over the whole file."""
    waiting: dict[str, QueuedMessage] = {}
    entries = list(entries)
    stored = {entry.id for entry in entries}
    for entry in entries:
        data = entry_data(entry, QUEUED, QueuedData)
        if data is None:
            continue
        if data.status == "added":
            waiting[data.id] = QueuedMessage(id=data.id, text=data.text, kind=data.kind)
        elif not data.entry_id or data.entry_id in stored:
            waiting.pop(data.id, None)
    return list(waiting.values())


def effect_begun(entries: Iterable[Entry], path: Iterable[Entry], tool_call_id: str) -> ToolStartedData | None:
    """Returns what was written before the effect of a call of this path, if the call got that far.

    Another branch may have a call with the same id: a side entry belongs to a path when its parent does.
    """
    on_path = {entry.id for entry in path}
    found = None
    for entry in entries:
        data = entry_data(entry, TOOL_STARTED, ToolStartedData)
        if data is not None and data.tool_call_id == tool_call_id and entry.parent_id in on_path:
            found = data
    return found


def call_ids_on(path: Iterable[Entry]) -> set[str]:
    """Returns the ids of all tool calls on a path."""
    return {
        call.id
        for entry in path
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage)
        for call in tool_calls_of(entry.message)
    }


def name_of(entries: Iterable[Entry]) -> str:
    """Returns the session's name: the latest that is not blank, else an empty text."""
    name = ""
    for entry in entries:
        if isinstance(entry, SessionInfoEntry) and entry.name and entry.name.strip():
            name = entry.name.strip()
    return name
