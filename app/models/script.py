"""A scripted model: plays texts, tool calls, delays and faults from a JSON file."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.models.pieces import equal_pieces
from app.models.unavailable import ModelUnavailable
from app.protocol.cancel import CancelToken
from app.protocol.codec import decode_as
from app.protocol.estimate import estimate_content, estimate_request
from app.protocol.messages import (
    AssistantContent,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from app.protocol.model import (
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    aborted,
    block_events,
)

_Positive = Annotated[int, Meta(ge=1)]
_Natural = Annotated[int, Meta(ge=0)]
_HANG_SECONDS = 3600.0
"""How long one wait of a hang lasts; it is repeated until somebody cancels."""


class ScriptedFault(Exception):
    """What a scripted model raises where its script says ``raise``."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    pass


class Fault(_Part, frozen=True, kw_only=True):
    """What goes wrong after so many deltas: StreamError, a stream without end, an exception, silence."""

    kind: Literal["error", "cut", "raise", "hang"]
    message: str = "scripted fault"
    after_deltas: _Natural = 0


class ScriptedCall(_Part, frozen=True, kw_only=True):
    """A tool call; without an id it gets one from its place in the conversation."""

    name: str
    arguments: dict[str, Any] = {}
    id: str | None = None


class ScriptedTurn(_Part, frozen=True, kw_only=True):
    """One response. ``chunk`` is characters a delta, ``delayMs`` the wait before each delta."""

    text: str = ""
    thinking: str = ""
    tool_calls: list[ScriptedCall] = []
    chunk: _Positive = 8
    delay_ms: _Natural = 0
    stop_reason: Literal["stop", "length", "toolUse"] | None = None
    fault: Fault | None = None


class Script(_Part, frozen=True, kw_only=True):
    """A whole script; ``after`` is played when the conversation has more turns than the script.

    ``summary`` is played when a summary is asked for, which is no turn.
    """

    turns: list[ScriptedTurn]
    name: str = "Scripted model"
    context_window: _Positive = 32_000
    after: ScriptedTurn = ScriptedTurn(text="The script has no more turns.")
    summary: ScriptedTurn = ScriptedTurn(text="This is the summary of the script.")


def load_script(file: str) -> "ScriptedModel":
    """Returns the model that plays ``file``. Raises ModelUnavailable naming the file and what is wrong."""
    try:
        data = Path(file).expanduser().read_bytes()
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelUnavailable(f"The script {file!r} cannot be read: {reason}.") from error
    try:
        return ScriptedModel(decode_as(data.removeprefix(b"\xef\xbb\xbf"), Script))
    except msgspec.ValidationError as error:
        raise ModelUnavailable(f"{file!r} is not a script for a model: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelUnavailable(f"The script {file!r} is not JSON: {error}") from error


class ScriptedModel:
    """Plays one turn for each assistant message: a function of the conversation, unmoved by restarts."""

    id = "script"
    provider = "hornbook"
    api = "script"

    def __init__(self, script: Script) -> None:
        self.name = script.name
        self.context_window = script.context_window
        self._script = script

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        """Yields the turn whose number is the count of assistant messages in the request.

        Ends with StreamError ``aborted`` once cancelled, else as the turn's fault says: ``raise`` raises
        ScriptedFault, ``cut`` ends the stream without an end marker.
        """
        number = sum(isinstance(message, AssistantMessage) for message in request.messages)
        turns = self._script.turns
        turn = turns[number] if number < len(turns) else self._script.after
        if request.purpose == "summary":
            turn = self._script.summary
        content = _content(turn, number)
        usage = Usage(input=estimate_request(request), output=estimate_content(content))
        yield StreamStart()
        deltas = 0
        for event in block_events(content, partial(equal_pieces, size=turn.chunk)):
            if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
                if turn.fault and deltas >= turn.fault.after_deltas:
                    break
                deltas += 1
                cancel.wait(turn.delay_ms / 1000)
            if cancel.cancelled:
                yield aborted(cancel, usage)
                return
            yield event
        if turn.fault:
            yield from _fail(turn.fault, cancel, usage)
        elif cancel.cancelled:
            yield aborted(cancel, usage)
        else:
            reason = turn.stop_reason or ("toolUse" if turn.tool_calls else "stop")
            yield StreamDone(reason=reason, usage=usage)


def _fail(fault: Fault, cancel: CancelToken, usage: Usage) -> Iterator[ModelEvent]:
    match fault.kind:
        case "error":
            yield StreamError(reason="error", error_message=fault.message, usage=usage)
        case "raise":
            raise ScriptedFault(fault.message)
        case "hang":
            while not cancel.wait(_HANG_SECONDS):
                pass
            yield aborted(cancel, usage)
        case "cut":
            return


def _content(turn: ScriptedTurn, number: int) -> list[AssistantContent]:
    content: list[AssistantContent] = []
    if turn.thinking:
        content.append(ThinkingContent(thinking=turn.thinking))
    if turn.text:
        content.append(TextContent(text=turn.text))
    for place, call in enumerate(turn.tool_calls, 1):
        call_id = f"script-{number + 1}-{place}" if call.id is None else call.id
        content.append(ToolCall(id=call_id, name=call.name, arguments=call.arguments))
    return content
