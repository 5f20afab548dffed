"""The worker of a run: puts model, tools, hooks and session together, and goes on until there is nothing to do."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.agent.guards import nobody_to_ask
from app.agent.hooks import compose
from app.agent.loop import run_agent_loop
from app.agent.run import MAX_TURNS, RunContext
from app.protocol.events import RunStatus
from app.protocol.model import AnyModel
from app.protocol.tools import BeforeToolCall, ToolDefinition
from app.render.markdown import render_markdown
from app.runs.active import ActiveRun
from app.runs.live import LiveSession
from app.runs.rendering import MessageRenderer, Render

LOGGER = logging.getLogger("hornbook.runs")


@dataclass(frozen=True)
class Equipment:
    """What every run works with. ``render`` makes HTML of what the model writes; it knows where links lead."""

    model: AnyModel
    tools: Sequence[ToolDefinition]
    hooks: Sequence[BeforeToolCall]
    system_prompt: str
    max_turns: int = MAX_TURNS
    render: Render = render_markdown


def conduct(live: LiveSession, run: ActiveRun, equipment: Equipment) -> None:
    """Works until the run is over. Always ends the run, whatever goes wrong; returns nothing and raises nothing."""
    while True:
        status: RunStatus = "error"
        error = ""
        try:
            status = _run_once(live, run, equipment)
        except BaseException as problem:  # SystemExit of a tool, too, must not leave the session running for ever
            LOGGER.exception("run %s failed", run.run_id)
            error = str(problem) or type(problem).__name__
        if not live.next_or_finish(run, status, error):
            return


def _run_once(live: LiveSession, run: ActiveRun, equipment: Equipment) -> RunStatus:
    messages, used_call_ids = live.context()
    context = RunContext(
        system_prompt=equipment.system_prompt,
        messages=messages,
        tools=equipment.tools,
        model=equipment.model,
        before_tool_call=nobody_to_ask(compose(equipment.hooks)),
        cancel=run.cancel,
        used_call_ids=used_call_ids,
        max_turns=equipment.max_turns,
        turn_open=run.turn_open,
        before_effect=live.before_effect,
    )
    run.turn_open = False
    renderer = MessageRenderer(equipment.render)
    return run_agent_loop(context, lambda event: live.record(run, event, renderer.shown(event))).status
