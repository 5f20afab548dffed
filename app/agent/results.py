"""Results that the loop itself gives, and checking those of tools before they are shown or stored."""

from typing import Any

import msgspec

from app.protocol.codec import decode_as, encode_line
from app.protocol.messages import ToolCall, ToolResultMessage
from app.protocol.tools import Park, ToolResult


def failed(text: str) -> ToolResult:
    """Returns an error result that says what went wrong and what would be right."""
    return ToolResult.of_text(text, is_error=True)


def not_run(reason: str) -> ToolResult:
    """Returns the error result of a call that was never begun."""
    return failed(f"Not run: {reason or 'the run was stopped'}.")


def in_words(problem: BaseException) -> str:
    """Returns an exception as "Type: text", even one whose own text cannot be had."""
    try:
        return f"{type(problem).__name__}: {problem}"
    except Exception:
        return type(problem).__name__


def result_message(call: ToolCall, result: ToolResult, timestamp: int) -> ToolResultMessage:
    """Returns a result as the message that answers its call; ``timestamp`` in Unix milliseconds."""
    details = {} if result.details is None else {"details": msgspec.to_builtins(result.details)}
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=result.content,
        is_error=result.is_error,
        timestamp=timestamp,
        **details,
    )


def result_payload(result: ToolResult) -> dict[str, Any]:
    """Returns a result as plain JSON values: {content, details?}."""
    payload: dict[str, Any] = {"content": msgspec.to_builtins(result.content)}
    if result.details is not None:
        payload["details"] = msgspec.to_builtins(result.details)
    return payload


def checked(call: ToolCall, returned: object) -> ToolResult | Park:
    """Returns what a tool gave back, or an error result when it could be neither stored nor shown."""
    if isinstance(returned, Park):
        return returned
    if not isinstance(returned, ToolResult):
        return failed(f"The tool {call.name} failed: it gave back {type(returned).__name__} instead of a result.")
    try:
        decode_as(encode_line(result_message(call, returned, 0)), ToolResultMessage)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        return failed(f"The tool {call.name} failed: its result cannot be stored ({in_words(problem)}).")
    return returned
