"""All open sessions of this process, and what can be asked of them. The web and the API talk to this."""

import re
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from app.protocol.events import QueuedMessage
from app.runs.conductor import Equipment, conduct
from app.runs.errors import Conflict, NotFound, NotStored, RunError
from app.runs.eventlog import JsonlEventLog
from app.runs.executor import Executor, ThreadExecutor
from app.runs.live import ActiveRun, LiveSession, new_run_id
from app.runs.opening import take_up
from app.sessions.store import SessionStore, SessionSummary, StoreError, UnknownSession

MAX_FINISHED_RUNS = 100
ABORT_SECONDS = 10.0
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Started:
    """A run that was started."""

    live: LiveSession
    run: ActiveRun


@dataclass(frozen=True)
class Queued:
    """A message that waits behind a run."""

    live: LiveSession
    run: ActiveRun
    message: QueuedMessage


class Supervisor:
    """Opens sessions once, starts workers, finds runs. Safe to call from any thread."""

    def __init__(
        self,
        store: SessionStore,
        runs_folder: Path,
        trash_folder: Path,
        equipment: Equipment,
        *,
        cwd: str,
        executor: Executor | None = None,
        max_finished_runs: int = MAX_FINISHED_RUNS,
    ) -> None:
        self.equipment = equipment
        self._store = store
        self._runs_folder = runs_folder
        self._trash_folder = trash_folder
        self._cwd = cwd
        self._executor = executor or ThreadExecutor()
        self._lock = threading.Lock()
        self._choosing = threading.Lock()
        self._open: dict[str, LiveSession] = {}
        self._session_of_run: dict[str, str] = {}
        self._finished: deque[tuple[LiveSession, str]] = deque()
        self._max_finished = max_finished_runs
        self._last_used: str | None = None

    # Sessions

    def open(self, session_id: str) -> LiveSession:
        """Returns an open session, opening and repairing its file if need be. Raises NotFound."""
        with self._lock:
            live = self._open.get(session_id)
            return live if live is not None else self._open_file(session_id)

    def _open_file(self, session_id: str) -> LiveSession:
        try:
            session = self._store.open(session_id)
        except UnknownSession as problem:
            raise NotFound("unknown_session", f"There is no session {session_id!r}.") from problem
        except StoreError as problem:
            raise NotStored("not_readable", str(problem)) from problem
        return self._take(LiveSession(session, JsonlEventLog(self._log_path(session_id))))

    def _take(self, live: LiveSession) -> LiveSession:
        try:
            scan = live.log.open()
        except OSError as problem:
            live.close()
            message = f"The event log of this session cannot be read: {problem.strerror}."
            raise NotStored("not_readable", message) from problem
        for run_id in take_up(live, scan):
            self._session_of_run[run_id] = live.id
        self._open[live.id] = live
        return live

    def _log_path(self, session_id: str) -> Path:
        return self._runs_folder / f"{session_id}.jsonl"

    def create(self, name: str = "") -> LiveSession:
        """Makes an empty session. Raises NotStored when its file cannot be written."""
        try:
            session = self._store.create(cwd=self._cwd)
        except StoreError as problem:
            raise NotStored("not_stored", str(problem)) from problem
        with self._lock:
            live = self._take(LiveSession(session, JsonlEventLog(self._log_path(session.id))))
            self._last_used = live.id
        if name:
            live.rename(name)
        return live

    def list(self) -> list[SessionSummary]:
        """Returns all sessions, the most recently active first."""
        return self._store.list()

    def resolve(self, session_id: str | None) -> LiveSession:
        """Returns the session named, or the most recently used one, made if there is none. Counts as a use."""
        live = self.open(session_id) if session_id else self._latest()
        self._last_used = live.id
        return live

    def _latest(self) -> LiveSession:
        """Returns the session used last that can be written here; what another process holds is left to it."""
        # One after another: the first requests to an empty folder must not make a session each.
        with self._choosing:
            for session_id in (self._last_used, *(summary.id for summary in self.list())):
                if session_id is None:
                    continue
                try:
                    live = self.open(session_id)
                except RunError:
                    continue
                if session_id == self._last_used or not live.session.read_only:
                    return live
            return self.create()

    def rename(self, session_id: str, name: str) -> LiveSession:
        live = self.open(session_id)
        live.rename(name)
        return live

    def delete(self, session_id: str) -> None:
        """Stops what works in a session and moves it to the trash, from where ``restore`` brings it back."""
        live = self.open(session_id)
        with live.lock:
            if live.session.read_only:
                raise Conflict("read_only", f"This session is open read-only: {live.session.read_only}")
            live.deleting = True
            run = live.run
        if run is not None:
            run.cancel.cancel("the session was deleted")
            if not run.settled.wait(ABORT_SECONDS):
                live.deleting = False
                raise Conflict("running", "The run has not stopped yet, so nothing was deleted. Try again.")
        with self._lock:
            self._open.pop(session_id, None)
            try:
                live.close_for_deletion(lambda: self._store.trash(session_id))
            except StoreError as problem:
                raise NotStored("not_stored", str(problem)) from problem
            if self._last_used == session_id:
                self._last_used = None
            self._move_log_to_trash(session_id)

    def _move_log_to_trash(self, session_id: str) -> None:
        log = self._log_path(session_id)
        if log.exists():
            log.replace(self._trash_folder / f"{session_id}.runs.jsonl")

    def restore(self, session_id: str) -> LiveSession:
        """Brings a session back from the trash. Raises NotFound when it is not there."""
        try:
            self._store.restore(session_id)
        except UnknownSession as problem:
            raise NotFound("unknown_session", f"There is no session {session_id!r} in the trash.") from problem
        except StoreError as problem:
            raise NotStored("not_stored", str(problem)) from problem
        log = self._trash_folder / f"{session_id}.runs.jsonl"
        if log.exists():
            log.replace(self._log_path(session_id))
        return self.resolve(session_id)

    # Runs

    def prompt(self, session_id: str | None, text: str, *, queue: bool = False) -> Started | Queued:
        """Starts a run with a message, or with ``queue`` puts it behind the one that works.

        Raises Conflict when a run works and ``queue`` is not set, NotStored when nothing could be written.
        """
        live = self.resolve(session_id)
        while True:
            if queue and live.state != "idle":
                try:
                    run, message = live.enqueue(text)
                    return Queued(live, run, message)
                except Conflict as problem:
                    if problem.reason != "idle":
                        raise
            try:
                return Started(live, self._start(live, self._begin(live, text)))
            except Conflict as problem:
                # The other run may have begun or ended between the look and the step.
                if not (queue and problem.reason == "running"):
                    raise

    def _begin(self, live: LiveSession, text: str) -> ActiveRun:
        # Known before its first event can be read: who reads that may ask for the run at once.
        run_id = new_run_id()
        self._session_of_run[run_id] = live.id
        try:
            return live.begin(text, run_id)
        except RunError:
            del self._session_of_run[run_id]
            raise

    def resume(self, run_id: str) -> Started:
        """Continues an interrupted run under its own id."""
        live = self.session_of(run_id)
        return Started(live, self._start(live, live.resume(run_id)))

    def _start(self, live: LiveSession, run: ActiveRun) -> ActiveRun:
        try:
            self._executor.start(lambda: self._work(live, run), f"run-{run.run_id}")
        except RuntimeError as problem:
            live.next_or_finish(run, "error", f"No worker could be started: {problem}.")
        return run

    def _work(self, live: LiveSession, run: ActiveRun) -> None:
        conduct(live, run, self.equipment)
        self._remember_finished(live, run.run_id)

    def _remember_finished(self, live: LiveSession, run_id: str) -> None:
        with self._lock:
            self._finished.append((live, run_id))
            if len(self._finished) <= self._max_finished:
                return
            oldest, oldest_id = self._finished.popleft()
        oldest.log.evict_run(oldest_id)

    def abort(self, run_id: str) -> tuple[LiveSession, ActiveRun | None]:
        """Asks a run to stop; ends an interrupted one. A run that is over stays as it is (None)."""
        live = self.session_of(run_id)
        run = live.run
        if run is not None and run.run_id == run_id:
            run.cancel.cancel()
            return live, run
        live.abandon(run_id)
        return live, None

    def session_of(self, run_id: str) -> LiveSession:
        """Returns the session of a run, looked up on disk when its session is not open. Raises NotFound."""
        session_id = self._session_of_run.get(run_id) or self._search(run_id)
        if session_id is None:
            raise NotFound("unknown_run", f"There is no run {run_id!r}.")
        live = self.open(session_id)
        if run_id not in self._session_of_run:
            raise NotFound("unknown_run", f"There is no run {run_id!r}.")
        return live

    def _search(self, run_id: str) -> str | None:
        if not _RUN_ID.fullmatch(run_id):
            return None
        needle = f'"runId":"{run_id}"'.encode()
        for path in sorted(self._runs_folder.glob("*.jsonl")):
            if needle in path.read_bytes():
                return path.stem
        return None

    def close(self) -> None:
        """Lets go of everything: streams end, locks are released. Runs that work are mended on the next opening."""
        with self._lock:
            for live in self._open.values():
                live.close()
            self._open.clear()
