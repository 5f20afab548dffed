"""What a run of the loop works with, and what it made."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

from app.protocol.cancel import CancelToken
from app.protocol.events import LoopEvent, RunStatus
from app.protocol.messages import Message, ToolCall
from app.protocol.model import AnyModel
from app.protocol.tools import Allow, BeforeToolCall, Effect, Park, Settlement, ToolDefinition

LoopStatus = RunStatus | Literal["paused"]
MAX_TURNS = 12
MAX_TURNS_EXCEEDED = "max_turns_exceeded"


def now_ms() -> int:
    """Returns Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def new_call_id() -> str:
    """Returns a tool call id that no model makes by itself."""
    return f"call_{uuid.uuid4().hex[:16]}"


@dataclass(frozen=True)
class RunContext:
    """All that a run works with. ``messages`` is the context at the leaf.

    ``settlements`` holds, by tool call id, how a person settled a parked call. ``used_call_ids`` are all ids on the
    path. ``turns_before`` counts responses to the person's last message that are not among ``messages``, since they
    were summarised. ``turn_open`` says that the first turn was announced already (with the user's message in it).
    ``before_effect`` is asked by tools right before a change, see ToolContext; ``pause`` before each turn but the
    first whether the loop is to return, so that the context can be made smaller before it goes on.
    """

    system_prompt: str
    messages: Sequence[Message]
    tools: Sequence[ToolDefinition]
    model: AnyModel
    before_tool_call: BeforeToolCall = lambda call: Allow()
    cancel: CancelToken = field(default_factory=CancelToken)
    settlements: Mapping[str, Settlement] = field(default_factory=dict)
    used_call_ids: AbstractSet[str] = frozenset()
    max_turns: int = MAX_TURNS
    turns_before: int = 0
    turn_open: bool = False
    before_effect: Callable[[ToolCall, Effect], bool] = lambda call, effect: True
    pause: Callable[[], bool] = lambda: False
    clock: Callable[[], int] = now_ms
    new_call_id: Callable[[], str] = new_call_id


@dataclass(frozen=True)
class RunResult:
    """What a run made: its messages (assistant and tool result), its events, how it ended, and what it waits for."""

    new_messages: list[Message]
    events: list[LoopEvent]
    status: LoopStatus
    parked: Park | None = None
    parked_call: ToolCall | None = None
