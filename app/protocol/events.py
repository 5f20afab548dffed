"""Events of a run and of its session, as logged, streamed and replayed.

Every event carries ``ts`` (Unix milliseconds) and ``n``, its number in the session; events of a run also carry
``runId`` and ``seq``, its number in the run. Numbers rise, with gaps. ``entryId`` stands where an entry was stored (an
assistant's entry id is allocated at ``message_start``). ``recovered`` marks an event that was made from stored entries
after a crash.
"""

from typing import Any, Literal

import msgspec

from app.protocol.messages import Message
from app.protocol.model import BlockEvent

CompactionReason = Literal["threshold", "manual"]
RunKind = Literal["prompt", "compact", "summary"]
RunStatus = Literal["done", "waiting", "error", "aborted", "interrupted"]


class EventBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"):
    """Fields that every event has; numbers are given by the session's event log."""

    n: int = 0
    seq: int | None = None
    run_id: str | None = None
    ts: int = 0
    entry_id: str | None = None
    recovered: bool = False


class AgentStart(EventBase, tag="agent_start", frozen=True, kw_only=True):
    """A run begins; ``kind`` says what for: an answer, a compaction, or the summary of a branch that is left."""

    kind: RunKind = "prompt"


class TurnStart(EventBase, tag="turn_start", frozen=True, kw_only=True):
    """A turn begins: one model response and the results of its tool calls."""


class MessageStart(EventBase, tag="message_start", frozen=True, kw_only=True):
    """A message begins. An assistant's and a tool result's content follows in message_end."""

    message: Message


class MessageUpdate(EventBase, tag="message_update", frozen=True, kw_only=True):
    """What is new in the message that the model is writing: a delta, never the text so far."""

    assistant_message_event: BlockEvent


class MessageEnd(EventBase, tag="message_end", frozen=True, kw_only=True):
    """A message is complete and stored. ``discarded``: it never was, its process died while it was written."""

    message: Message | None = None
    discarded: bool = False


class ToolExecutionStart(EventBase, tag="tool_execution_start", frozen=True, kw_only=True):
    """A tool call is taken up; ``args`` are raw, as the model sent them."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]


class ToolDecisionMade(EventBase, tag="tool_decision", frozen=True, kw_only=True):
    """What was decided about a call before it ran."""

    tool_call_id: str
    tool_name: str
    decision: Literal["allow", "block", "rewrite", "confirm"]
    args_before: dict[str, Any]
    args_after: dict[str, Any]
    rule: str = ""
    reason: str = ""


class ToolExecutionUpdate(EventBase, tag="tool_execution_update", frozen=True, kw_only=True):
    """Partial output of a running tool: what is so far, not a delta."""

    tool_call_id: str
    tool_name: str
    partial_result: str


class ToolExecutionEnd(EventBase, tag="tool_execution_end", frozen=True, kw_only=True):
    """A tool call has its result; ``result`` is {content, details?}. ``durationMs`` is wall time."""

    tool_call_id: str
    tool_name: str
    result: dict[str, Any]
    is_error: bool
    duration_ms: int = 0


class TurnEnd(EventBase, tag="turn_end", frozen=True, kw_only=True):
    """A turn is complete; ``toolResults`` are the ids of the calls answered in it, in source order."""

    stop_reason: str = ""
    tool_results: list[str] = []


class AgentEnd(EventBase, tag="agent_end", frozen=True, kw_only=True):
    """The run makes no more messages; ``messages`` are the entry ids of those it made, the prompts included."""

    messages: list[str] = []


class RunDone(EventBase, tag="run_done", frozen=True, kw_only=True):
    """Last event of a run, always, exactly once. ``lastSeq`` is its own seq."""

    session_id: str
    status: RunStatus
    leaf_id: str | None
    last_seq: int
    error: str = ""


class Compaction(EventBase, tag="compaction", frozen=True, kw_only=True):
    """Older parts of the branch are being summarised (``part`` of ``parts``), or that has ended.

    Once ``done``, ``entryId`` is the stored compaction, and the context went from ``tokensBefore`` to ``tokensAfter``,
    both estimated. Otherwise nothing was stored, and ``error`` says why.
    """

    status: Literal["started", "done", "failed", "aborted"]
    reason: CompactionReason
    part: int = 0
    parts: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    error: str = ""


class LeafMoved(EventBase, tag="leaf_moved", frozen=True, kw_only=True):
    """The session goes on from another entry."""

    leaf_id: str | None


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that waits for the agent."""

    id: str
    text: str
    kind: Literal["followUp", "steer"] = "followUp"


class QueueChanged(EventBase, tag="queue_changed", frozen=True, kw_only=True):
    """What waits now, in order; ``returned`` is what was given back unsent and stands there still."""

    queue: list[QueuedMessage]
    returned: list[QueuedMessage] = []


class SessionRenamed(EventBase, tag="session_renamed", frozen=True, kw_only=True):
    """The session has another name."""

    name: str


class EntryLabelled(EventBase, tag="entry_labelled", frozen=True, kw_only=True):
    """An entry has another label; "" when it has none any more."""

    target_id: str
    label: str


class MainLineMarked(EventBase, tag="main_line_marked", frozen=True, kw_only=True):
    """The branch of an entry is the main line; "" when none is marked any more."""

    target_id: str


class SessionDeleted(EventBase, tag="session_deleted", frozen=True, kw_only=True):
    """The session was moved to the trash; nothing more comes."""


LoopEvent = (
    TurnStart
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolDecisionMade
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | TurnEnd
)
Event = (
    LoopEvent
    | AgentStart
    | AgentEnd
    | RunDone
    | Compaction
    | LeafMoved
    | QueueChanged
    | EntryLabelled
    | MainLineMarked
    | SessionRenamed
    | SessionDeleted
)
