"""The agent loop: model, tools, model, tools, until the model asks for no more tools.

It can be taken up at any point of a conversation: calls of the last assistant message that have no result yet are
answered first. Every call gets exactly one result, in source order, whatever happens. When a person is needed the loop
returns ``waiting``; it is called again once there is a settlement.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from app.agent.results import failed, not_run, result_payload
from app.protocol.cancel import Cancelled, CancelToken
from app.protocol.events import (
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunStatus,
    ToolDecisionMade,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from app.protocol.messages import (
    AssistantMessage,
    Message,
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
    ToolCallEnd,
    ToolCallStart,
    stream_events,
)
from app.protocol.tools import (
    Allow,
    BeforeToolCall,
    Block,
    Confirm,
    Effect,
    Park,
    Rewrite,
    Settlement,
    ToolContext,
    ToolDecision,
    ToolDefinition,
    ToolError,
    ToolResult,
)
from app.protocol.validation import validate

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
    path. ``turn_open`` says that the first turn was announced already (with the user's message in it).
    ``before_effect`` is asked by tools right before a change, see ToolContext.
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
    turn_open: bool = False
    before_effect: Callable[[ToolCall, Effect], bool] = lambda call, effect: True
    clock: Callable[[], int] = now_ms
    new_call_id: Callable[[], str] = new_call_id


@dataclass(frozen=True)
class RunResult:
    """What a run made: its messages (assistant and tool result), its events, how it ended, and what it waits for."""

    new_messages: list[Message]
    events: list[LoopEvent]
    status: RunStatus
    parked: Park | None = None
    parked_call: ToolCall | None = None


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
        self._used_ids = set(context.used_call_ids)
        self._tools = {tool.name: tool for tool in context.tools}
        self._parked: tuple[Park, ToolCall] | None = None

    def emit(self, event: LoopEvent) -> None:
        self._events.append(event)
        self._on_event(event)

    def result(self, status: RunStatus) -> RunResult:
        parked, call = self._parked or (None, None)
        return RunResult(self._new, self._events, status, parked, call)

    def turns_taken(self) -> int:
        """Counts the model's responses since the last message of a person, those before a resume included."""
        count = 0
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
        new_ids: dict[int, str] = {}
        for event in _model_events(context.model, request, context.cancel):
            if not started:
                self.emit(MessageStart(message=self._blank()))
                started = True
            if context.cancel.cancelled and not isinstance(event, StreamError):
                break
            event = self._with_fresh_id(event, new_ids)
            fold.add(event)
            if isinstance(event, StreamDone | StreamError):
                break
            if not isinstance(event, StreamStart):
                self.emit(MessageUpdate(assistant_message_event=event))
        if not started:
            self.emit(MessageStart(message=self._blank()))
        if context.cancel.cancelled and not isinstance(fold.ended, StreamDone):
            message = fold.message(context.clock(), stop_reason="aborted", error=context.cancel.reason)
        else:
            message = fold.message(context.clock())
        self._add(message)
        return message

    def _with_fresh_id(self, event: ModelEvent, new_ids: dict[int, str]) -> ModelEvent:
        """Replaces a call id that is empty or taken, so that a result always belongs to one call."""
        if isinstance(event, ToolCallStart) and event.id:
            return ToolCallStart(
                content_index=event.content_index,
                id=self._fresh(event.id, event.content_index, new_ids),
                name=event.name,
            )
        if isinstance(event, ToolCallEnd):
            call = event.tool_call
            return ToolCallEnd(
                content_index=event.content_index,
                tool_call=ToolCall(
                    id=self._fresh(call.id, event.content_index, new_ids),
                    name=call.name,
                    arguments=call.arguments,
                    thought_signature=call.thought_signature,
                ),
            )
        return event

    def _fresh(self, call_id: str, index: int, new_ids: dict[int, str]) -> str:
        if index not in new_ids:
            taken = not call_id.strip() or call_id in self._used_ids
            new_ids[index] = self.context.new_call_id() if taken else call_id
            self._used_ids.add(new_ids[index])
        return new_ids[index]

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
                outcome = self._outcome(call, settlement)
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
        message = _result_message(call, result, self.context.clock())
        self.emit(
            MessageStart(
                message=ToolResultMessage(
                    tool_call_id=call.id, tool_name=call.name, content=[], is_error=result.is_error
                )
            )
        )
        self._add(message)

    def _outcome(self, call: ToolCall, settlement: Settlement | None) -> ToolResult | Park:
        """Returns the result of one call, or Park; never raises for anything that the call causes."""
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(self._tools)) or "none"
            return failed(f"There is no tool named {call.name!r}. The tools are: {names}.")
        if settlement is not None and settlement.status in ("denied", "cancelled", "setAside"):
            return not_run(str(settlement.data or settlement.status))
        try:
            validate(call.arguments, tool.parameters)
            decision = self._decide(call)
            approved = settlement is not None and settlement.status == "approved"
            args = _args_after(call, decision)
            self._announce(call, decision, args)
            if isinstance(decision, Block):
                return failed(f"Blocked: {decision.reason}")
            if isinstance(decision, Confirm) and not approved:
                return Park("approval", {"toolName": call.name, "args": args, "prompt": decision.prompt})
            parameters = validate(args, tool.parameters)
            tool_context = self._tool_context(call)
            if settlement is not None and tool.settle is not None and not approved:
                return tool.settle(parameters, settlement, tool_context)
            return tool.execute(parameters, tool_context)
        except Cancelled as stop:
            return failed(f"Stopped: {stop}")
        except ToolError as refusal:
            return failed(str(refusal))
        except Exception as problem:
            return failed(f"The tool {call.name} failed: {type(problem).__name__}: {problem}")

    def _decide(self, call: ToolCall) -> ToolDecision:
        """Asks the hook; one that raises blocks, since a broken guard must not let things pass."""
        try:
            return self.context.before_tool_call(call)
        except Exception as problem:
            reason = f"the permission check failed ({type(problem).__name__}: {problem})"
            return Block(reason, rule="hook-error")

    def _announce(self, call: ToolCall, decision: ToolDecision, args: dict[str, Any]) -> None:
        names = {Allow: "allow", Block: "block", Rewrite: "rewrite", Confirm: "confirm"}
        reason = ""
        if isinstance(decision, Block | Rewrite):
            reason = decision.reason
        elif isinstance(decision, Confirm):
            reason = decision.prompt
        self.emit(
            ToolDecisionMade(
                tool_call_id=call.id,
                tool_name=call.name,
                decision=names[type(decision)],  # type: ignore[arg-type]
                args_before=call.arguments,
                args_after=args,
                rule=decision.rule,
                reason=reason,
            )
        )

    def _tool_context(self, call: ToolCall) -> ToolContext:
        def update(partial: str) -> None:
            self.emit(ToolExecutionUpdate(tool_call_id=call.id, tool_name=call.name, partial_result=partial))

        return ToolContext(
            cancel=self.context.cancel,
            before_effect=lambda effect: self.context.before_effect(call, effect),
            update=update,
        )


def _args_after(call: ToolCall, decision: ToolDecision) -> dict[str, Any]:
    if isinstance(decision, Rewrite | Confirm) and decision.args is not None:
        return decision.args
    return call.arguments


def _result_message(call: ToolCall, result: ToolResult, timestamp: int) -> ToolResultMessage:
    payload = {} if result.details is None else {"details": result.details}
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=result.content,
        is_error=result.is_error,
        timestamp=timestamp,
        **payload,
    )


def _model_events(model: AnyModel, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
    """Yields the model's events; what the model raises becomes the event that ends its stream."""
    try:
        yield from stream_events(model, request, cancel)
    except Cancelled as stop:
        yield StreamError(reason="aborted", error_message=str(stop))
    except Exception as problem:
        yield StreamError(reason="error", error_message=f"{type(problem).__name__}: {problem}")
