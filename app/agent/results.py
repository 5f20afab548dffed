"""Results that the loop itself gives, and results as events carry them."""

from typing import Any

import msgspec

from app.protocol.tools import ToolResult


def failed(text: str) -> ToolResult:
    """Returns an error result that says what went wrong and what would be right."""
    return ToolResult.of_text(text, is_error=True)


def not_run(reason: str) -> ToolResult:
    """Returns the error result of a call that was never begun."""
    return failed(f"Not run: {reason or 'the run was stopped'}.")


def result_payload(result: ToolResult) -> dict[str, Any]:
    """Returns a result as plain JSON values: {content, details?}."""
    payload: dict[str, Any] = {"content": msgspec.to_builtins(result.content)}
    if result.details is not None:
        payload["details"] = msgspec.to_builtins(result.details)
    return payload
