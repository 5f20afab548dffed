"""One tool call: look the tool up, check the arguments, ask the rules, run it."""

from collections.abc import Callable
from typing import Any

from app.agent.hooks import decision_of
from app.agent.results import checked, failed, in_words, not_run
from app.agent.run import RunContext
from app.protocol.cancel import Cancelled
from app.protocol.events import LoopEvent, ToolDecisionMade, ToolExecutionUpdate
from app.protocol.messages import ToolCall
from app.protocol.tools import (
    Allow,
    Block,
    Confirm,
    Park,
    Rewrite,
    Settlement,
    ToolContext,
    ToolDecision,
    ToolError,
    ToolResult,
)
from app.protocol.validation import validate


class Calls:
    """Runs calls one by one. What goes wrong in a hook or a tool becomes the call's result."""

    def __init__(self, context: RunContext, emit: Callable[[LoopEvent], None]) -> None:
        self._context = context
        self._emit = emit
        self._tools = {tool.name: tool for tool in context.tools}

    def outcome(self, call: ToolCall, settlement: Settlement | None) -> ToolResult | Park:
        """Returns the result of one call, or Park; never raises for anything that the call causes."""
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(self._tools)) or "none"
            return failed(f"There is no tool named {call.name!r}. The tools are: {names}.")
        if settlement is not None and settlement.status in ("denied", "cancelled", "setAside"):
            return not_run(str(settlement.data or settlement.status))
        try:
            validate(call.arguments, tool.parameters)
            decision = decision_of(self._context.before_tool_call, call)
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
                return checked(call, tool.settle(parameters, settlement, tool_context))
            return checked(call, tool.execute(parameters, tool_context))
        except Cancelled as stop:
            return failed(f"Stopped: {stop}")
        except ToolError as refusal:
            return failed(str(refusal))
        except BaseException as problem:
            return failed(f"The tool {call.name} failed: {in_words(problem)}")

    def _announce(self, call: ToolCall, decision: ToolDecision, args: dict[str, Any]) -> None:
        names = {Allow: "allow", Block: "block", Rewrite: "rewrite", Confirm: "confirm"}
        reason = ""
        if isinstance(decision, Block | Rewrite):
            reason = decision.reason
        elif isinstance(decision, Confirm):
            reason = decision.prompt
        self._emit(
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
            self._emit(ToolExecutionUpdate(tool_call_id=call.id, tool_name=call.name, partial_result=partial))

        return ToolContext(
            cancel=self._context.cancel,
            before_effect=lambda effect: self._context.before_effect(call, effect),
            update=update,
        )


def _args_after(call: ToolCall, decision: ToolDecision) -> dict[str, Any]:
    if isinstance(decision, Rewrite | Confirm) and decision.args is not None:
        return decision.args
    return call.arguments
