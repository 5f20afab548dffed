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
from app.protocol.entries import ToolStartedData
from app.protocol.events import (
    AgentStart,
    Event,
    LeafMoved,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueuedMessage,
    RunStatus,
    SessionDeleted,
    SessionRenamed,
)
from app.protocol.messages import Message, ToolCall
from app.protocol.tools import Effect, OutcomeUnknown
from app.runs.active import ActiveRun
from app.runs.batch import Batch
from app.runs.buffer import NOTHING_SHOWN, Shown
from app.runs.errors import Conflict, NotFound
from app.runs.eventlog import EventLog
from app.runs.history import History, call_ids_on
from app.runs.journal import Journal
from app.runs.picture import Snapshot, State, Status
from app.runs.workings import Workings
from app.sessions.context import build_context
from app.sessions.store import Session, StoreError

CLOSED = "closed"


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
        self._readers = 0
        self._deleting = False
        self._deleted = False
        self._closed = False

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
            self._require_writable()
            self._require_idle()
            self._require_returned(returned)
            batch = Batch(self.session)
            events = self._end_former(batch, "interrupted")
            batch.run(run_id, "started")
            start: list[Event] = [AgentStart(), *self.journal.answer_orphans(batch)]
            start += self.journal.user_message(batch, text, instead_of=returned)
            self.journal.store(batch)
            self.run = ActiveRun(run_id, turn_open=True)
            self._emit_former(events)
            if returned:
                self.journal.emit_queue()
            self.journal.emit(start, run_id)
            return self.run

    def enqueue(self, text: str, *, returned: str = "") -> tuple[ActiveRun, QueuedMessage]:
        """Queues a message behind the run that works now. Raises Conflict when none does; ``returned`` as in begin."""
        with self.lock:
            self._require_writable()
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
            self._require_writable()
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
            self._require_writable()
            self._require_idle()
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
                self._require_writable()
                batch = Batch(self.session)
                events = self._end_former(batch, "aborted")
                returned = self.journal.return_queue(batch)
                self.journal.store(batch)
                self._emit_former(events)
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
            self._require_writable()
            self._require_idle()
            if target == self.session.leaf_id:
                return
            batch = Batch(self.session)
            events = self._end_former(batch, "interrupted")
            returned = self.journal.return_queue(batch)
            batch.leaf(target)
            self.journal.store(batch)
            self._emit_former(events)
            if returned:
                self.journal.emit_queue()
            self.journal.emit([LeafMoved(leaf_id=self.session.leaf_id)])

    def rename(self, name: str) -> None:
        """Names the session."""
        with self.lock:
            self._require_writable()
            batch = Batch(self.session)
            batch.name(name)
            self.journal.store(batch)
            self.journal.emit([SessionRenamed(name=name)])

    # Closing and deleting

    def start_deleting(self) -> ActiveRun | None:
        """Refuses all further steps and returns the run that has to stop first. Raises Conflict."""
        with self.lock:
            self._require_open()
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
            return self._closed

    def close(self) -> None:
        """Lets go of files and readers, as at shutdown."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        self._closed = True
        self.log.close()
        self.session.close()

    # What the worker does

    def context(self) -> tuple[list[Message], set[str]]:
        """Returns the context at the leaf and all tool call ids on the path."""
        with self.lock:
            path = self.session.path()
        return build_context(path).messages, call_ids_on(path)

    def record(self, run: ActiveRun, event: LoopEvent, shown: Shown = NOTHING_SHOWN) -> None:
        """Stores and shows an event of the loop, with its HTML. Raises StoreError when a message is not stored."""
        with self.lock:
            if self.run is not run:
                return  # from a tool that its run has not waited for
            if isinstance(event, MessageStart):
                run.open_entry_id = self.session.new_id()
            if isinstance(event, MessageStart | MessageUpdate | MessageEnd):
                event = msgspec.structs.replace(event, entry_id=run.open_entry_id)
            if isinstance(event, MessageEnd) and event.message is not None:
                batch = Batch(self.session)
                batch.message(event.message, run.open_entry_id)
                self.journal.append(batch)
                run.open_entry_id = None
            self.journal.emit([event], run.run_id, shown=shown)

    def before_effect(self, call: ToolCall, effect: Effect) -> bool:
        """Writes down that a change is about to be made; see ToolContext.before_effect."""
        with self.lock:
            begun = self.history.effect_begun(self.session.path, call.id)
            if begun is None:
                batch = Batch(self.session)
                batch.tool_started(
                    ToolStartedData(
                        tool_call_id=call.id, target=effect.target, before=effect.before, after=effect.after
                    )
                )
                self.journal.append(batch, durable=True)
                return True
        if effect.before == begun.after:
            return False
        if effect.before == begun.before:
            return True
        raise OutcomeUnknown(
            f"{effect.target}: this call was begun before the program stopped, and the file has changed since. "
            "The outcome is unknown: look at the file first."
        )

    def next_or_finish(self, run: ActiveRun, status: RunStatus, error: str = "") -> bool:
        """Takes the next queued message into the run (True), or ends the run (False), in one step."""
        with self.lock:
            try:
                if status == "done" and self.history.queue:
                    if not run.cancel.cancelled:
                        self._take_queued(run)
                        return True
                    status = "aborted"
                self._finish(run, status, error)
            except StoreError as problem:
                if self._closed:
                    run.status = "interrupted"  # the program is being stopped: the next start offers to continue
                else:
                    # It is over all the same, and what is stored next says so.
                    self.unstored_end = run.run_id
                    self._end(run, "error", str(problem))
        run.settled.set()
        return False

    def _take_queued(self, run: ActiveRun) -> None:
        queued = self.history.queue[0]
        batch = Batch(self.session)
        events = self.journal.user_message(batch, queued.text, instead_of=queued.id)
        self.journal.append(batch)  # the waiting message is on the disk, and waits again if this is lost
        run.turn_open = True
        self.journal.emit_queue()
        self.journal.emit(events, run.run_id)

    def _finish(self, run: ActiveRun, status: RunStatus, error: str) -> None:
        batch = Batch(self.session)
        batch.run(run.run_id, "done", status)
        returned = status == "aborted" and self.journal.return_queue(batch)
        self.journal.append(batch)
        if returned:
            self.journal.emit_queue()
        self._end(run, status, error)

    def _end(self, run: ActiveRun, status: RunStatus, error: str) -> None:
        run.status, run.error = status, error
        self.run = None
        if run.open_entry_id is not None:
            self.journal.emit([MessageEnd(entry_id=run.open_entry_id, discarded=True)], run.run_id)
        self.journal.emit(self.journal.end_events(run.run_id, status, error), run.run_id)

    # Parts of the steps; all need the lock

    def _end_former(self, batch: Batch, status: RunStatus) -> list[Event]:
        """Adds the end of a run to the batch, if one was interrupted or lacks only that; returns its last events."""
        if self.unstored_end is not None:
            batch.run(self.unstored_end, "done", "error")
        if self.interrupted is None:
            return []
        batch.run(self.interrupted, "done", status)
        events = self.journal.end_events(self.interrupted, status)
        return [msgspec.structs.replace(event, run_id=self.interrupted) for event in events]

    def _emit_former(self, events: Sequence[Event]) -> None:
        """Tells of what ``_end_former`` ended, once it is stored."""
        self.interrupted = self.unstored_end = None
        self.journal.emit(events)

    def _require_open(self) -> None:
        if self._deleting:
            raise Conflict("deleting", "This session is being deleted.")
        if self._closed:
            raise Conflict(CLOSED, "This session was closed a moment ago, since nobody used it. Try again.")

    def _require_writable(self) -> None:
        self._require_open()
        if self.session.read_only:
            raise Conflict("read_only", f"This session is open read-only: {self.session.read_only}")

    def _require_returned(self, queue_id: str) -> None:
        if queue_id and all(queued.id != queue_id for queued in self.history.returned):
            raise NotFound("unknown_queued", "This message does not stand here any more; it may have been sent.")

    def _require_idle(self) -> None:
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
            name=self.history.name,
            state=self.state,
            run_id=self.run.run_id if self.run else None,
            interrupted=self.interrupted,
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
            status, path, run, n = self._status(), self.session.path(), self.run, self.log.last
            partial_id = run.open_entry_id if run else None
            records = self.log.after(0, run.run_id) if run and partial_id else []
            workings = self.journal.workings.copy()
            newest_run = run.run_id if run else self.history.newest_run_on(path)
            stored, leaf_id, log_problem = list(self.session.entries), self.session.leaf_id, self.journal.log_problem
        partial = [record for record in records if record.event.entry_id == partial_id]
        skipped = [f"line {line.line_number}: {line.reason}" for line in self.session.skipped]
        return Snapshot(
            **{name: getattr(status, name) for name in Status.__dataclass_fields__},
            leaf_id=leaf_id,
            path=path,
            stored=stored,
            n=n,
            newest_run=newest_run,
            partial_id=partial_id,
            partial=[record.event for record in partial],
            partial_pieces=[record.piece for record in partial if record.piece is not None],
            workings=workings,
            problems=[*skipped, *self.session.warnings, *([log_problem] if log_problem else [])],
        )
