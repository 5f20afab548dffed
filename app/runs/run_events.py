"""The events that a run itself tells of, beside those of the loop: its messages from people, and its end."""

from collections.abc import Sequence

import msgspec

from app.agent.results import failed, not_run, result_message, result_payload
from app.protocol.entries import MessageEntry
from app.protocol.events import (
    AgentEnd,
    Event,
    MessageEnd,
    MessageStart,
    RunDone,
    RunStatus,
    ToolExecutionEnd,
    TurnStart,
)
from app.protocol.messages import ToolCall, ToolResultMessage
from app.protocol.tools import ToolResult


def end_of_run(
    session_id: str,
    entry_ids: Sequence[str],
    status: RunStatus,
    *,
    leaf_id: str | None,
    last_seq: int,
    error: str = "",
) -> list[Event]:
    """Returns the last two events of a run; ``last_seq`` is the number of the newest event before them."""
    return [
        AgentEnd(messages=list(entry_ids)),
        RunDone(session_id=session_id, status=status, leaf_id=leaf_id, last_seq=last_seq + 2, error=error),
    ]


def of_user_message(entry: MessageEntry) -> list[Event]:
    """Returns the events of a person's message; its turn is announced with it, as in Pi, and goes on in the loop."""
    return [
        TurnStart(),
        MessageStart(entry_id=entry.id, message=entry.message),
        MessageEnd(entry_id=entry.id, message=entry.message),
    ]


def orphan_result(call: ToolCall, *, begun: bool, timestamp: int) -> tuple[ToolResult, ToolResultMessage]:
    """Returns the error result of a call that the conversation went past; ``begun``: it may have had its effect."""
    if begun:
        result = failed("This call was begun and broken off. Its outcome is unknown: look at the file first.")
    else:
        result = not_run("the conversation went on before it was run")
    return result, result_message(call, result, timestamp)


def of_orphan_result(call: ToolCall, result: ToolResult, entry: MessageEntry) -> list[Event]:
    """Returns the events of such a result."""
    return [
        ToolExecutionEnd(tool_call_id=call.id, tool_name=call.name, result=result_payload(result), is_error=True),
        MessageStart(entry_id=entry.id, message=msgspec.structs.replace(entry.message, content=[])),
        MessageEnd(entry_id=entry.id, message=entry.message),
    ]
