"""A session that is open in this process: its state, and the steps that change it.

Each step is one critical section under the session lock: append entries (fsync if a person acted), emit events,
change state, return. The lock is never held while a model or a tool works. Order of locks: session, then the
buffer's condition.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from app.agent.results import failed, not_run, result_payload
from app.agent.run import now_ms
from app.protocol.cancel import CancelToken
from app.protocol.codec import clean_text
from app.protocol.entries import Entry, ToolStartedData, is_side_entry
from app.protocol.events import (
    AgentEnd,
    AgentStart,
    Event,
    LeafMoved,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueChanged,
    QueuedMessage,
    RunDone,
    RunStatus,
    SessionDeleted,
    SessionRenamed,
    ToolExecutionEnd,
    TurnStart,
)
from app.protocol.messages import (
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    unanswered_calls,
)
from app.protocol.tools import Effect, OutcomeUnknown
from app.runs.batch import Batch
from app.runs.errors import Conflict, NotFound, NotStored
from app.runs.eventlog import JsonlEventLog, LogError
from app.runs.history import call_ids_on, effect_begun, name_of, newest_run_on, queue_of, runs_of
from app.sessions.context import build_context
from app.sessions.lines import StoredEntry
from app.sessions.store import Session, StoreError

LOGGER = logging.getLogger("hornbook.runs")

State = Literal["idle", "running", "waiting"]


@dataclass
class ActiveRun:
    """The run that works now. ``settled`` is set once it is over; ``status`` and ``error`` then say how."""

    run_id: str
    cancel: CancelToken = field(default_factory=CancelToken)
    settled: threading.Event = field(default_factory=threading.Event)
    entry_ids: list[str] = field(default_factory=list)
    turn_open: bool = False
    open_entry_id: str | None = None
    status: RunStatus = "error"
    error: str = ""


@dataclass(frozen=True)
class Snapshot:
    """A consistent picture of a session: what a page renders, and the number ``n`` up to which it holds.

    ``partial`` are the events so far of the message that is being written; ``newest_run`` is the newest of the branch.
    """

    session_id: str
    name: str
    state: State
    leaf_id: str | None
    path: list[Entry]
    messages: list[Message]
    run_id: str | None
    interrupted: str | None
    queue: list[QueuedMessage]
    n: int
    partial_id: str | None
    partial: list[Event]
    read_only: str
    problems: list[str]
    newest_run: str | None
    stored: list[StoredEntry]


class LiveSession:
    """One open session. All public methods are safe to call from any thread."""

    def __init__(self, session: Session, log: JsonlEventLog) -> None:
        self.session = session
        self.log = log
        self.lock = threading.Lock()
        self.run: ActiveRun | None = None
        self.interrupted: str | None = None
        self.queue: list[QueuedMessage] = queue_of(stored.entry for stored in session.entries)
        self.deleting = False
        self.unstored_end: str | None = None
        self._log_problem = ""

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def state(self) -> State:
        return "running" if self.run is not None else "idle"

    def entries(self) -> list[Entry]:
        return [stored.entry for stored in self.session.entries]

    # What a person does

    def begin(self, text: str, run_id: str) -> ActiveRun:
        """Starts a run with a person's message; the caller starts its worker. Raises Conflict while one runs."""
        with self.lock:
            self._require_writable()
            self._require_idle()
            batch = Batch(self.session)
            events = self._end_former(batch, "interrupted")
            run = ActiveRun(run_id)
            batch.run(run.run_id, "started")
            start: list[Event] = [AgentStart(), *self._answer_orphans(batch)]
            start += self._user_message(batch, text)
            self._store(batch, durable=True)
            run.entry_ids += batch.message_ids
            run.turn_open = True
            self.interrupted = self.unstored_end = None
            self.emit(events)
            self.run = run
            self.emit(start, run.run_id)
            return run

    def enqueue(self, text: str) -> tuple[ActiveRun, QueuedMessage]:
        """Queues a message behind the run that works now. Raises Conflict when none does."""
        with self.lock:
            self._require_writable()
            if self.run is None:
                raise Conflict("idle", "No run is working, so there is nothing to queue behind: send it as a prompt.")
            queued = QueuedMessage(id=f"q_{uuid.uuid4().hex[:12]}", text=clean_text(text))
            batch = Batch(self.session)
            batch.queued(queued.id, "added", queued.text)
            self._store(batch, durable=True)
            self.queue.append(queued)
            self.emit([QueueChanged(queue=list(self.queue))])
            return self.run, queued

    def unqueue(self, queue_id: str) -> QueuedMessage:
        """Takes a waiting message back. Raises NotFound when it does not wait (any more)."""
        with self.lock:
            self._require_writable()
            found = next((queued for queued in self.queue if queued.id == queue_id), None)
            if found is None:
                raise NotFound("unknown_queued", f"No queued message {queue_id!r} waits here; it may have been taken.")
            batch = Batch(self.session)
            batch.queued(queue_id, "removed")
            self._store(batch, durable=True)
            self.queue.remove(found)
            self.emit([QueueChanged(queue=list(self.queue))])
            return found

    def resume(self, run_id: str) -> ActiveRun:
        """Takes up an interrupted run under its own id; the caller starts its worker."""
        with self.lock:
            self._require_writable()
            self._require_idle()
            if self.interrupted != run_id:
                raise Conflict("not_interrupted", f"Run {run_id!r} is not interrupted, so it cannot be continued.")
            record = next(run for run in runs_of(self.entries()) if run.run_id == run_id)
            self.run = ActiveRun(run_id, entry_ids=[entry.id for entry in record.messages])
            self.interrupted = None
            return self.run

    def abandon(self, run_id: str) -> bool:
        """Ends an interrupted run as aborted; returns False when it is not interrupted."""
        with self.lock:
            if self.interrupted != run_id:
                return False
            self._require_writable()
            batch = Batch(self.session)
            events = self._end_former(batch, "aborted")
            self._store(batch, durable=True)
            self.interrupted = None
            self.emit(events)
            return True

    def move(self, leaf_id: str | None) -> None:
        """Makes an entry the leaf; the next message becomes its child. None is before the first entry.

        Raises NotFound for an unknown entry, Conflict while a run works.
        """
        with self.lock:
            leaf_id = self._chain_entry(leaf_id)
            self._require_writable()
            self._require_idle()
            if leaf_id == self.session.leaf_id:
                return
            batch = Batch(self.session)
            events = self._end_former(batch, "interrupted")
            batch.leaf(leaf_id)
            self._store(batch, durable=True)
            self.interrupted = self.unstored_end = None
            self.emit([*events, LeafMoved(leaf_id=self.session.leaf_id)])

    def _chain_entry(self, entry_id: str | None) -> str | None:
        """Returns the entry itself, or for a side entry (a label, our bookkeeping) the entry that it hangs on."""
        while entry_id is not None:
            entry = self.session.get(entry_id)
            if entry is None:
                raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session.")
            if not is_side_entry(entry):
                break
            entry_id = entry.parent_id
        return entry_id

    def rename(self, name: str) -> None:
        """Names the session."""
        with self.lock:
            self._require_writable()
            batch = Batch(self.session)
            batch.name(name)
            self._store(batch, durable=True)
            self.emit([SessionRenamed(name=name)])

    def close_for_deletion(self, delete: Callable[[], None]) -> None:
        """Closes the session's file and deletes it, then tells readers that it is gone; in any case ends them."""
        with self.lock:
            self.session.close()
            try:
                delete()
                self.emit([SessionDeleted()])
            finally:
                self.log.close()

    def close(self) -> None:
        """Lets go of files and readers, as at shutdown."""
        with self.lock:
            self.log.close()
            self.session.close()

    # What the worker does

    def context(self) -> tuple[list[Message], set[str]]:
        """Returns the context at the leaf and all tool call ids on the path."""
        with self.lock:
            path = self.session.path()
            return build_context(path).messages, call_ids_on(path)

    def record(self, run: ActiveRun, event: LoopEvent) -> None:
        """Stores and shows an event of the loop. Raises StoreError when a message could not be stored."""
        with self.lock:
            if isinstance(event, MessageStart):
                run.open_entry_id = self.session.new_id()
            if isinstance(event, MessageStart | MessageUpdate | MessageEnd):
                event = msgspec.structs.replace(event, entry_id=run.open_entry_id)
            if isinstance(event, MessageEnd) and event.message is not None:
                batch = Batch(self.session)
                entry = batch.message(event.message, run.open_entry_id)
                self.session.append_all(batch.entries)
                run.entry_ids.append(entry.id)
                run.open_entry_id = None
            self.emit([event], run.run_id)

    def before_effect(self, call: ToolCall, effect: Effect) -> bool:
        """Writes down that a change is about to be made; see ToolContext.before_effect."""
        with self.lock:
            begun = effect_begun(self.entries(), self.session.path(), call.id)
            if begun is None:
                batch = Batch(self.session)
                batch.tool_started(
                    ToolStartedData(
                        tool_call_id=call.id, target=effect.target, before=effect.before, after=effect.after
                    )
                )
                self.session.append_all(batch.entries, durable=True)
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
                if status == "done" and self.queue:
                    if not run.cancel.cancelled:
                        self._take_queued(run)
                        return True
                    status = "aborted"
                self._finish(run, status, error)
            except StoreError as problem:
                self._finish_unstored(run, str(problem))
        run.settled.set()
        return False

    def _take_queued(self, run: ActiveRun) -> None:
        queued = self.queue[0]
        batch = Batch(self.session)
        entry_id = self.session.new_id()
        batch.taken(queued.id, entry_id)
        events = self._user_message(batch, queued.text, entry_id)
        self.session.append_all(batch.entries, durable=True)
        run.entry_ids += batch.message_ids
        run.turn_open = True
        self.queue.pop(0)
        self.emit([QueueChanged(queue=list(self.queue))])
        self.emit(events, run.run_id)

    def _finish(self, run: ActiveRun, status: RunStatus, error: str) -> None:
        batch = Batch(self.session)
        batch.run(run.run_id, "done", status)
        returned = list(self.queue) if status == "aborted" else []
        for queued in returned:
            batch.queued(queued.id, "returned")
        self.session.append_all(batch.entries)
        if returned:
            self.queue.clear()
            self.emit([QueueChanged(queue=[])])
        self._end(run, status, error)

    def _finish_unstored(self, run: ActiveRun, error: str) -> None:
        """Ends a run whose end cannot be stored now: it is over all the same, and what is stored next says so."""
        self.unstored_end = run.run_id
        self._end(run, "error", error)

    def _end(self, run: ActiveRun, status: RunStatus, error: str) -> None:
        run.status, run.error = status, error
        self.run = None
        if run.open_entry_id is not None:
            self.emit([MessageEnd(entry_id=run.open_entry_id, discarded=True)], run.run_id)
        self.emit(self._end_events(run.run_id, run.entry_ids, status, error), run.run_id)

    # Parts of the steps; all need the lock

    def _end_events(self, run_id: str, entry_ids: Sequence[str], status: RunStatus, error: str = "") -> list[Event]:
        return [
            AgentEnd(messages=list(entry_ids)),
            RunDone(
                session_id=self.id,
                status=status,
                leaf_id=self.session.leaf_id,
                last_seq=self.log.last_seq(run_id) + 2,
                error=error,
            ),
        ]

    def _end_former(self, batch: Batch, status: RunStatus) -> list[Event]:
        """Adds the end of a run to the batch, if one was interrupted or lacks only that; returns its last events."""
        if self.unstored_end is not None:
            batch.run(self.unstored_end, "done", "error")
        run_id = self.interrupted
        if run_id is None:
            return []
        record = next((run for run in runs_of(self.entries()) if run.run_id == run_id), None)
        batch.run(run_id, "done", status)
        entry_ids = [entry.id for entry in record.messages] if record else []
        return [msgspec.structs.replace(event, run_id=run_id) for event in self._end_events(run_id, entry_ids, status)]

    def _answer_orphans(self, batch: Batch) -> list[Event]:
        """Gives calls that were left unanswered at the leaf an error result, since the talk goes on without them."""
        events: list[Event] = []
        path = self.session.path()
        for call in unanswered_calls(build_context(path).messages)[1]:
            if effect_begun(self.entries(), path, call.id) is None:
                result = not_run("the conversation went on before it was run")
            else:
                result = failed("This call was begun and broken off. Its outcome is unknown: look at the file first.")
            message = ToolResultMessage(
                tool_call_id=call.id,
                tool_name=call.name,
                content=result.content,
                is_error=True,
                timestamp=now_ms(),
            )
            entry = batch.message(message)
            events += [
                ToolExecutionEnd(
                    tool_call_id=call.id, tool_name=call.name, result=result_payload(result), is_error=True
                ),
                MessageStart(entry_id=entry.id, message=msgspec.structs.replace(message, content=[])),
                MessageEnd(entry_id=entry.id, message=message),
            ]
        return events

    def _user_message(self, batch: Batch, text: str, entry_id: str | None = None) -> list[Event]:
        """Adds a person's message; its turn is announced with it, as in Pi, and goes on in the loop."""
        message = UserMessage(content=[TextContent(text=clean_text(text))], timestamp=now_ms())
        entry = batch.message(message, entry_id)
        return [
            TurnStart(),
            MessageStart(entry_id=entry.id, message=message),
            MessageEnd(entry_id=entry.id, message=message),
        ]

    def _require_writable(self) -> None:
        if self.deleting:
            raise Conflict("deleting", "This session is being deleted.")
        if self.session.read_only:
            raise Conflict("read_only", f"This session is open read-only: {self.session.read_only}")

    def _require_idle(self) -> None:
        if self.run is not None:
            raise Conflict("running", "A run is working in this session. Wait for it, queue the message, or stop it.")

    def _store(self, batch: Batch, *, durable: bool) -> None:
        try:
            self.session.append_all(batch.entries, durable=durable)
        except StoreError as problem:
            raise NotStored("not_stored", str(problem)) from problem

    def emit(self, events: Sequence[Event], run_id: str | None = None) -> None:
        """Emits events; a log that cannot be written is reported, and the entries stay the truth."""
        for event in events:
            try:
                self.log.emit([event], run_id or event.run_id)
                if not isinstance(event, MessageUpdate):
                    self._log_problem = ""
            except LogError as problem:
                self._log_problem = str(problem)
                LOGGER.warning("%s", problem)

    # What pages and the API see

    def snapshot(self) -> Snapshot:
        """Returns a consistent picture for a page; what happens later has a higher number than its ``n``."""
        with self.lock:
            path = self.session.path()
            run = self.run
            partial: list[Event] = []
            if run is not None and run.open_entry_id is not None:
                events = (record.event for record in self.log.after(self.log.buffer.floor, run.run_id))
                partial = [event for event in events if event.entry_id == run.open_entry_id]
            skipped = [f"line {line.line_number}: {line.reason}" for line in self.session.skipped]
            return Snapshot(
                session_id=self.id,
                name=name_of(self.entries()),
                state=self.state,
                leaf_id=self.session.leaf_id,
                path=path,
                messages=build_context(path).messages,
                run_id=run.run_id if run else None,
                interrupted=self.interrupted,
                queue=list(self.queue),
                n=self.log.buffer.last,
                partial_id=run.open_entry_id if run else None,
                partial=partial,
                read_only=self.session.read_only,
                problems=[*skipped, *self.session.warnings, *([self._log_problem] if self._log_problem else [])],
                newest_run=run.run_id if run else newest_run_on(path, runs_of(self.entries())),
                stored=list(self.session.entries),
            )


def new_run_id() -> str:
    """Returns a new run id, unique over all sessions."""
    return f"run_{uuid.uuid4().hex[:16]}"
