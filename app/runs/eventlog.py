"""The event log of a session: gives events their numbers, stores them, and lets readers replay and wait.

``EventLog`` is one of the three seams (with the session store and the executor): a class or a school can put another
log behind it. The embedded one keeps recent events in memory and all but deltas in data/runs/<sessionId>.jsonl.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from app.protocol.codec import encode_line
from app.protocol.events import Event, MessageUpdate
from app.runs.buffer import EventBuffer, Record
from app.runs.log import EventFile, LogError, LogScan, next_base


class EventLog(Protocol):
    """Numbers, keeps and replays the events of one session."""

    def emit(self, events: Sequence[Event], run_id: str | None = None) -> list[Event]:
        """Numbers and stores events and shows them to readers; the caller holds the session lock.

        Returns the numbered events. Raises LogError when they could not be stored; readers have them all the same.
        """
        ...

    def after(self, n: int, run_id: str | None = None) -> list[Record]:
        """Returns what was emitted after number ``n``, from memory or disk."""
        ...

    def wait(self, n: int, timeout: float, run_id: str | None = None, *, hold: float = 0.0) -> list[Record]:
        """Like ``after``, but waits up to ``timeout`` seconds for something new, ``hold`` for deltas alone."""
        ...


class JsonlEventLog:
    """The embedded event log. Opening it reads the file; numbers go on above all that any process gave out."""

    def __init__(self, path: Path) -> None:
        self._file = EventFile(path)
        self.buffer = EventBuffer()
        self._n = 0
        self._seq: dict[str, int] = {}

    def open(self) -> LogScan:
        """Reads the file and sets the numbers. Returns what it holds, for repair."""
        scan = self._file.scan()
        self._n = next_base(scan.highest_n)
        self._seq = {run_id: next_base(seq) for run_id, seq in scan.highest_seq.items()}
        self.buffer.load([], scan.highest_n)
        return scan

    def keep_in_memory(self, scan: LogScan, run_id: str) -> None:
        """Keeps the events from the start of a run on in memory; call it right after ``open``."""
        starts = [index for index, record in enumerate(scan.records) if record.event.run_id == run_id]
        if starts:
            before = scan.records[starts[0] - 1].n if starts[0] else 0
            self.buffer.load(scan.records[starts[0] :], before)

    def emit(self, events: Sequence[Event], run_id: str | None = None) -> list[Event]:
        records = [self._number(event, run_id) for event in events]
        lines = [record.data for record in records if not isinstance(record.event, MessageUpdate)]
        try:
            if lines:
                self._file.append(lines)
        finally:
            self.buffer.append(records)
        return [record.event for record in records]

    def last_seq(self, run_id: str) -> int:
        """Returns the number of the run's newest event, 0 before the first."""
        return self._seq.get(run_id, 0)

    def _number(self, event: Event, run_id: str | None) -> Record:
        self._n += 1
        seq = None
        if run_id is not None:
            seq = self._seq.get(run_id, 0) + 1
            self._seq[run_id] = seq
        numbered = msgspec.structs.replace(event, n=self._n, seq=seq, run_id=run_id, ts=time.time_ns() // 1_000_000)
        return Record(numbered, encode_line(numbered))

    def after(self, n: int, run_id: str | None = None) -> list[Record]:
        while True:
            floor = self.buffer.floor
            found = self._on_disk(n, floor, run_id) if n < floor else []
            found += self.buffer.after(max(n, floor), run_id)
            # What was evicted between the two looks may be in neither.
            if self.buffer.floor == floor:
                return found

    def _on_disk(self, n: int, up_to: int, run_id: str | None) -> list[Record]:
        return [
            record
            for record in self._file.scan().records
            if n < record.n <= up_to and run_id in (None, record.event.run_id)
        ]

    def wait(self, n: int, timeout: float, run_id: str | None = None, *, hold: float = 0.0) -> list[Record]:
        if n < self.buffer.floor:
            found = self.after(n, run_id)
            if found:
                return found
        found = self.buffer.wait(n, timeout, run_id, hold=hold)
        return found if n >= self.buffer.floor else self.after(n, run_id)

    def evict_run(self, run_id: str) -> None:
        """Drops a finished run, and what came before it, from memory; not while the disk lacks a part of it."""
        if not self._file.kept_back:
            self.buffer.evict_run(run_id)

    def close(self) -> None:
        """Ends the readers and closes the file."""
        self.buffer.close()
        self._file.close()


__all__ = ["EventLog", "JsonlEventLog", "LogError"]
