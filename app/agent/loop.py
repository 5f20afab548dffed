"""The agent loop: model, tools, model, tools, until the model asks for no more tools.

It can be taken up at any point of a conversation: calls of the last assistant message that have no result yet are
answered first. Every call gets exactly one result, in source order, whatever happens. When a person is needed the loop
returns ``waiting``; it is called again once there is a settlement.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from app.agent.call_ids import CallIds
from app.agent.calls import Calls
from app.agent.results import in_words, not_run, result_message, result_payload
from app.agent.run import MAX_TURNS_EXCEEDED, LoopStatus, RunContext, RunResult
from app.protocol.cancel import Cancelled, CancelToken
from app.protocol.codec import decode_as, encode_line
from app.protocol.events import (
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from app.protocol.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    tool_calls_of,
    unanswered_calls,
)
from app.protocol.model import (
    AnyModel,
    MessageFold,
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamError,
    StreamStart,
    stream_events,
)
from app.protocol.tools import Park, ToolResult


def run_agent_loop(context: RunContext, on_event: Callable[[LoopEvent], None]) -> RunResult:
    """Runs until the model asks for no tool, a person is needed, or something ends it.

    ``on_event`` gets each event as it happens and stores messages at ``message_end``; what it raises ends the loop and
    goes to the caller. Nothing else raises: failures of the model and of tools become messages.
    """
    loop = _Loop(context, on_event)
    assistant, calls = unanswered_calls(context.messages)
    if assistant is not None:
        if calls:
            if loop.answer(assistant, calls) is not None:
                return loop.result("waiting")
            loop.end_turn(assistant)
        elif not tool_calls_of(assistant) and assistant.stop_reason in ("stop", "length"):
            return loop.result("done")
    turn_open = context.turn_open
    while True:
        if context.cancel.cancelled:
            if turn_open:
                loop.emit(TurnEnd(stop_reason="aborted"))
            return loop.result("aborted")
        if loop.has_turned and context.pause():
            return loop.result("paused")
        if not turn_open:
            loop.emit(TurnStart())
        turn_open = False
        if loop.turns_taken() >= context.max_turns:
            loop.end_turn(loop.give_up())
            return loop.result("error")
        assistant = loop.ask_model()
        calls = tool_calls_of(assistant)
        if calls and loop.answer(assistant, calls) is not None:
            return loop.result("waiting")
        loop.end_turn(assistant)
        if assistant.stop_reason in ("error", "aborted"):
            return loop.result("aborted" if assistant.stop_reason == "aborted" else "error")
        if not calls:
            return loop.result("done")


class _Loop:
    """The steps of one run and what it has made so far."""

    def __init__(self, context: RunContext, on_event: Callable[[LoopEvent], None]) -> None:
        self.context = context
        self._on_event = on_event
        self._events: list[LoopEvent] = []
        self._messages: list[Message] = list(context.messages)
        self._new: list[Message] = []
        self._ids = CallIds(context.used_call_ids, context.new_call_id)
        self._calls = Calls(context, self.emit)
        self._parked: tuple[Park, ToolCall] | None = None

    def emit(self, event: LoopEvent) -> None:
        self._events.append(event)
        self._on_event(event)

    @property
    def has_turned(self) -> bool:
        """Whether anything was done yet."""
        return bool(self._new)

    def result(self, status: LoopStatus) -> RunResult:
        parked, call = self._parked or (None, None)
        return RunResult(self._new, self._events, status, parked, call)

    def turns_taken(self) -> int:
        """Counts the model's responses since the last message of a person, those before a resume included."""
        count = self.context.turns_before
        for message in reversed(self._messages):
            if isinstance(message, UserMessage):
                break
            count += isinstance(message, AssistantMessage)
        return count

    def end_turn(self, assistant: AssistantMessage) -> None:
        calls = [call.id for call in tool_calls_of(assistant)]
        self.emit(TurnEnd(stop_reason=assistant.stop_reason or "stop", tool_results=calls))

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._new.append(message)
        self.emit(MessageEnd(message=message))

    def _blank(self) -> AssistantMessage:
        model = self.context.model
        return AssistantMessage(
            content=[], api=model.api, provider=model.provider, model=model.id, timestamp=self.context.clock()
        )

    def give_up(self) -> AssistantMessage:
        """Ends a run that has used up its turns with a message that says so."""
        self.emit(MessageStart(message=self._blank()))
        message = MessageFold(self.context.model).message(
            self.context.clock(), stop_reason="error", error=MAX_TURNS_EXCEEDED
        )
        self._add(message)
        return message

    # The model

    def ask_model(self) -> AssistantMessage:
        """Streams one response of the model and returns it; a failure or a stop is part of the message."""
        context = self.context
        request = ModelRequest(
            system_prompt=context.system_prompt,
            messages=list(self._messages),
            tools=[tool.spec() for tool in context.tools],
        )
        fold = MessageFold(context.model)
        started = False
        self._ids.next_message()
        for event in _model_events(context.model, request, context.cancel):
            if not started:
                self.emit(MessageStart(message=self._blank()))
                started = True
            if context.cancel.cancelled and not isinstance(event, StreamError):
                break
            try:
                event = self._ids.settle(event)
                fold.add(event)
            except Exception as problem:
                event = StreamError(
                    reason="error", error_message=f"The model sent what does not fit: {in_words(problem)}"
                )
                fold.add(event)
            if isinstance(event, StreamDone | StreamError):
                break
            if not isinstance(event, StreamStart):
                self.emit(MessageUpdate(assistant_message_event=event))
        if not started:
            self.emit(MessageStart(message=self._blank()))
        stopped = context.cancel.cancelled and not isinstance(fold.ended, StreamDone)
        message = self._storable(fold, "aborted" if stopped else None, context.cancel.reason if stopped else None)
        self._add(message)
        return message

    def _storable(self, fold: MessageFold, stop_reason: StopReason | None, error: str | None) -> AssistantMessage:
        """Returns the message, or what text there is of one that could not be stored as the model made it."""
        try:
            message = fold.message(self.context.clock(), stop_reason=stop_reason, error=error)
            decode_as(encode_line(message), AssistantMessage)
            return message
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as problem:
            return msgspec.structs.replace(
                self._blank(),
                content=[TextContent(text=fold.text())],
                stop_reason="error",
                error_message=f"The model sent a message that does not fit: {in_words(problem)}",
            )

    # The tools

    def answer(self, assistant: AssistantMessage, calls: Sequence[ToolCall]) -> Park | None:
        """Gives each call its result, in order; returns a Park, and leaves the rest, when a person is needed."""
        broken_off = assistant.stop_reason in ("error", "aborted")
        for call in calls:
            started = time.monotonic()
            settlement = self.context.settlements.get(call.id)
            if settlement is None:
                self.emit(ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args=call.arguments))
            if self.context.cancel.cancelled:
                outcome: ToolResult | Park = not_run(self.context.cancel.reason)
            elif broken_off:
                outcome = not_run("the message that asked for it was broken off")
            else:
                outcome = self._calls.outcome(call, settlement)
            if isinstance(outcome, Park):
                self._parked = (outcome, call)
                return outcome
            self._finish(call, outcome, int((time.monotonic() - started) * 1000))
        return None

    def _finish(self, call: ToolCall, result: ToolResult, duration_ms: int) -> None:
        self.emit(
            ToolExecutionEnd(
                tool_call_id=call.id,
                tool_name=call.name,
                result=result_payload(result),
                is_error=result.is_error,
                duration_ms=duration_ms,
            )
        )
        message = result_message(call, result, self.context.clock())
        self.emit(
            MessageStart(
                message=ToolResultMessage(
                    tool_call_id=call.id, tool_name=call.name, content=[], is_error=result.is_error
                )
            )
        )
        self._add(message)


def _model_events(model: AnyModel, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
    """Yields the model's events; what the model raises becomes the event that ends its stream."""
    try:
        yield from stream_events(model, request, cancel)
    except Cancelled as stop:
        yield StreamError(reason="aborted", error_message=str(stop))
    except Exception as problem:
        yield StreamError(reason="error", error_message=in_words(problem))
