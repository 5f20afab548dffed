"""When older parts of a branch are to be summarised, and which: pure decisions over the entries of a path.

The rules are Pi's, with its known faults mended: a second compaction begins where the first began to keep, a call and
its result stay together, all that goes to the model counts, and nothing is done where nothing is gained.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

from app.protocol.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    is_side_entry,
)
from app.protocol.estimate import estimate_message, estimate_tokens
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    tool_calls_of,
    unanswered_calls,
)
from app.sessions.context import message_of

UNKNOWN_WINDOW = 128_000
"""The window that a model is taken to have which does not tell."""
MOST_RESERVED = 16_384
MOST_KEPT = 20_000
MOST_BRANCH_SUMMARY = 2_048
LEAST_ROOM = 256

READING = frozenset({"read", "read_file"})
WRITING = frozenset({"write", "edit", "write_note"})

Reason = Literal["empty", "already_compacted", "unanswered_calls", "nothing_gained"]


@dataclass(frozen=True)
class Budget:
    """Tokens of a model's window: ``reserve`` stays free for its answer, ``keep`` is kept of the newest messages.

    A request for a summary may hold ``room`` of conversation; the answer is at most ``summary``, that about a branch
    ``branch_summary``.
    """

    reserve: int
    keep: int
    room: int
    summary: int
    branch_summary: int


def budget_of(window: int) -> Budget:
    """Returns the budget for a context window in tokens, 0 when it is not known."""
    size = window if window > 0 else UNKNOWN_WINDOW
    reserve = min(MOST_RESERVED, size // 4)
    summary = max(1, reserve * 4 // 5)
    return Budget(
        reserve=reserve,
        keep=min(MOST_KEPT, size // 2),
        room=max(LEAST_ROOM, size - reserve - 2 * summary),
        summary=summary,
        branch_summary=min(MOST_BRANCH_SUMMARY, summary),
    )


def is_due(tokens: int, window: int) -> bool:
    """Returns whether a context of so many tokens leaves less of the window free than is reserved."""
    size = window if window > 0 else UNKNOWN_WINDOW
    return tokens > size - budget_of(window).reserve


def used_tokens(entry: Entry) -> int:
    """Returns how many tokens the model counted with an answer; 0 for one that failed or that nobody counted."""
    match entry:
        case MessageEntry(message=AssistantMessage(usage=usage, stop_reason=reason)):
            return 0 if usage is None or reason in ("error", "aborted") else usage.total_tokens or 0
    return 0


@dataclass(frozen=True)
class Preparation:
    """What a compaction replaces and what it keeps.

    ``messages`` are to be summarised, together with ``previous_summary`` ("" for none); ``split`` says that the newest
    of them belong to a turn whose end is kept. The sizes are estimated tokens. The files, sorted, are those that were
    read and written in what is summarised, or in what was summarised before.
    """

    first_kept_entry_id: str
    messages: Sequence[Message]
    previous_summary: str
    split: bool
    tokens_before: int
    tokens_kept: int
    read_files: Sequence[str]
    modified_files: Sequence[str]


@dataclass(frozen=True)
class Refused:
    """Nothing can be summarised, and why."""

    reason: Reason


def prepare(path: Sequence[Entry], keep: int) -> Preparation | Refused:
    """Returns what to summarise so that about ``keep`` tokens of the newest messages stay, or why nothing is.

    ``path`` holds entries from the root to the leaf, or any end of that which begins no later than what the newest
    compaction kept.
    """
    compaction, live = _live(path)
    sizes = [_size(entry) for entry in live]
    context = [message for entry in live if (message := message_of(entry)) is not None]
    if not context:
        return Refused("empty" if compaction is None else "already_compacted")
    if unanswered_calls(context)[1]:
        return Refused("unanswered_calls")
    if compaction is not None and not any(map(_in_context, path[_position(path, compaction.id) + 1 :])):
        return Refused("already_compacted")
    cut = _cut(live, sizes, keep)
    # Messages without text alone, such as what a person keeps from the model, are not worth a summary either.
    if not any(sizes[:cut]):
        return Refused("nothing_gained")
    before = FilesUsed() if compaction is None else FilesUsed().with_details(compaction)
    files = files_of(live[:cut], before)
    summary = "" if compaction is None else compaction.summary
    return Preparation(
        first_kept_entry_id=live[_with_settings(live, cut)].id,
        messages=[message for entry in live[:cut] if (message := message_of(entry)) is not None],
        previous_summary=summary,
        split=not _begins_turn(live[cut]) and any(map(_begins_turn, live[:cut])),
        tokens_before=estimate_tokens(summary) + sum(sizes),
        tokens_kept=sum(sizes[cut:]),
        read_files=files.read_only,
        modified_files=sorted(files.modified),
    )


def _live(path: Sequence[Entry]) -> tuple[CompactionEntry | None, list[Entry]]:
    """The newest compaction, and the entries behind what it replaced: those that it kept, then those after it."""
    found = next((entry for entry in reversed(path) if isinstance(entry, CompactionEntry)), None)
    if found is None:
        return None, list(path)
    at = _position(path, found.id)
    first = next((i for i, entry in enumerate(path[:at]) if entry.id == found.first_kept_entry_id), at)
    return found, [entry for entry in (*path[first:at], *path[at + 1 :]) if not isinstance(entry, CompactionEntry)]


def _position(path: Sequence[Entry], entry_id: str) -> int:
    return next(i for i in reversed(range(len(path))) if path[i].id == entry_id)


def _size(entry: Entry) -> int:
    message = message_of(entry)
    return 0 if message is None else estimate_message(message)


def _in_context(entry: Entry) -> bool:
    return message_of(entry) is not None


def _begins_turn(entry: Entry) -> bool:
    match entry:
        case MessageEntry():
            return isinstance(entry.message, UserMessage | BashExecutionMessage)
        case BranchSummaryEntry() | CustomMessageEntry():
            return True
    return False


def _cut(live: Sequence[Entry], sizes: Sequence[int], keep: int) -> int:
    """Returns the first entry that is kept: where the newest ones reach ``keep``, or the next that may be a first one.

    Where none follows (a result that is larger than all that is to be kept) the nearest before; 0 when all fits.
    """
    kept = accumulate(reversed(sizes))
    reached = next((len(sizes) - 1 - i for i, total in enumerate(kept) if total >= keep), None)
    if reached is None:
        return 0
    allowed = _cuts(live)
    after = (i for i in allowed if i >= reached)
    before = (i for i in reversed(allowed) if i < reached)
    return next(after, next(before, 0))


def _cuts(live: Sequence[Entry]) -> list[int]:
    """Returns where a context may begin: at no result, and between no call and its result."""
    apart = [0] * (len(live) + 1)
    askers: dict[str, int] = {}
    for i, entry in enumerate(live):
        match entry:
            case MessageEntry(message=AssistantMessage() as message):
                askers.update((call.id, i) for call in tool_calls_of(message))
            case MessageEntry(message=ToolResultMessage(tool_call_id=call_id)) if call_id in askers:
                apart[askers[call_id] + 1] += 1
                apart[i + 1] -= 1
    covered = accumulate(apart)
    return [
        i for i, (entry, spans) in enumerate(zip(live, covered, strict=False)) if not spans and _may_be_first(entry)
    ]


def _may_be_first(entry: Entry) -> bool:
    match entry:
        case MessageEntry():
            return not isinstance(entry.message, ToolResultMessage)
        case BranchSummaryEntry() | CustomMessageEntry():
            return True
    return False


def _with_settings(live: Sequence[Entry], cut: int) -> int:
    """Returns the earliest of the settings right before the cut, which are kept with what they are for."""
    first = cut
    for i in range(cut - 1, -1, -1):
        if _in_context(live[i]):
            break
        if not is_side_entry(live[i]):
            first = i
    return first


@dataclass(frozen=True)
class FilesUsed:
    """Paths that were read and that were written, as the model named them or a result did."""

    read: frozenset[str] = frozenset()
    modified: frozenset[str] = field(default_factory=frozenset)

    @property
    def read_only(self) -> list[str]:
        """What was read and not written, sorted."""
        return sorted(self.read - self.modified)

    def with_details(self, entry: CompactionEntry | BranchSummaryEntry) -> "FilesUsed":
        """Returns these and those that a summary carries, unless an extension made it."""
        details = entry.details if isinstance(entry.details, Mapping) and not entry.from_hook else {}
        read, modified = (_names(details.get(key)) for key in ("readFiles", "modifiedFiles"))
        return FilesUsed(self.read | read, self.modified | modified)


def _names(value: Any) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def files_of(entries: Iterable[Entry], before: FilesUsed | None = None) -> FilesUsed:
    """Returns the files that calls in these entries have read and written, with those ``before``.

    A call that failed, or has no result here, has done neither. Summaries of branches carry theirs.
    """
    files = before or FilesUsed()
    asked: dict[str, tuple[str, Mapping[str, Any]]] = {}
    read, modified = set(files.read), set(files.modified)
    for entry in entries:
        match entry:
            case BranchSummaryEntry() | CompactionEntry():
                carried = FilesUsed().with_details(entry)
                read |= carried.read
                modified |= carried.modified
            case MessageEntry(message=AssistantMessage() as message):
                asked.update((call.id, (call.name, call.arguments)) for call in tool_calls_of(message))
            case MessageEntry(message=ToolResultMessage(is_error=False) as message):
                name, arguments = asked.get(message.tool_call_id, ("", {}))
                path = _path(arguments, message.details)
                if path and name in READING:
                    read.add(path)
                elif path and name in WRITING:
                    modified.add(path)
            case _:
                pass
    return FilesUsed(frozenset(read), frozenset(modified))


def _path(arguments: Mapping[str, Any], details: Any) -> str:
    told = details.get("path") if isinstance(details, Mapping) else None
    named = (told, arguments.get("path"), arguments.get("name"))
    return next((name for name in named if isinstance(name, str) and name), "")
