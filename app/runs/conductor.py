"""The worker of a run: puts model, tools, hooks and session together, and goes on until there is nothing to do."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from app.agent.guards import nobody_to_ask
from app.agent.hooks import compose
from app.agent.loop import run_agent_loop
from app.agent.run import LoopStatus, RunContext
from app.protocol.events import RunStatus
from app.protocol.messages import AssistantMessage, Message, UserMessage
from app.runs.active import ActiveRun
from app.runs.equipment import Equipment
from app.runs.live import LiveSession
from app.runs.rendering import MessageRenderer
from app.runs.summarising import is_full, make_room
from app.runs.worker import Worker

LOGGER = logging.getLogger("hornbook.runs")

Work = Callable[[Worker, Equipment], RunStatus]


def conduct(live: LiveSession, run: ActiveRun, equipment: Equipment, work: Work | None = None) -> None:
    """Works until the run is over: at first ``work``, if it is for something else than an answer.

    Always ends the run, whatever goes wrong; returns nothing and raises nothing.
    """
    worker = Worker(live, run)
    step = work or answer
    while True:
        status: RunStatus = "error"
        error = ""
        try:
            status = step(worker, equipment)
        except BaseException as problem:  # SystemExit of a tool, too, must not leave the session running for ever
            LOGGER.exception("run %s failed", run.run_id)
            error = str(problem) or type(problem).__name__
        if not worker.next_or_finish(status, error or run.error):
            return
        step = answer


def answer(worker: Worker, equipment: Equipment) -> RunStatus:
    """Answers what stands at the leaf; older parts are summarised before, between turns and after, when they must be.

    Where no room can be made the tutor goes on all the same: the model will say what does not fit.
    """
    full = partial(is_full, worker.live, equipment)
    status: LoopStatus = "paused"
    while status == "paused":
        may_pause = not full() or make_room(worker, equipment)
        status = _run_loop(worker, equipment, full if may_pause else lambda: False)
    if status == "done" and full():
        make_room(worker, equipment)
    return status


def _run_loop(worker: Worker, equipment: Equipment, pause: Callable[[], bool]) -> LoopStatus:
    run = worker.run
    messages, used_call_ids, turns = worker.context()
    context = RunContext(
        system_prompt=equipment.system_prompt,
        messages=messages,
        tools=equipment.tools,
        model=equipment.model,
        before_tool_call=nobody_to_ask(compose(equipment.hooks)),
        cancel=run.cancel,
        used_call_ids=used_call_ids,
        max_turns=equipment.max_turns,
        turns_before=max(0, turns - _turns_in(messages)),
        turn_open=run.turn_open,
        before_effect=worker.before_effect,
        pause=pause,
    )
    run.turn_open = False
    renderer = MessageRenderer(equipment.render)
    return run_agent_loop(context, lambda event: worker.record(event, renderer.shown(event))).status


def _turns_in(messages: Sequence[Message]) -> int:
    """How many responses since the person's last message are in the context."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        count += isinstance(message, AssistantMessage)
    return count
