"""What a model is to the loop: a request in, a stream of events out.

A model offers ``stream`` or only ``complete``; ``stream_events`` gives both the same shape. A model never raises for
a failed request: it ends its stream with ``StreamError``. A stream that ends without ``StreamDone`` or
``StreamError`` is an error (reference: a cut connection must not look like a success).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from app.protocol.cancel import CancelToken
from app.protocol.codec import encode_line
from app.protocol.messages import (
    AssistantContent,
    AssistantMessage,
    Message,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model sees it; ``parameters`` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a model is asked: instructions, conversation, tools.

    ``purpose`` "summary" asks for a text about a conversation that stands in the message, not for the next answer.
    ``max_tokens`` bounds the response; None is up to the model.
    """

    system_prompt: str
    messages: list[Message]
    tools: list[ToolSpec]
    purpose: Literal["answer", "summary"] = "answer"
    max_tokens: int | None = None


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"):
    """Base of the events of one model response."""


class StreamStart(StreamEvent, tag="start", frozen=True, kw_only=True):
    """The response has begun."""


class TextStart(StreamEvent, tag="text_start", frozen=True, kw_only=True):
    """Block number ``contentIndex`` (from 0) is text."""

    content_index: int


class TextDelta(StreamEvent, tag="text_delta", frozen=True, kw_only=True):
    """More text of a block: what is new, never the text so far."""

    content_index: int
    delta: str


class TextEnd(StreamEvent, tag="text_end", frozen=True, kw_only=True):
    """The text block is complete."""

    content_index: int


class ThinkingStart(StreamEvent, tag="thinking_start", frozen=True, kw_only=True):
    """Block number ``contentIndex`` is reasoning."""

    content_index: int


class ThinkingDelta(StreamEvent, tag="thinking_delta", frozen=True, kw_only=True):
    """More reasoning of a block."""

    content_index: int
    delta: str


class ThinkingEnd(StreamEvent, tag="thinking_end", frozen=True, kw_only=True):
    """The reasoning block is complete; the signature is what the provider needs to get it back."""

    content_index: int
    thinking_signature: str | None = None
    redacted: bool = False


class ToolCallStart(StreamEvent, tag="toolcall_start", frozen=True, kw_only=True):
    """Block number ``contentIndex`` is a tool call; id and name may still be unknown."""

    content_index: int
    id: str = ""
    name: str = ""


class ToolCallDelta(StreamEvent, tag="toolcall_delta", frozen=True, kw_only=True):
    """More of the arguments' JSON text."""

    content_index: int
    delta: str


class ToolCallEnd(StreamEvent, tag="toolcall_end", frozen=True, kw_only=True):
    """The call is complete, with parsed arguments."""

    content_index: int
    tool_call: ToolCall


class StreamDone(StreamEvent, tag="done", frozen=True, kw_only=True):
    """The response is complete."""

    reason: Literal["stop", "length", "toolUse"]
    usage: Usage | None = None


class StreamError(StreamEvent, tag="error", frozen=True, kw_only=True):
    """The response failed or was cancelled; what came before stays."""

    reason: Literal["error", "aborted"]
    error_message: str
    usage: Usage | None = None


BlockEvent = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
ModelEvent = StreamStart | BlockEvent | StreamDone | StreamError


@runtime_checkable
class Model(Protocol):
    """A model that streams. ``name`` is what people read, ``id`` what the provider is asked for.

    ``context_window`` is in tokens.
    """

    name: str
    id: str
    provider: str
    api: str
    context_window: int

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        """Yields the events of one response; stops early, with StreamError ``aborted``, once cancelled."""
        ...


@runtime_checkable
class CompletingModel(Protocol):
    """A model that can only answer whole."""

    name: str
    id: str
    provider: str
    api: str
    context_window: int

    def complete(self, request: ModelRequest, cancel: CancelToken) -> AssistantMessage:
        """Returns the whole response."""
        ...


AnyModel = Model | CompletingModel


