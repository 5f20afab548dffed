"""The replay buffer of a session: recent events in memory, for any number of readers that come and go.

Events of all runs stand in one list ordered by ``n``; a run's stream is a filter of it. Writers hold the session lock
and then take the buffer's condition; readers take the condition alone. Nothing is written, rendered or called under
the condition.
"""

import threading
import time
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter

from app.protocol.events import Event, MessageEnd, MessageUpdate
from app.protocol.model import TextDelta, ThinkingDelta, ToolCallDelta
from app.render.markdown import Rendered
from app.render.streaming import Piece

_DELTAS = frozenset({TextDelta, ThinkingDelta, ToolCallDelta})
FOLD_EVENTS = 5_000
FOLD_BYTES = 1_048_576


@dataclass(frozen=True)
class Shown:
    """What pages show of an event: ``piece`` of a text delta, ``rendered`` of a whole message."""

    piece: Piece | None = None
    rendered: Rendered | None = None


NOTHING_SHOWN = Shown()


@dataclass(frozen=True)
class Record:
    """An event and its JSON, encoded once for all readers, and its HTML, in memory only and not for every event."""

    event: Event
    data: bytes
    piece: Piece | None = None
    rendered: Rendered | None = None

    @property
    def n(self) -> int:
        return self.event.n


def is_delta(record: Record) -> bool:
    """Returns whether a record only adds to a block that a reader already has."""
    event = record.event
    return type(event) is MessageUpdate and type(event.assistant_message_event) in _DELTAS


class EventBuffer:
    """Events with ``n`` above ``floor``; older ones are on disk only.

    ``fold_events`` and ``fold_bytes``: above these sizes of a run, deltas of its finished messages are dropped.
    """

    def __init__(self, *, fold_events: int = FOLD_EVENTS, fold_bytes: int = FOLD_BYTES) -> None:
        lock = threading.Lock()
        self._condition = threading.Condition(lock)
        self._urgent = threading.Condition(lock)
        self._records: list[Record] = []
        self._floor = 0
        self._last = 0
        self._closed = False
        self._limits = (fold_events, fold_bytes)
        self._sizes: dict[str, tuple[int, int]] = {}

    @property
    def floor(self) -> int:
        """The highest ``n`` that is no longer in memory."""
        return self._floor

    @property
    def closed(self) -> bool:
        return self._closed

    def load(self, records: list[Record], floor: int) -> None:
        """Takes what was read from disk when the session was opened; call it once, before any append."""
        with self._condition:
            self._records = list(records)
            self._floor = floor
            self._last = records[-1].n if records else floor

    def append(self, records: list[Record]) -> None:
        """Adds numbered records, in order, and wakes the readers. Nothing is added once its readers were ended."""
        with self._condition:
            if self._closed:
                return
            for record in records:
                self._records.append(record)
                self._last = record.n
                self._fold_after(record)
            self._condition.notify_all()
            if not all(is_delta(record) for record in records):
                self._urgent.notify_all()

    def _fold_after(self, record: Record) -> None:
        run_id = record.event.run_id
        if run_id is None:
            return
        count, size = self._sizes.get(run_id, (0, 0))
        self._sizes[run_id] = count + 1, size + len(record.data)
        if not isinstance(record.event, MessageEnd):
            return
        if count < self._limits[0] and size < self._limits[1]:
            return
        entry_id = record.event.entry_id
        self._records = [
            kept
            for kept in self._records
            if not (isinstance(kept.event, MessageUpdate) and kept.event.entry_id == entry_id)
        ]

    def evict_run(self, run_id: str) -> None:
        """Drops everything up to the last event of a finished run; it stays readable on disk."""
        with self._condition:
            numbers = [record.n for record in self._records if record.event.run_id == run_id]
            if not numbers:
                return
            self._floor = max(self._floor, numbers[-1])
            self._records = self._records[self._index_after(self._floor) :]
            self._sizes.pop(run_id, None)

    def close(self) -> None:
        """Ends all readers: nothing more will come."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            self._urgent.notify_all()

    def after(self, n: int, run_id: str | None = None) -> list[Record]:
        """Returns the records with a number above ``n``, of one run or of all."""
        with self._condition:
            return self._after(n, run_id)

    def wait(self, n: int, timeout: float, run_id: str | None = None, *, hold: float = 0.0) -> list[Record]:
        """Like ``after``, but waits up to ``timeout`` seconds for something new or for the end.

        For the first ``hold`` seconds deltas alone do not end the wait: a reader that has just sent some gathers the
        next ones, since each wake-up of its thread costs more than what it carries.
        """
        now = time.monotonic()
        deadline, gather_until = now + timeout, now + min(hold, timeout)
        with self._condition:
            while True:
                found = self._after(n, run_id)
                now = time.monotonic()
                if self._closed or now >= deadline:
                    return found
                gathering = now < gather_until
                if found and not (gathering and all(is_delta(record) for record in found)):
                    return found
                if gathering:
                    self._urgent.wait(gather_until - now)
                else:
                    self._condition.wait(deadline - now)

    @property
    def last(self) -> int:
        """The highest ``n`` so far: the cursor of a page that is rendered now."""
        with self._condition:
            return self._last

    def _index_after(self, n: int) -> int:
        return bisect_right(self._records, n, key=attrgetter("n"))

    def _after(self, n: int, run_id: str | None) -> list[Record]:
        found = self._records[self._index_after(n) :]
        return found if run_id is None else [record for record in found if record.event.run_id == run_id]
