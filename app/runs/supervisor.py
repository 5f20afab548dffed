"""All open sessions of this process, and what can be asked of them. The web and the API talk to this."""

import logging
import re
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import UnsetType

from app.protocol.events import QueuedMessage, RunKind
from app.runs.active import ActiveRun, new_run_id
from app.runs.conductor import Work, conduct
from app.runs.equipment import Equipment
from app.runs.errors import Conflict, NotFound, NotStored, RunError
from app.runs.eventlog import EventLogs
from app.runs.executor import Executor, ThreadExecutor
from app.runs.live import CLOSED, LiveSession
from app.runs.opening import take_up
from app.runs.summarising import Compacting, Leaving, check_compaction, leaves_messages
from app.runs.worker import Worker
from app.sessions.fork import fork_of
from app.sessions.store import Session, SessionStore, SessionSummary, SessionTaken, StoreError, UnknownSession
from app.sessions.times import now_iso
from app.sessions.window import stored_path

LOGGER = logging.getLogger("hornbook.runs")

MAX_FINISHED_RUNS = 100
MAX_OPEN_SESSIONS = 32
REREAD_SECONDS = 1.0
"""A session that is read-only here is read anew when it is asked for, at most this often."""

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
    """Opens sessions once, starts workers, finds runs. Safe to call from any thread.

    At most ``max_open_sessions`` stay open; beyond that the one used longest ago is closed that neither works nor is
    read. At most ``max_finished_runs`` finished runs keep their events in memory.
    """

    def __init__(
        self,
        store: SessionStore,
        logs: EventLogs,
        equipment: Equipment,
        *,
        cwd: str,
        executor: Executor | None = None,
        max_finished_runs: int = MAX_FINISHED_RUNS,
        max_open_sessions: int = MAX_OPEN_SESSIONS,
    ) -> None:
        self.equipment = equipment
        self._store = store
        self._logs = logs
        self._cwd = cwd
        self._executor = executor or ThreadExecutor()
        self._lock = threading.Lock()
        self._choosing = threading.Lock()
        self._open: OrderedDict[str, LiveSession] = OrderedDict()
        self._opened_at: dict[str, float] = {}
        self._session_of_run: dict[str, str] = {}
        self._finished: deque[tuple[str, str]] = deque()
        self._max_finished = max_finished_runs
        self._max_open = max_open_sessions
        self._last_used: str | None = None

    # Sessions

    def open(self, session_id: str, *, to_write: bool = False) -> LiveSession:
        """Returns an open session, opening and repairing its file if need be. Raises NotFound or NotStored.

        One that is read-only here is read anew, since its other writer may be gone by now; while it is read only if
        it is ``to_write``, since that ends its streams (pages come back by themselves).
        """
        # The lock is held while a file is read: a large one holds the others up, but none is ever opened twice.
        with self._lock:
            live = self._open.get(session_id)
            if live is not None and live.session.read_only and self._is_old(session_id):
                self._close_if_unused(session_id, even_if_read=to_write)
                live = self._open.get(session_id)
            if live is None:
                return self._open_file(session_id)
            self._open.move_to_end(session_id)
            return live

    def _is_old(self, session_id: str) -> bool:
        return time.monotonic() - self._opened_at[session_id] >= REREAD_SECONDS

    def _open_file(self, session_id: str) -> LiveSession:
        try:
            session = self._store.open(session_id)
        except UnknownSession as problem:
            raise NotFound("unknown_session", f"There is no session {session_id!r}.") from problem
        except StoreError as problem:
            raise NotStored("not_readable", str(problem)) from problem
        return self._take(session)

    def _take(self, session: Session) -> LiveSession:
        live = LiveSession(session, self._logs.of(session.id))
        try:
            scan = live.log.open()
        except OSError as problem:
            live.close()
            message = f"The event log of this session cannot be read: {problem.strerror}."
            raise NotStored("not_readable", message) from problem
        take_up(live, scan)
        for run_id in live.history.runs:
            self._session_of_run.setdefault(run_id, live.id)
        self._open[live.id] = live
        self._opened_at[live.id] = time.monotonic()
        self._close_unused()
        return live

    def _close_unused(self) -> None:
        for session_id in list(self._open)[: -self._max_open]:
            self._close_if_unused(session_id)

    def _close_if_unused(self, session_id: str, *, even_if_read: bool = False) -> None:
        if self._open[session_id].close_if_unused(even_if_read=even_if_read):
            self._forget(session_id)

    def _forget(self, session_id: str) -> None:
        self._open.pop(session_id, None)
        self._opened_at.pop(session_id, None)

    def create(self, name: str = "") -> LiveSession:
        """Makes an empty session. Raises NotStored when its file cannot be written."""
        with self._lock:
            try:
                session = self._store.create(cwd=self._cwd)
            except StoreError as problem:
                raise NotStored("not_stored", str(problem)) from problem
            live = self._take(session)
            self._last_used = live.id
        if name:
            live.rename(name)
        return live

    def trashed(self) -> list[SessionSummary]:
        """Returns what is in the trash, the newest first."""
        return self._store.trashed()

    def list(self) -> list[SessionSummary]:
        """Returns all sessions, the most recently active first. Raises NotStored."""
        try:
            return self._store.list()
        except StoreError as problem:
            raise NotStored("not_readable", str(problem)) from problem

    def resolve(self, session_id: str | None, *, to_write: bool = False) -> LiveSession:
        """Returns the session named, or the one used last, made if there is none. Counts as a use."""
        if session_id:
            live = self.open(session_id, to_write=to_write)
        else:
            # One after another: the first requests to an empty folder must not make a session each.
            with self._choosing:
                live = self._latest(to_write) or self.create()
        self._last_used = live.id
        return live

    def resolve_existing(self, session_id: str | None) -> LiveSession | None:
        """Like ``resolve``, but makes none."""
        if session_id:
            return self.open(session_id, to_write=True)
        with self._choosing:
            return self._latest(to_write=True)

    def _latest(self, to_write: bool) -> LiveSession | None:
        """Returns the session used last in this process, else the newest that can be written here."""
        if self._last_used is not None:
            try:
                return self.open(self._last_used, to_write=to_write)
            except RunError:
                self._last_used = None
        for summary in self.list():
            try:
                live = self.open(summary.id, to_write=to_write)
            except RunError:
                continue
            if not live.session.read_only:
                return live
        return None

    def rename(self, session_id: str, name: str) -> LiveSession:
        live = self.open(session_id, to_write=True)
        live.rename(name)
        return live

    def delete(self, session_id: str) -> None:
        """Stops what works in a session and moves it to the trash, from where ``restore`` brings it back."""
        live = self.open(session_id, to_write=True)
        run = live.start_deleting()
        if run is not None and not run.stop("the session was deleted"):
            live.stop_deleting()
            raise Conflict("running", "The run has not stopped yet, so nothing was deleted. Try again.")
        with self._lock:
            self._forget(session_id)
            if self._last_used == session_id:
                self._last_used = None
            try:
                self._store.trash(session_id)
            except StoreError as problem:
                live.close()
                raise _not_moved(session_id, problem) from problem
            live.tell_deleted()
            self._move_log(self._logs.trash, session_id)

    def fork(self, session_id: str, entry_id: str) -> LiveSession:
        """Copies the way to an entry into a new session and opens that. Raises NotFound or NotStored."""
        session = self.open(session_id).session
        target = session.chain_entry(entry_id)
        if not isinstance(target, str):
            raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session to copy the way to.")
        content = fork_of(
            session.header_raw,
            stored_path(session, target),
            session.outline.labels,
            session_id=(new_id := str(uuid.uuid4())),
            parent=f"{session.id}.jsonl",
            name=session.outline.name,
            now=now_iso(),
            new_id=session.new_id,
        )
        return self.add(content, new_id)

    def add(self, content: bytes, session_id: str) -> LiveSession:
        """Takes the content of a session file in, under that id where it is free, and opens it. Raises NotStored."""
        try:
            added = self._store.add(content, session_id)
        except StoreError as problem:
            raise NotStored("not_stored", str(problem)) from problem
        return self.open(added)

    def restore(self, session_id: str) -> LiveSession:
        """Brings a session back from the trash. Raises NotFound when it is not there."""
        with self._lock:
            try:
                self._store.restore(session_id)
            except StoreError as problem:
                raise _not_moved(session_id, problem, " in the trash") from problem
            self._move_log(self._logs.restore, session_id)
        return self.resolve(session_id)

    @staticmethod
    def _move_log(move: Callable[[str], None], session_id: str) -> None:
        """Events can be made again from the entries: that they cannot be moved costs nobody the session."""
        try:
            move(session_id)
        except OSError as problem:
            LOGGER.warning("The events of session %s could not be moved: %s", session_id, problem)

    # Runs

    def prompt(self, session_id: str | None, text: str, *, queue: bool = False, returned: str = "") -> Started | Queued:
        """Starts a run with a message, or with ``queue`` puts it behind the one that works.

        ``returned`` is the id of a message that was given back, when it is that which is sent. Raises Conflict when a
        run works and ``queue`` is not set, NotFound when ``returned`` is there no more, NotStored when nothing could
        be written.
        """
        while True:
            live = self.resolve(session_id, to_write=True)
            if queue and live.state != "idle":
                try:
                    run, message = live.enqueue(text, returned=returned)
                    return Queued(live, run, message)
                except Conflict as problem:
                    if problem.reason not in ("idle", CLOSED):
                        raise
            try:
                return Started(live, self._start(live, self._begin(live, text, returned)))
            except Conflict as problem:
                # Another run may have begun or ended between the look and the step, or the session been closed.
                if problem.reason != CLOSED and not (queue and problem.reason == "running"):
                    raise

    def compact(self, session_id: str | None, focus: str = "") -> Started:
        """Starts a run that summarises older parts of the branch. Raises Conflict where nothing would be gained."""
        live = self.resolve(session_id, to_write=True)
        check_compaction(live, self.equipment)
        return self._work_on(live, "compact", Compacting(focus))

    def move(
        self, session_id: str | None, leaf_id: str | None, *, summary: bool = False, focus: str = ""
    ) -> LiveSession | Started:
        """Makes an entry the leaf, see LiveSession.move; with ``summary`` by a run that summarises what is left.

        Nothing moves when that run fails. Where nothing is left, it moves at once.
        """
        live = self.resolve(session_id, to_write=True)
        target = live.session.chain_entry(leaf_id)
        if not summary or isinstance(target, UnsetType) or not leaves_messages(live.session, target):
            live.move(leaf_id)
            return live
        return self._work_on(live, "summary", Leaving(target, focus))

    def _work_on(self, live: LiveSession, kind: RunKind, work: Work) -> Started:
        run_id = new_run_id()
        self._session_of_run[run_id] = live.id
        try:
            run = live.begin_work(run_id, kind)
        except RunError:
            del self._session_of_run[run_id]
            raise
        return Started(live, self._start(live, run, work))

    def _begin(self, live: LiveSession, text: str, returned: str) -> ActiveRun:
        # Known before its first event can be read: who reads that may ask for the run at once.
        run_id = new_run_id()
        self._session_of_run[run_id] = live.id
        try:
            return live.begin(text, run_id, returned=returned)
        except RunError:
            del self._session_of_run[run_id]
            raise

    def resume(self, live: LiveSession, run_id: str) -> Started:
        """Continues an interrupted run under its own id."""
        return Started(live, self._start(live, live.resume(run_id)))

    def _start(self, live: LiveSession, run: ActiveRun, work: Work | None = None) -> ActiveRun:
        try:
            self._executor.start(lambda: self._work(live, run, work), f"run-{run.run_id}")
        except RuntimeError as problem:
            Worker(live, run).next_or_finish("error", f"No worker could be started: {problem}.")
        return run

    def _work(self, live: LiveSession, run: ActiveRun, work: Work | None) -> None:
        conduct(live, run, self.equipment, work)
        self._remember_finished(live, run.run_id)

    def _remember_finished(self, live: LiveSession, run_id: str) -> None:
        with self._lock:
            self._finished.append((live.id, run_id))
            if len(self._finished) <= self._max_finished:
                return
            session_id, oldest_id = self._finished.popleft()
            oldest = self._open.get(session_id)
        if oldest is not None:
            oldest.log.evict_run(oldest_id)

    def session_of(self, run_id: str, *, to_write: bool = False) -> LiveSession:
        """Returns the session of a run, looked up on disk when its session is not open. Raises NotFound."""
        known = self._session_of_run.get(run_id)
        candidates = [known] if known is not None else []
        if known is None and _RUN_ID.fullmatch(run_id):
            candidates = self._store.holding(f'"runId":"{run_id}"'.encode())
        for session_id in candidates:
            live = self.open(session_id, to_write=to_write)
            if run_id in live.history.runs:
                return live
        raise NotFound("unknown_run", f"There is no run {run_id!r}.")

    def close(self) -> None:
        """Lets go of everything: streams end, locks are released. Runs that work are mended on the next opening."""
        with self._lock:
            for live in self._open.values():
                live.close()
            self._open.clear()
            self._opened_at.clear()


def _not_moved(session_id: str, problem: StoreError, where: str = "") -> RunError:
    if isinstance(problem, UnknownSession):
        return NotFound("unknown_session", f"There is no session {session_id!r}{where}.")
    if isinstance(problem, SessionTaken):
        return Conflict("read_only", str(problem))
    return NotStored("not_stored", str(problem))
