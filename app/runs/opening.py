"""What happens when a session file is opened: its last run is looked at, and what a crash left undone is mended."""

from app.protocol.events import AgentEnd, Event, RunDone, RunStatus
from app.protocol.messages import AssistantMessage, tool_calls_of
from app.runs.batch import Batch
from app.runs.history import RunRecord, runs_of
from app.runs.live import LiveSession
from app.runs.log import LogScan
from app.runs.repair import logged_as_done, missing_events
from app.sessions.store import StoreError


def take_up(live: LiveSession, scan: LogScan) -> list[str]:
    """Repairs the events of the last run and sets the state; returns the ids of all runs of the file.

    A run that had nothing left to do but to end is ended; one that had more to do is ``interrupted`` and can be
    continued. A session that is read-only here is not touched.
    """
    runs = runs_of(live.entries())
    if runs:
        last = runs[-1]
        live.log.keep_in_memory(scan, last.run_id)
        if not live.session.read_only:
            _repair(live, last, [record.event for record in scan.of_run(last.run_id)])
    return [run.run_id for run in runs]


def _repair(live: LiveSession, run: RunRecord, logged: list[Event]) -> None:
    end = logged_as_done(logged)
    outcome = run.outcome or (end.status if end else None) or _complete(live, run)
    with live.lock:
        if outcome is not None and run.outcome is None:
            outcome = outcome if _store_end(live, run, outcome) else None
        events = missing_events(run, logged) if end is None else []
        if outcome is not None and end is None:
            events += _end_events(live, run, outcome, len(events))
        live.emit(events, run.run_id)
        if outcome is None:
            live.interrupted = run.run_id


def _complete(live: LiveSession, run: RunRecord) -> str | None:
    """Returns "done" when the model's last word is stored and nothing waits, else None."""
    if not run.messages or live.queue or run.messages[-1].id != live.session.leaf_id:
        return None
    message = run.messages[-1].message
    if not isinstance(message, AssistantMessage) or tool_calls_of(message):
        return None
    return "done" if message.stop_reason in ("stop", "length") else None


def _store_end(live: LiveSession, run: RunRecord, outcome: str) -> bool:
    batch = Batch(live.session)
    batch.run(run.run_id, "done", outcome)
    try:
        live.session.append_all(batch.entries)
    except StoreError:
        return False
    return True


def _end_events(live: LiveSession, run: RunRecord, outcome: str, before: int) -> list[Event]:
    status: RunStatus = outcome if outcome in ("done", "error", "aborted", "interrupted") else "error"  # type: ignore[assignment]
    return [
        AgentEnd(messages=[entry.id for entry in run.messages], recovered=True),
        RunDone(
            session_id=live.id,
            status=status,
            leaf_id=live.session.leaf_id,
            last_seq=live.log.last_seq(run.run_id) + before + 2,
            recovered=True,
        ),
    ]
