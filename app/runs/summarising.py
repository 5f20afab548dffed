"""Work of a run that ends in a summary: older parts of a branch, or a branch that is left.

The model writes outside of every lock, the session takes the summary in one step. Nothing is stored before a summary is
whole: a failure or a stop leaves the session as it was.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from app.agent.run import now_ms
from app.protocol.cancel import Cancelled, CancelToken
from app.protocol.estimate import estimate_fixed, estimate_tokens
from app.protocol.events import Compaction, CompactionReason, RunStatus
from app.protocol.messages import CompactionSummaryMessage, text_of
from app.protocol.model import AnyModel, ModelRequest, complete
from app.runs.active import ActiveRun
from app.runs.batch import Compacted
from app.runs.equipment import Equipment
from app.runs.errors import Conflict
from app.runs.live import LiveSession
from app.runs.worker import Worker
from app.sessions.compaction import Preparation, Refused, budget_of, files_of, is_due, prepare, used_tokens
from app.sessions.outline import ITEM
from app.sessions.store import Session, StoreError
from app.sessions.summaries import (
    EmptySummary,
    branch_request,
    branch_speeches,
    compaction_request,
    details_of,
    finished_summary,
    parts_of,
    without_files,
)

LOGGER = logging.getLogger("hornbook.runs")


class NotSummarised(Exception):
    """There is no summary; the text says why."""


def _refusal(refused: Refused) -> Conflict:
    match refused.reason:
        case "empty":
            return Conflict("empty", "Nothing has been said here yet, so there is nothing to summarise.")
        case "already_compacted":
            return Conflict("already_compacted", "Everything before this point is summarised already.")
        case "unanswered_calls":
            return Conflict(
                "unanswered_calls",
                "The last answer asks for tools that have no result yet. Continue it, or stop it, first.",
            )
        case "nothing_gained":
            return Conflict(
                "nothing_gained", "There is nothing to gain: what is here is short enough to be sent whole."
            )


def is_full(live: LiveSession, equipment: Equipment) -> bool:
    """Returns whether the context has so little room left that older parts have to be summarised."""
    with live.lock:
        leaf = live.session.outline.leaf
    fixed = estimate_fixed(equipment.request([]))
    return is_due(context_tokens_at(live.session, leaf, fixed), equipment.model.context_window)


def make_room(worker: Worker, equipment: Equipment) -> bool:
    """Summarises older parts because there is no room; returns whether that was done. A failure is told, not raised."""
    try:
        _compact(worker, equipment, _prepared(worker.live, equipment), "threshold")
    except (Conflict, Cancelled, NotSummarised, StoreError):
        return False
    return True


@dataclass(frozen=True)
class Compacting:
    """The work of a run that summarises older parts because a person asked for it; ``focus`` is what matters most."""

    focus: str

    def __call__(self, worker: Worker, equipment: Equipment) -> RunStatus:
        def work() -> None:
            _compact(worker, equipment, _prepared(worker.live, equipment), "manual", self.focus)

        return _settled(worker.run, work)


@dataclass(frozen=True)
class Leaving:
    """The work of a run that moves to ``target`` and takes a summary of what is left along."""

    target: str | None
    focus: str

    def __call__(self, worker: Worker, equipment: Equipment) -> RunStatus:
        return _settled(worker.run, lambda: self._leave(worker, equipment))

    def _leave(self, worker: Worker, equipment: Equipment) -> None:
        live = worker.live
        with live.lock:
            leaf_id = live.session.leaf_id or ""
            places = left_places(live.session, self.target)
        left = [live.session.at(place).entry for place in places]
        budget = budget_of(equipment.model.context_window)
        speeches = branch_speeches(left, budget.room)
        text = _ask(
            equipment.model, branch_request(speeches, self.focus, max_tokens=budget.branch_summary), worker.run.cancel
        )
        files = files_of(left)
        read, modified = files.read_only, sorted(files.modified)
        worker.take_branch_summary(self.target, _whole(text, read, modified), leaf_id, details_of(read, modified))


def check_compaction(live: LiveSession, equipment: Equipment) -> None:
    """Raises Conflict, with the reason, where summarising older parts would do nothing."""
    _prepared(live, equipment)


def leaves_messages(session: Session, target: str | None) -> bool:
    """Returns whether a move to ``target`` leaves anything that was said."""
    return any(session.outline.flags[place] & ITEM for place in left_places(session, target))


def left_places(session: Session, target: str | None) -> list[int]:
    """Returns the positions, oldest first, of what a move to ``target`` leaves: the path down from where both part."""
    outline = session.outline
    kept = set(outline.up(session.position(target)))
    left = list(takewhile(lambda place: place not in kept, outline.up(outline.leaf)))
    left.reverse()
    return left


def context_tokens_at(session: Session, at: int, fixed: int) -> int:
    """Returns about how many tokens the context at a position has.

    As the model counted with its newest good answer, and an estimate of what follows; without one, an estimate of all
    with ``fixed`` for instructions and tools. What was counted before the newest compaction says nothing any more.
    """
    outline = session.outline
    size = outline.context_size(at).tokens
    for place in outline.up(at):
        if outline.kinds[place] == "compaction":
            break
        counted = used_tokens(session.at(place).entry) if outline.kinds[place] == "assistant" else 0
        if counted:
            return counted + size - outline.context_size(place).tokens
    return size + fixed


def _prepared(live: LiveSession, equipment: Equipment) -> Preparation:
    """Returns what is to be summarised. Raises Conflict where nothing is."""
    with live.lock:
        outline = live.session.outline
        first, leaf = outline.first_relevant(outline.leaf), outline.leaf
    places = []
    for place in outline.up(leaf):
        places.append(place)
        if place == first:
            break
    path = [live.session.at(place).entry for place in reversed(places)]
    found = prepare(path, budget_of(equipment.model.context_window).keep)
    if isinstance(found, Refused):
        raise _refusal(found)
    return found


def _compact(
    worker: Worker,
    equipment: Equipment,
    prepared: Preparation,
    reason: CompactionReason,
    focus: str = "",
) -> None:
    """Summarises and stores. Raises Cancelled, NotSummarised or StoreError; readers are told, and nothing is stored."""
    try:
        summary = _summary(worker, equipment, prepared, reason, focus)
        worker.take_compaction(
            Compacted(
                summary=summary,
                first_kept_entry_id=prepared.first_kept_entry_id,
                tokens_before=prepared.tokens_before,
                details=details_of(prepared.read_files, prepared.modified_files),
            ),
            reason,
        )
    except Cancelled as stop:
        worker.tell(Compaction(status="aborted", reason=reason, error=str(stop)))
        raise
    except (NotSummarised, StoreError) as problem:
        worker.tell(Compaction(status="failed", reason=reason, error=str(problem)))
        raise


def _summary(
    worker: Worker,
    equipment: Equipment,
    prepared: Preparation,
    reason: CompactionReason,
    focus: str,
) -> str:
    budget = budget_of(equipment.model.context_window)
    text, messages = prepared.previous_summary, list(prepared.messages)
    if estimate_tokens(text) > budget.summary:
        # Of a model with a larger window: it is summarised like what was said, since no request has room for it beside.
        messages.insert(0, CompactionSummaryMessage(summary=without_files(text)))
        text = ""
    parts = parts_of(messages, budget.room)
    for number, part in enumerate(parts, 1):
        worker.tell(Compaction(status="started", reason=reason, part=number, parts=len(parts)))
        split = prepared.split and number == len(parts)
        request = compaction_request(part, text, focus, max_tokens=budget.summary, split=split)
        text = _ask(equipment.model, request, worker.run.cancel)
    summary = _whole(text, prepared.read_files, prepared.modified_files)
    if estimate_tokens(summary) + prepared.tokens_kept >= prepared.tokens_before:
        raise NotSummarised("The summary would be longer than what it replaces.")
    return summary


def _ask(model: AnyModel, request: ModelRequest, cancel: CancelToken) -> str:
    """Returns what the model wrote. Raises Cancelled, or NotSummarised when it failed."""
    cancel.check()
    try:
        answered = complete(model, request, cancel, now_ms())
    except Cancelled:
        raise
    except Exception as problem:
        LOGGER.warning("a summary failed: %s", problem, exc_info=True)
        raise NotSummarised(str(problem) or type(problem).__name__) from problem
    cancel.check()
    if answered.stop_reason in ("error", "aborted") or not text_of(answered.content).strip():
        raise NotSummarised(answered.error_message or "The model wrote nothing.")
    return text_of(answered.content)


def _whole(text: str, read: Sequence[str], modified: Sequence[str]) -> str:
    try:
        return finished_summary(text, read, modified)
    except EmptySummary as problem:
        raise NotSummarised("The model wrote nothing.") from problem


def _settled(run: ActiveRun, work: Callable[[], None]) -> RunStatus:
    """Does the work and returns how the run ends; ``run.error`` says why when not well."""
    try:
        work()
    except Cancelled:
        return "aborted"
    except (Conflict, NotSummarised, StoreError) as problem:
        run.error = str(problem)
        return "error"
    return "done"
