"""Results that the loop itself gives, and results as events carry them."""

from typing import Any

import msgspec

from app.protocol.codec import encode_line
from app.protocol.tools import Park, ToolResult


def failed(text: str) -> ToolResult:
    """Returns an error result that says what went wrong and what would be right."""
    return ToolResult.of_text(text, is_error=True)


def not_run(reason: str) -> ToolResult:
    """Returns the error result of a call that was never begun."""
    return failed(f"Not run: {reason or 'the run was stopped'}.")


def checked(name: str, returned: object) -> ToolResult | Park:
    """Returns what a tool gave back, or an error result when it could be neither stored nor shown."""
    if isinstance(returned, Park):
        return returned
    if not isinstance(returned, ToolResult):
        return failed(f"The tool {name} failed: it gave back {type(returned).__name__} instead of a result.")
    try:
        encode_line(result_payload(returned))
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        return failed(f"The tool {name} failed: its result is not JSON ({problem}).")
    return returned


def result_payload(result: ToolResult) -> dict[str, Any]:
    """Returns a result as plain JSON values: {content, details?}."""
    payload: dict[str, Any] = {"content": msgspec.to_builtins(result.content)}
    if result.details is not None:
        payload["details"] = msgspec.to_builtins(result.details)
    return payload
