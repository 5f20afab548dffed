"""Composing hooks that decide about a tool call before it runs."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from app.agent.results import in_words
from app.protocol.messages import ToolCall
from app.protocol.tools import Allow, BeforeToolCall, Block, Confirm, Rewrite, ToolDecision


def compose(hooks: Sequence[BeforeToolCall]) -> BeforeToolCall:
    """Returns one hook that asks all ``hooks`` in order.

    Each sees the arguments as earlier ones rewrote them. The first Block ends it; a Confirm is kept while later hooks
    are asked, since one of them may still block. A hook that raises blocks.
    """

    def decide(call: ToolCall) -> ToolDecision:
        args: dict[str, Any] = call.arguments
        decided: ToolDecision = Allow()
        for hook in hooks:
            decision = decision_of(hook, ToolCall(id=call.id, name=call.name, arguments=args))
            if isinstance(decision, Block):
                return decision
            if isinstance(decision, Rewrite):
                args = decision.args
                if isinstance(decided, Confirm):
                    decided = Confirm(decided.prompt, decided.rule, args)
                else:
                    decided = _merged(decided, decision)
            elif isinstance(decision, Confirm) and not isinstance(decided, Confirm):
                rewritten = args if decision.args is None else decision.args
                decided = Confirm(decision.prompt, decision.rule, rewritten)
        return decided

    return decide


def _merged(earlier: ToolDecision, later: Rewrite) -> Rewrite:
    """Names both rules when two hooks rewrote the same call."""
    if not isinstance(earlier, Rewrite):
        return later
    rules = " + ".join(rule for rule in (earlier.rule, later.rule) if rule)
    return Rewrite(later.args, f"{earlier.reason}; {later.reason}", rules)


def decision_of(hook: BeforeToolCall, call: ToolCall) -> ToolDecision:
    """Returns what a hook decides. One that raises, or gives no decision, blocks: a broken guard lets nothing pass.

    The hook gets a copy of the arguments, so that it can change them by a Rewrite only, which is seen.
    """
    try:
        decision = hook(ToolCall(id=call.id, name=call.name, arguments=deepcopy(call.arguments)))
    except BaseException as problem:
        return Block(f"the permission check failed ({in_words(problem)})", rule="hook-error")
    if isinstance(decision, Rewrite | Confirm):
        fits = isinstance(decision.args, dict) or (isinstance(decision, Confirm) and decision.args is None)
    else:
        fits = isinstance(decision, Allow | Block)
    return decision if fits else Block("the permission check gave no decision", rule="hook-error")
