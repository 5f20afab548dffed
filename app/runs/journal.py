"""Writing a session down: entries into its file, events into its log, and the folds that know what stands there.

Everything here needs the session lock.
"""

import logging
from collections.abc import Sequence

from app.agent.run import now_ms
from app.protocol.codec import clean_text
from app.protocol.entries import ToolStartedData
from app.protocol.events import Event, MessageUpdate, QueueChanged, RunStatus
from app.protocol.messages import TextContent, UserMessage, unanswered_calls
from app.runs.batch import Batch
from app.runs.buffer import NOTHING_SHOWN, Shown
from app.runs.errors import NotStored
from app.runs.eventlog import EventLog
from app.runs.history import History
from app.runs.log import LogError
from app.runs.run_events import end_of_run, of_orphan_result, of_user_message, orphan_result
from app.runs.workings import Workings
from app.sessions.store import Session, StoreError

LOGGER = logging.getLogger("hornbook.runs")


class Journal:
    """The written side of one session. ``log_problem`` says why events could not be written last time, else "".

    ``workings`` knows the events emitted here; those that the log held before are for the opener to add.
    """

    def __init__(self, session: Session, log: EventLog) -> None:
        self._session = session
        self._log = log
        self.history = History.of(session)
        self.workings = Workings()
        self.log_problem = ""

    def append(self, batch: Batch, *, durable: bool = False) -> None:
        """Stores entries. Raises StoreError; then nothing has changed."""
        for stored in self._session.append_all(batch.entries, durable=durable):
            self.history.add(stored.entry)

    def store(self, batch: Batch) -> None:
        """Stores what a person did: it is on the disk before it is acknowledged. Raises NotStored."""
        try:
            self.append(batch, durable=True)
        except StoreError as problem:
            raise NotStored("not_stored", str(problem)) from problem

    def emit(self, events: Sequence[Event], run_id: str | None = None, *, shown: Shown = NOTHING_SHOWN) -> None:
        """Emits events; a log that cannot be written is reported, and the entries stay the truth.

        ``shown`` is the HTML of the event, when it is one.
        """
        for event in events:
            try:
                emitted: Sequence[Event] = self._log.emit([event], run_id or event.run_id, shown=shown)
                if not isinstance(event, MessageUpdate):
                    self.log_problem = ""
            except LogError as problem:
                emitted = problem.events
                self.log_problem = str(problem)
                LOGGER.warning("%s", problem)
            for numbered in emitted:
                self.workings.add(numbered)

    def emit_queue(self) -> None:
        """Tells what waits now, and what was given back."""
        self.emit([QueueChanged(queue=list(self.history.queue), returned=list(self.history.returned))])

    def return_queue(self, batch: Batch) -> bool:
        """Adds to the batch that what waits is given back; returns whether anything is."""
        for queued in self.history.queue:
            batch.queued(queued.id, "returned")
        return bool(self.history.queue)

    def end_events(self, run_id: str, status: RunStatus, error: str = "") -> list[Event]:
        """Returns the last events of a run, as it ends at the leaf."""
        entry_ids = self.history.runs[run_id].messages
        leaf_id, last_seq = self._session.leaf_id, self._log.last_seq(run_id)
        return end_of_run(self._session.id, entry_ids, status, leaf_id=leaf_id, last_seq=last_seq, error=error)

    def user_message(self, batch: Batch, text: str, *, instead_of: str = "") -> list[Event]:
        """Adds a person's message to the batch, in the place of the queued message ``instead_of``; returns its events.

        The queued message goes with the entry that it becomes: a torn write loses neither or makes both again.
        """
        entry_id = self._session.new_id()
        if instead_of:
            batch.taken(instead_of, entry_id)
        message = UserMessage(content=[TextContent(text=clean_text(text))], timestamp=now_ms())
        return of_user_message(batch.message(message, entry_id))

    def effect_begun(self, tool_call_id: str) -> ToolStartedData | None:
        """Returns what was written before the effect of a call of the branch, if the call got that far."""
        outline = self._session.outline

        def on_path(entry_id: str) -> bool:
            position = outline.position(entry_id)
            return position is not None and outline.is_above(position, outline.leaf)

        return self.history.effect_begun(on_path, tool_call_id)

    def answer_orphans(self, batch: Batch) -> list[Event]:
        """Gives calls that were left unanswered at the leaf an error result, since the talk goes on without them."""
        events: list[Event] = []
        for call in unanswered_calls(self._session.context().messages)[1]:
            begun = self.effect_begun(call.id) is not None
            result, message = orphan_result(call, begun=begun, timestamp=now_ms())
            events += of_orphan_result(call, result, batch.message(message))
        return events
