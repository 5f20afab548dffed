"""Entries of a session file (Pi's JSONL v3) and our own custom entries.

An entry is a view of one line; the store keeps the line's bytes. Fields that we do not know stay in the bytes only.
"""

from typing import Any, Literal, TypeVar

import msgspec

from app.protocol.messages import Message, UserContent

FORMAT_VERSION = 3


class SessionHeader(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type", tag="session"
):
    """First line of a session file. An absent ``version`` means 1."""

    id: str
    version: int = 1
    timestamp: str = ""
    cwd: str = ""
    parent_session: str | None = None


class EntryBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"):
    """Common fields: ``timestamp`` is ISO 8601 UTC; ``parentId`` null is a root."""

    id: str
    parent_id: str | None
    timestamp: str


class MessageEntry(EntryBase, tag="message", frozen=True, kw_only=True):
    """A message of the conversation."""

    message: Message


class ModelChangeEntry(EntryBase, tag="model_change", frozen=True, kw_only=True):
    """From here on another model answers."""

    provider: str
    model_id: str


class ThinkingLevelChangeEntry(EntryBase, tag="thinking_level_change", frozen=True, kw_only=True):
    """From here on the model reasons with this effort."""

    thinking_level: str


class CompactionEntry(EntryBase, tag="compaction", frozen=True, kw_only=True):
    """What came before ``firstKeptEntryId`` is replaced by ``summary`` in the context."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int = 0
    details: Any = None
    from_hook: bool | None = None


class BranchSummaryEntry(EntryBase, tag="branch_summary", frozen=True, kw_only=True):
    """Summary of a branch that was left; ``fromId`` is informational."""

    summary: str
    from_id: str = ""
    details: Any = None
    from_hook: bool | None = None


class CustomEntry(EntryBase, tag="custom", frozen=True, kw_only=True):
    """Data of an extension (all entries of ours are such); never in a model's context."""

    custom_type: str
    data: Any = None


class CustomMessageEntry(EntryBase, tag="custom_message", frozen=True, kw_only=True):
    """A message of an extension that is in the model's context."""

    custom_type: str
    content: str | list[UserContent]
    display: bool = True
    details: Any = None


class LabelEntry(EntryBase, tag="label", frozen=True, kw_only=True):
    """Names an entry; an absent label clears it; the last one per target wins."""

    target_id: str
    label: str | None = None


class SessionInfoEntry(EntryBase, tag="session_info", frozen=True, kw_only=True):
    """Names the session; the latest non-empty name wins."""

    name: str | None = None


class UnknownEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry whose type or shape we do not know: kept, part of the parent chain, nothing in the context.

    ``problem`` says what did not fit; empty for a type that is merely unknown.
    """

    id: str
    parent_id: str | None
    timestamp: str
    type: str
    problem: str = ""


KnownEntry = (
    MessageEntry
    | ModelChangeEntry
    | ThinkingLevelChangeEntry
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | LabelEntry
    | SessionInfoEntry
)
Entry = KnownEntry | UnknownEntry

RUN = "run"
TOOL_STARTED = "tool-started"
QUEUED = "queued"
LEAF = "leaf"
MAIN_LINE = "main-line"

SIDE_CUSTOM_TYPES = frozenset({RUN, TOOL_STARTED, QUEUED, LEAF, "learning-void", MAIN_LINE, "grant"})
"""Custom entries that hang on the leaf and never become it, so that Pi opens the same branch as we do."""


def is_side_entry(entry: Entry) -> bool:
    """Returns whether an entry never becomes the leaf: labels, names, and our bookkeeping."""
    if isinstance(entry, CustomEntry):
        return entry.custom_type in SIDE_CUSTOM_TYPES
    return isinstance(entry, LabelEntry | SessionInfoEntry)


class MainLineData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of a ``main-line`` entry: the branch of ``targetId`` is the main one.

    The last mark counts; an empty one takes it back.
    """

    target_id: str


class RunData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Data of a ``run`` entry: the start or the end of a run. ``reason`` of an end is the run's status.

    ``kind`` of a start: prompt, or compact or summary for work that makes no message.
    """

    run_id: str
    status: Literal["started", "done"]
    reason: str = ""
    kind: Literal["prompt", "compact", "summary"] = "prompt"


class ToolStartedData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of a ``tool-started`` entry, written before an effect: hashes of the target before and after it."""

    tool_call_id: str
    target: str
    before: str
    after: str


class QueuedData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Data of a ``queued`` entry: a message sent while the agent worked, and what became of it.

    ``entryId`` of one that was taken is its message's entry, written right behind: without that one it still waits.
    """

    id: str
    status: Literal["added", "taken", "removed", "returned"]
    text: str = ""
    kind: Literal["followUp", "steer"] = "followUp"
    entry_id: str = ""


D = TypeVar("D", bound=msgspec.Struct)


def entry_data(entry: Entry, custom_type: str, kind: type[D]) -> D | None:
    """Returns the data of a custom entry of that type, or None when it is another entry or does not fit."""
    if not isinstance(entry, CustomEntry) or entry.custom_type != custom_type:
        return None
    try:
        return msgspec.convert(entry.data, kind)
    except msgspec.ValidationError:
        return None