class MessageFold:
    """Folds stream events into the assistant message they describe.

    Deltas go to their block by ``contentIndex``; a call without its end event is left out, since its arguments were
    never complete.
    """

    def __init__(self, model: AnyModel) -> None:
        self._model = model
        self._order: list[int] = []
        self._text: dict[int, list[str]] = {}
        self._blocks: dict[int, AssistantContent | None] = {}
        self._thinking: dict[int, ThinkingEnd | None] = {}
        self.ended: StreamDone | StreamError | None = None

    def add(self, event: ModelEvent) -> None:
        """Takes one event; events after the end are ignored."""
        if self.ended is not None:
            return
        match event:
            case StreamDone() | StreamError():
                self.ended = event
            case StreamStart():
                pass
            case ToolCallEnd():
                self._open(event.content_index)
                self._blocks[event.content_index] = event.tool_call
            case ThinkingStart() | ThinkingEnd():
                self._open(event.content_index)
                self._thinking[event.content_index] = event if isinstance(event, ThinkingEnd) else None
            case ThinkingDelta():
                self._open(event.content_index)
                self._thinking.setdefault(event.content_index, None)
                self._text[event.content_index].append(event.delta)
            case TextDelta():
                self._open(event.content_index)
                self._text[event.content_index].append(event.delta)
            case ToolCallStart():
                self._open(event.content_index)
                self._blocks[event.content_index] = None
            case TextStart():
                self._open(event.content_index)
            case _:
                pass

    def _open(self, index: int) -> None:
        if index not in self._text:
            self._order.append(index)
            self._text[index] = []

    def _block(self, index: int) -> AssistantContent | None:
        if index in self._blocks:
            return self._blocks[index]
        text = "".join(self._text[index])
        if index in self._thinking:
            end = self._thinking[index]
            return ThinkingContent(
                thinking=text,
                thinking_signature=end.thinking_signature if end else None,
                redacted=end.redacted if end else False,
            )
        return TextContent(text=text)

    def content(self) -> list[AssistantContent]:
        """Returns the blocks so far, in the order in which they were opened."""
        blocks = (self._block(index) for index in self._order)
        return [block for block in blocks if block is not None]

    def text(self) -> str:
        """Returns the text so far, whatever else the stream held."""
        texts = (self._text[index] for index in self._order if index not in self._thinking)
        return "".join(piece for pieces in texts for piece in pieces if isinstance(piece, str))

    def message(
        self, timestamp: int, *, stop_reason: StopReason | None = None, error: str | None = None
    ) -> AssistantMessage:
        """Returns the message so far; a given ``stop_reason`` overrides what the stream said."""
        reason, message, usage = stop_reason, error, None
        match self.ended:
            case StreamDone() as done:
                reason, usage = reason or done.reason, done.usage
            case StreamError() as failed:
                reason, usage = reason or failed.reason, failed.usage
                message = message or failed.error_message
            case None:
                reason = reason or "error"
                message = message or "The model's stream ended without an end marker."
        return AssistantMessage(
            content=self.content(),
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=usage,
            stop_reason=reason,
            error_message=message,
            timestamp=timestamp,
        )


def block_events(content: Sequence[AssistantContent], pieces: Callable[[str], Iterable[str]]) -> Iterator[ModelEvent]:
    """Yields the events that fold back into the blocks of ``content``; ``pieces`` cuts a text into deltas."""
    for index, block in enumerate(content):
        match block:
            case TextContent():
                yield TextStart(content_index=index)
                for piece in pieces(block.text):
                    yield TextDelta(content_index=index, delta=piece)
                yield TextEnd(content_index=index)
            case ThinkingContent():
                yield ThinkingStart(content_index=index)
                for piece in pieces(block.thinking):
                    yield ThinkingDelta(content_index=index, delta=piece)
                yield ThinkingEnd(
                    content_index=index,
                    thinking_signature=block.thinking_signature,
                    redacted=block.redacted,
                )
            case ToolCall():
                yield ToolCallStart(content_index=index, id=block.id, name=block.name)
                for piece in pieces(encode_line(block.arguments).decode()):
                    yield ToolCallDelta(content_index=index, delta=piece)
                yield ToolCallEnd(content_index=index, tool_call=block)
            case _:
                pass


def aborted(cancel: CancelToken, usage: Usage) -> StreamError:
    """Returns the end of a stream that was cancelled."""
    return StreamError(reason="aborted", error_message=cancel.reason or "cancelled", usage=usage)


def events_of_message(message: AssistantMessage) -> Iterator[ModelEvent]:
    """Yields the events that fold back into ``message``."""
    yield StreamStart()
    content: Sequence[AssistantContent] = (
        [TextContent(text=message.content)] if isinstance(message.content, str) else message.content
    )
    for event in block_events(content, lambda text: [text]):
        if not isinstance(event, ToolCallDelta):  # as Pi's faux provider: arguments that are whole come with the end
            yield event
    match message.stop_reason:
        case "error" | "aborted" as reason:
            yield StreamError(reason=reason, error_message=message.error_message or reason, usage=message.usage)
        case "stop" | "length" | "toolUse" as reason:
            yield StreamDone(reason=reason, usage=message.usage)
        case _:
            has_calls = any(isinstance(block, ToolCall) for block in content)
            yield StreamDone(reason="toolUse" if has_calls else "stop", usage=message.usage)


def stream_events(model: AnyModel, request: ModelRequest, cancel: CancelToken) -> Iterable[ModelEvent]:
    """Returns the events of one response of any model, one that only completes included."""
    if isinstance(model, Model):
        return model.stream(request, cancel)
    return events_of_message(model.complete(request, cancel))


def complete(model: AnyModel, request: ModelRequest, cancel: CancelToken, timestamp: int) -> AssistantMessage:
    """Returns the whole response of any model: the fold of its stream. ``timestamp`` in Unix milliseconds."""
    fold = MessageFold(model)
    for event in stream_events(model, request, cancel):
        fold.add(event)
    return fold.message(timestamp)
