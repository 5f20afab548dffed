"""What the worker of a run does to its session: steps under the session lock, each one critical section."""

from typing import Any

import msgspec

from app.protocol.entries import ToolStartedData
from app.protocol.events import (
    Compaction,
    CompactionReason,
    LeafMoved,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunStatus,
)
from app.protocol.messages import Message, ToolCall
from app.protocol.tools import Effect, OutcomeUnknown
from app.runs.active import ActiveRun
from app.runs.batch import Batch, Compacted
from app.runs.buffer import NOTHING_SHOWN, Shown
from app.runs.live import LiveSession
from app.sessions.outline import NONE
from app.sessions.store import StoreError


class Worker:
    """One run's hold on its session. A run that is over, or that was given up, changes nothing any more."""

    def __init__(self, live: LiveSession, run: ActiveRun) -> None:
        self.live = live
        self.run = run

    def context(self) -> tuple[list[Message], set[str], int]:
        """Returns the context at the leaf, all tool call ids on the path, and the turns since a person's message."""
        with self.live.lock:
            leaf_id, leaf = self.live.session.leaf_id, self.live.session.outline.leaf
        outline = self.live.session.outline
        asked = next((place for place in outline.up(leaf) if outline.kinds[place] == "user"), NONE)
        turns = outline.turns[leaf] - outline.turns[asked] if asked >= 0 else 0
        return self.live.session.context(leaf_id).messages, outline.call_ids(leaf), turns

    def tell(self, event: Compaction) -> None:
        """Tells how far a summary is."""
        with self.live.lock:
            if self.live.run is self.run:
                self.run.part, self.run.parts = event.part, event.parts
                self.live.not_summarised = event.error if event.status == "failed" else ""
                self.live.journal.emit([event], self.run.run_id)

    def take_compaction(self, made: Compacted, reason: CompactionReason) -> None:
        """Stores the summary of older parts at the leaf. Raises StoreError."""
        with self.live.lock:
            if self.live.run is not self.run:
                return
            batch = Batch(self.live.session)
            entry = batch.compaction(made)
            self.live.journal.append(batch, durable=True)
            self.run.part = self.run.parts = 0
            after = self.live.session.outline.context_size(self.live.session.outline.leaf).tokens
            done = Compaction(
                status="done",
                reason=reason,
                entry_id=entry.id,
                tokens_before=made.tokens_before,
                tokens_after=after,
            )
            self.live.journal.emit([done], self.run.run_id)

    def take_branch_summary(self, target: str | None, summary: str, left_id: str, details: dict[str, Any]) -> None:
        """Moves to ``target`` and stores the summary of the branch that was left there. Raises StoreError."""
        with self.live.lock:
            if self.live.run is not self.run:
                return
            batch = Batch(self.live.session)
            batch.branch_summary(target, summary, left_id, details)
            self.live.journal.append(batch, durable=True)
            self.live.journal.emit([LeafMoved(leaf_id=self.live.session.leaf_id)])

    def record(self, event: LoopEvent, shown: Shown = NOTHING_SHOWN) -> None:
        """Stores and shows an event of the loop, with its HTML. Raises StoreError when a message is not stored."""
        with self.live.lock:
            if self.live.run is not self.run:
                return  # from a tool that its run has not waited for
            if isinstance(event, MessageStart):
                self.run.open_entry_id = self.live.session.new_id()
            if isinstance(event, MessageStart | MessageUpdate | MessageEnd):
                event = msgspec.structs.replace(event, entry_id=self.run.open_entry_id)
            if isinstance(event, MessageEnd) and event.message is not None:
                batch = Batch(self.live.session)
                batch.message(event.message, self.run.open_entry_id)
                self.live.journal.append(batch)
                self.run.open_entry_id = None
            self.live.journal.emit([event], self.run.run_id, shown=shown)

    def before_effect(self, call: ToolCall, effect: Effect) -> bool:
        """Writes down that a change is about to be made; see ToolContext.before_effect."""
        with self.live.lock:
            begun = self.live.journal.effect_begun(call.id)
            if begun is None:
                batch = Batch(self.live.session)
                batch.tool_started(
                    ToolStartedData(
                        tool_call_id=call.id, target=effect.target, before=effect.before, after=effect.after
                    )
                )
                self.live.journal.append(batch, durable=True)
                return True
        if effect.before == begun.after:
            return False
        if effect.before == begun.before:
            return True
        raise OutcomeUnknown(
            f"{effect.target}: this call was begun before the program stopped, and the file has changed since. "
            "The outcome is unknown: look at the file first."
        )

    def next_or_finish(self, status: RunStatus, error: str = "") -> bool:
        """Takes the next queued message into the run (True), or ends the run (False), in one step."""
        with self.live.lock:
            try:
                if status == "done" and self.live.history.queue:
                    if not self.run.cancel.cancelled:
                        self._take_queued()
                        return True
                    status = "aborted"
                self._finish(status, error)
            except StoreError as problem:
                if self.live.closed:
                    self.run.status = "interrupted"  # the program is being stopped: the next start offers to continue
                else:
                    # It is over all the same, and what is stored next says so.
                    self.live.unstored_end = self.run.run_id
                    self._end("error", str(problem))
        self.run.settled.set()
        return False

    def _take_queued(self) -> None:
        queued = self.live.history.queue[0]
        batch = Batch(self.live.session)
        events = self.live.journal.user_message(batch, queued.text, instead_of=queued.id)
        self.live.journal.append(batch)  # the waiting message is on the disk, and waits again if this is lost
        self.run.turn_open = True
        self.live.journal.emit_queue()
        self.live.journal.emit(events, self.run.run_id)

    def _finish(self, status: RunStatus, error: str) -> None:
        batch = Batch(self.live.session)
        batch.run(self.run.run_id, "done", status)
        returned = status == "aborted" and self.live.journal.return_queue(batch)
        self.live.journal.append(batch)
        if returned:
            self.live.journal.emit_queue()
        self._end(status, error)

    def _end(self, status: RunStatus, error: str) -> None:
        if self.run.kind != "prompt" and status == "error":
            self.live.not_summarised = error
        self.run.status, self.run.error = status, error
        self.live.run = None
        if self.run.open_entry_id is not None:
            self.live.journal.emit([MessageEnd(entry_id=self.run.open_entry_id, discarded=True)], self.run.run_id)
        self.live.journal.emit(self.live.journal.end_events(self.run.run_id, status, error), self.run.run_id)
