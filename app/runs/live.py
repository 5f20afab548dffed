"""A session that is open in this process: its state, and the steps that change it.

Each step is one critical section under the session lock: append entries (fsync if a person acted), emit events,
change state, return. The lock is never held while a model or a tool works. Order of locks: session, then the
buffer's condition.
"""

import threading
import uuid
from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from app.protocol.codec import clean_text
from app.protocol.events import (
    AgentStart,
    EntryLabelled,
    Event,
    LeafMoved,
    MainLineMarked,
    QueuedMessage,
    RunKind,
    RunStatus,
    SessionDeleted,
    SessionRenamed,
)
from app.runs.active import ActiveRun
from app.runs.batch import Batch
from app.runs.errors import Conflict, NotFound
from app.runs.eventlog import EventLog
from app.runs.history import History
from app.runs.journal import Journal
from app.runs.picture import Snapshot, State, Status
from app.runs.workings import Workings
from app.sessions.preview import preview
from app.sessions.store import Session

CLOSED = "closed"
LABEL_LENGTH = 200


class LiveSession:
    """One open session. All public methods are safe to call from any thread."""

    def __init__(self, session: Session, log: EventLog) -> None:
        self.session = session
        self.log = log
        self.lock = threading.Lock()
        self.journal = Journal(session, log)
        self.run: ActiveRun | None = None
        self.interrupted: str | None = None
        self.unstored_end: str | None = None
        self.not_summarised = ""
        self._readers = 0
        self._deleting = False
        self._deleted = False
        self.closed = False

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def history(self) -> History:
        return self.journal.history

    @property
    def state(self) -> State:
        return "running" if self.run is not None else "idle"

    @property
    def queue(self) -> list[QueuedMessage]:
        return list(self.history.queue)

    # What a person does

    def begin(self, text: str, run_id: str, *, returned: str = "") -> ActiveRun:
        """Starts a run with a person's message; the caller starts its worker. Raises Conflict while one runs.

        ``returned`` names the message that was given back, if it is that; raises NotFound when it stands there no more.
        """
        with self.lock:
            self.require_writable()
            self.require_idle()
            self._require_returned(returned)
            batch = Batch(self.session)
            events = self.end_former(batch, "interrupted")
            batch.run(run_id, "started")
            start: list[Event] = [AgentStart(), *self.journal.answer_orphans(batch)]
            start += self.journal.user_message(batch, text, instead_of=returned)
            self.journal.store(batch)
            self.run = ActiveRun(run_id, turn_open=True)
            self.not_summarised = ""
            self.emit_former(events)
            if returned:
                self.journal.emit_queue()
            self.journal.emit(start, run_id)
            return self.run

    def begin_work(self, run_id: str, kind: RunKind) -> ActiveRun:
        """Starts a run that makes no message; the caller starts its worker. Raises Conflict while one runs."""
        with self.lock:
            self.require_writable()
            self.require_idle()
            if kind == "compact" and self.interrupted:
                raise Conflict("unfinished", "The last answer was interrupted. Continue it, or stop it, first.")
            batch = Batch(self.session)
            events = self.end_former(batch, "interrupted")
            # What waited here belongs to the branch that is left; what is sent meanwhile goes out at the new place.
            returned = kind == "summary" and self.journal.return_queue(batch)
            batch.run(run_id, "started", kind=kind)
            self.journal.store(batch)
            self.run = ActiveRun(run_id, kind)
            self.not_summarised = ""
            self.emit_former(events)
            if returned:
                self.journal.emit_queue()
            self.journal.emit([AgentStart(kind=kind)], run_id)
            return self.run

    def enqueue(self, text: str, *, returned: str = "") -> tuple[ActiveRun, QueuedMessage]:
        """Queues a message behind the run that works now. Raises Conflict when none does; ``returned`` as in begin."""
        with self.lock:
            self.require_writable()
            if self.run is None:
                raise Conflict("idle", "No run is working, so there is nothing to queue behind: send it as a prompt.")
            self._require_returned(returned)
            queued = QueuedMessage(id=f"q_{uuid.uuid4().hex[:12]}", text=clean_text(text))
            batch = Batch(self.session)
            batch.queued(queued.id, "added", queued.text)
            if returned:
                batch.queued(returned, "removed")
            self.journal.store(batch)
            self.journal.emit_queue()
            return self.run, queued

    def unqueue(self, queue_id: str) -> QueuedMessage:
        """Takes away a message that waits or was given back. Raises NotFound when it does neither (any more)."""
        with self.lock:
            self.require_writable()
            candidates = (*self.history.queue, *self.history.returned)
            found = next((queued for queued in candidates if queued.id == queue_id), None)
            if found is None:
                raise NotFound("unknown_queued", f"No queued message {queue_id!r} waits here; it may have been taken.")
            batch = Batch(self.session)
            batch.queued(queue_id, "removed")
            self.journal.store(batch)
            self.journal.emit_queue()
            return found

    def resume(self, run_id: str) -> ActiveRun:
        """Takes up an interrupted run under its own id; the caller starts its worker."""
        with self.lock:
            self.require_writable()
            self.require_idle()
            if self.interrupted != run_id:
                raise Conflict("not_interrupted", f"Run {run_id!r} is not interrupted, so it cannot be continued.")
            self.run = ActiveRun(run_id)
            self.interrupted = None
            return self.run

    def abort(self, run_id: str) -> ActiveRun | None:
        """Asks a run to stop and returns it; ends an interrupted one. One that is over stays as it is (None)."""
        with self.lock:
            if self.run is not None and self.run.run_id == run_id:
                self.run.cancel.cancel("stopped by a person")
                return self.run
            if self.interrupted == run_id:
                self.require_writable()
                batch = Batch(self.session)
                events = self.end_former(batch, "aborted")
                returned = self.journal.return_queue(batch)
                self.journal.store(batch)
                self.emit_former(events)
                if returned:
                    self.journal.emit_queue()
            return None

    def move(self, leaf_id: str | None) -> None:
        """Makes an entry the leaf; the next message becomes its child. None is before the first entry.

        A side entry (a label, our bookkeeping) stands for the entry that it hangs on. Raises NotFound for an unknown
        entry, Conflict while a run works.
        """
        with self.lock:
            target = self.session.chain_entry(leaf_id)
            if target is UNSET:
                raise NotFound("unknown_entry", f"There is no entry {leaf_id!r} in this session to go on from.")
            self.require_writable()
            self.require_idle()
            if target == self.session.leaf_id:
                return
            batch = Batch(self.session)
            events = self.end_former(batch, "interrupted")
            returned = self.journal.return_queue(batch)
            batch.leaf(target)
            self.journal.store(batch)
            self.emit_former(events)
            if returned:
                self.journal.emit_queue()
            self.journal.emit([LeafMoved(leaf_id=self.session.leaf_id)])

    def label(self, entry_id: str, label: str) -> None:
        """Names an entry, on one line of at most 200 characters; "" takes its name away. Raises NotFound."""
        with self.lock:
            self._require_entry(entry_id)
            self.require_writable()
            shown = preview(label, LABEL_LENGTH)
            batch = Batch(self.session)
            batch.label(entry_id, shown)
            self.journal.store(batch)
            self.journal.emit([EntryLabelled(target_id=entry_id, label=shown)])

    def mark_main_line(self, entry_id: str) -> None:
        """Says that the branch of an entry is the main line; "" takes it back. Raises NotFound."""
        with self.lock:
            if entry_id:
                self._require_entry(entry_id)
            self.require_writable()
            batch = Batch(self.session)
            batch.main_line(entry_id)
            self.journal.store(batch)
            self.journal.emit([MainLineMarked(target_id=entry_id)])

    def _require_entry(self, entry_id: str) -> None:
        if self.session.outline.position(entry_id) is None:
            raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session.")

    def rename(self, name: str) -> None:
        """Names the session."""
        with self.lock:
            self.require_writable()
            batch = Batch(self.session)
            batch.name(name)
            self.journal.store(batch)
            self.journal.emit([SessionRenamed(name=name)])

    # Closing and deleting

    def start_deleting(self) -> ActiveRun | None:
        """Refuses all further steps and returns the run that has to stop first. Raises Conflict."""
        with self.lock:
            self.require_open()
            self._deleting = True
            return self.run

    def stop_deleting(self) -> None:
        """Takes ``start_deleting`` back."""
        with self.lock:
            self._deleting = False

    def tell_deleted(self) -> None:
        """Tells the readers that the session is gone, and ends them."""
        with self.lock:
            self._deleted = True
            self.journal.emit([SessionDeleted()])
            self._close()

    def add_reader(self) -> None:
        """Counts a stream in: a session that is read stays open."""
        with self.lock:
            self._readers += 1

    def remove_reader(self) -> None:
        """Counts it out."""
        with self.lock:
            self._readers -= 1

    def close_if_unused(self, *, even_if_read: bool = False) -> bool:
        """Closes a session that neither works nor is read, and returns whether it did; steps on it then fail."""
        with self.lock:
            if self.run is None and not self._deleting and (even_if_read or self._readers == 0):
                self._close()
            return self.closed

    def close(self) -> None:
        """Lets go of files and readers, as at shutdown."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        self.closed = True
        self.log.close()
        self.session.close()

    # Parts of the steps; all need the lock

    def end_former(self, batch: Batch, status: RunStatus) -> list[Event]:
        """Adds the end of a run to the batch, if one was interrupted or lacks only that; returns its last events."""
        if self.unstored_end is not None:
            batch.run(self.unstored_end, "done", "error")
        if self.interrupted is None:
            return []
        batch.run(self.interrupted, "done", status)
        events = self.journal.end_events(self.interrupted, status)
        return [msgspec.structs.replace(event, run_id=self.interrupted) for event in events]

    def emit_former(self, events: Sequence[Event]) -> None:
        """Tells of what ``end_former`` ended, once it is stored."""
        self.interrupted = self.unstored_end = None
        self.journal.emit(events)

    def require_open(self) -> None:
        """Raises Conflict for a session that is closed or being deleted."""
        if self._deleting:
            raise Conflict("deleting", "This session is being deleted.")
        if self.closed:
            raise Conflict(CLOSED, "This session was closed a moment ago, since nobody used it. Try again.")

    def require_writable(self) -> None:
        """Raises Conflict where nothing can be stored."""
        self.require_open()
        if self.session.read_only:
            raise Conflict("read_only", f"This session is open read-only: {self.session.read_only}")

    def _require_returned(self, queue_id: str) -> None:
        if queue_id and all(queued.id != queue_id for queued in self.history.returned):
            raise NotFound("unknown_queued", "This message does not stand here any more; it may have been sent.")

    def require_idle(self) -> None:
        """Raises Conflict while a run works."""
        if self.run is not None:
            raise Conflict("running", "A run is working in this session. Wait for it, queue the message, or stop it.")

    # What pages and the API see

    def status(self) -> Status:
        """Returns what the session does now."""
        with self.lock:
            return self._status()

    def _status(self) -> Status:
        return Status(
            session_id=self.id,
            name=self.session.outline.name,
            state=self.state,
            run_id=self.run.run_id if self.run else None,
            kind=self.run.kind if self.run else "prompt",
            part=self.run.part if self.run else 0,
            parts=self.run.parts if self.run else 0,
            interrupted=self.interrupted,
            not_summarised=self.not_summarised,
            tokens=self.session.outline.context_size(self.session.outline.leaf).tokens,
            queue=self.queue,
            returned=list(self.history.returned),
            read_only=self.session.read_only,
            deleted=self._deleted,
        )

    def workings(self) -> Workings:
        """Returns what is known of each step so far."""
        with self.lock:
            return self.journal.workings.copy()

    def snapshot(self) -> Snapshot:
        """Returns a consistent picture; what happens later has a higher number than its ``n``."""
        with self.lock:
            status, leaf_id, run, n = self._status(), self.session.leaf_id, self.run, self.log.last
            partial_id = run.open_entry_id if run else None
            records = self.log.after(0, run.run_id) if run and partial_id else []
            workings = self.journal.workings.copy()
            newest_run = run.run_id if run else self.history.newest_run_at(leaf_id)
            leaf, count, log_problem = self.session.outline.leaf, len(self.session.outline), self.journal.log_problem
            branches = self.session.outline.ends
        partial = [record for record in records if record.event.entry_id == partial_id]
        skipped = [f"line {line.line_number}: {line.reason}" for line in self.session.skipped]
        return Snapshot(
            **{name: getattr(status, name) for name in Status.__dataclass_fields__},
            session=self.session,
            leaf_id=leaf_id,
            leaf=leaf,
            count=count,
            branches=branches,
            n=n,
            newest_run=newest_run,
            partial_id=partial_id,
            partial=[record.event for record in partial],
            partial_pieces=[record.piece for record in partial if record.piece is not None],
            workings=workings,
            problems=[*skipped, *self.session.warnings, *([log_problem] if log_problem else [])],
        )
