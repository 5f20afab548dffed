"""What happens when a session file is opened: what a crash left undone in its runs and its log is mended."""

from collections.abc import Sequence

from app.protocol.entries import MessageEntry
from app.protocol.events import AgentEnd, Event, RunDone, RunStatus
from app.protocol.messages import AssistantMessage, tool_calls_of
from app.runs.batch import Batch
from app.runs.history import RunRecord
from app.runs.live import LiveSession
from app.runs.log import LogScan
from app.runs.repair import logged_as_done, missing_events, missing_session_events
from app.sessions.store import StoreError


def take_up(live: LiveSession, scan: LogScan) -> None:
    """Repairs the log and sets the state.

    A last run that had nothing left to do but to end is ended; one that had more to do is ``interrupted`` and can be
    continued. Earlier runs are over, so those whose end is not in the log get it there. A session that is read-only
    here is not touched.
    """
    runs = list(live.history.runs.values())
    if runs:
        live.log.keep_in_memory(scan, runs[-1].run_id)
    with live.lock:
        for record in scan.records:
            live.journal.workings.add(record.event)
        live.journal.workings.nothing_runs()
    if not live.session.read_only:
        with live.lock:
            _mend(live, runs, scan)


def _mend(live: LiveSession, runs: Sequence[RunRecord], scan: LogScan) -> None:
    logged = scan.by_run()
    told = [record.event for record in scan.records]
    for run in runs[:-1]:
        events = logged.get(run.run_id, [])
        if logged_as_done(events) is None:
            leaf_id = run.messages[-1] if run.messages else None
            told += _emit_rest(live, run, events, run.outcome or "interrupted", leaf_id)
    if runs:
        told += _mend_last(live, runs[-1], logged.get(runs[-1].run_id, []))
    if told:
        fold, name = live.history, live.session.outline.name
        live.journal.emit(missing_session_events(told, fold.queue, fold.returned, live.session.leaf_id, name))


def _mend_last(live: LiveSession, run: RunRecord, logged: list[Event]) -> list[Event]:
    if logged_as_done(logged) is not None:
        if run.outcome is None:
            live.unstored_end = run.run_id
        return []
    outcome = run.outcome or _due_end(live, run)
    if outcome is None:
        live.interrupted = run.run_id
    return _emit_rest(live, run, logged, outcome, live.session.leaf_id)


def _due_end(live: LiveSession, run: RunRecord) -> str | None:
    """Stores and returns how a run ends that has nothing to continue; None when there is, or it cannot be stored."""
    if run.kind != "prompt" or not run.messages:
        outcome = "interrupted"  # not even its message came to the disk, or it was to make none
    elif _complete(live, run):
        outcome = "done"
    else:
        return None
    batch = Batch(live.session)
    batch.run(run.run_id, "done", outcome)
    try:
        live.journal.append(batch)
    except StoreError:
        return None
    return outcome


def _complete(live: LiveSession, run: RunRecord) -> bool:
    """Returns whether the model's last word is stored and nothing waits."""
    if live.queue or run.messages[-1] != live.session.leaf_id:
        return False
    message = _messages_of(live, run)[-1].message
    if not isinstance(message, AssistantMessage) or tool_calls_of(message):
        return False
    return message.stop_reason in ("stop", "length")


def _messages_of(live: LiveSession, run: RunRecord) -> list[MessageEntry]:
    entries = (live.session.get(entry_id) for entry_id in run.messages)
    return [entry for entry in entries if isinstance(entry, MessageEntry)]


def _emit_rest(
    live: LiveSession, run: RunRecord, logged: Sequence[Event], outcome: str | None, leaf_id: str | None
) -> list[Event]:
    """Emits what the run's log lacks, with an outcome up to its end; returns that."""
    events = missing_events(_messages_of(live, run), logged)
    if outcome is not None:
        if not any(isinstance(event, AgentEnd) for event in logged):
            events.append(AgentEnd(messages=list(run.messages), recovered=True))
        events.append(
            RunDone(
                session_id=live.id,
                status=_status(outcome),
                leaf_id=leaf_id,
                last_seq=live.log.last_seq(run.run_id) + len(events) + 1,
                recovered=True,
            )
        )
    live.journal.emit(events, run.run_id)
    return events


def _status(outcome: str) -> RunStatus:
    match outcome:
        case "done" | "aborted" | "interrupted":
            return outcome
    return "error"
