"""The event log of a session: gives events their numbers, stores them, and lets readers replay and wait.

``EventLog`` is one of the three seams (with the session store and the executor): a class or a school can put another
log behind it. The embedded one keeps recent events in memory and all but deltas in data/runs/<sessionId>.jsonl.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from app.protocol.codec import encode_line
from app.protocol.events import Event, MessageUpdate
from app.runs.buffer import NOTHING_SHOWN, EventBuffer, Record, Shown
from app.runs.log import EventFile, LogError, LogScan, next_base


class EventLog(Protocol):
    """Numbers, keeps and replays the events of one session."""

    @property
    def last(self) -> int:
        """The highest number so far: the cursor of a page that is rendered now."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing more can come."""
        ...

    def open(self) -> LogScan:
        """Reads what is stored, so that numbers go on above it; returns it, for repair. Raises OSError."""
        ...

    def keep_in_memory(self, scan: LogScan, run_id: str) -> None:
        """Keeps the events from the start of a run on at hand; call it right after ``open``."""
        ...

    def last_seq(self, run_id: str) -> int:
        """Returns the number of the run's newest event, 0 before the first."""
        ...

    def emit(self, events: Sequence[Event], run_id: str | None = None, *, shown: Shown = NOTHING_SHOWN) -> list[Event]:
        """Numbers and stores events and shows them to readers; the caller holds the session lock.

        ``shown`` is the HTML of the last of them, for readers of this process; a log need not keep it.
        Returns the numbered events. Raises LogError, which holds them, when they could not be stored; readers have
        them all the same.
        """
        ...

    def after(self, n: int, run_id: str | None = None) -> list[Record]:
        """Returns what was emitted after number ``n``, from memory or disk."""
        ...

    def wait(self, n: int, timeout: float, run_id: str | None = None, *, hold: float = 0.0) -> list[Record]:
        """Like ``after``, but waits up to ``timeout`` seconds for something new, ``hold`` for deltas alone."""
        ...

    def evict_run(self, run_id: str) -> None:
        """Drops a finished run, and what came before it, from memory; it stays readable."""
        ...

    def close(self) -> None:
        """Ends the readers; nothing can be emitted any more."""
        ...


class EventLogs(Protocol):
    """The event logs by session."""

    def of(self, session_id: str) -> EventLog:
        """Returns a session's log, not opened yet."""
        ...

    def trash(self, session_id: str) -> None:
        """Moves a session's log, if there is one, to the trash. Raises OSError."""
        ...

    def restore(self, session_id: str) -> None:
        """Brings it back, if it is there. Raises OSError."""
        ...


class JsonlEventLog:
    """The embedded event log. Numbers go on above all that any process gave out."""

    def __init__(self, path: Path) -> None:
        self._file = EventFile(path)
        self.buffer = EventBuffer()
        self._n = 0
        self._seq: dict[str, int] = {}
        self._first_n: dict[str, int] = {}

    @property
    def last(self) -> int:
        return self.buffer.last

    @property
    def closed(self) -> bool:
        return self.buffer.closed

    def open(self) -> LogScan:
        scan = self._file.scan()
        self._n = next_base(scan.highest_n)
        self._seq = {run_id: next_base(seq) for run_id, seq in scan.highest_seq.items()}
        for record in reversed(scan.records):
            if record.event.run_id is not None:
                self._first_n[record.event.run_id] = record.n
        self.buffer.load([], scan.highest_n)
        return scan

    def keep_in_memory(self, scan: LogScan, run_id: str) -> None:
        starts = [index for index, record in enumerate(scan.records) if record.event.run_id == run_id]
        if starts:
            before = scan.records[starts[0] - 1].n if starts[0] else 0
            self.buffer.load(scan.records[starts[0] :], before)

    def emit(self, events: Sequence[Event], run_id: str | None = None, *, shown: Shown = NOTHING_SHOWN) -> list[Event]:
        records = [self._number(event, run_id) for event in events]
        if records and shown is not NOTHING_SHOWN:
            records[-1] = replace(records[-1], piece=shown.piece, rendered=shown.rendered)
        numbered = [record.event for record in records]
        lines = [record.data for record in records if not isinstance(record.event, MessageUpdate)]
        try:
            if lines:
                self._file.append(lines)
        except LogError as problem:
            problem.events = numbered
            raise
        finally:
            self.buffer.append(records)
        return numbered

    def last_seq(self, run_id: str) -> int:
        return self._seq.get(run_id, 0)

    def _number(self, event: Event, run_id: str | None) -> Record:
        self._n += 1
        seq = None
        if run_id is not None:
            seq = self._seq.get(run_id, 0) + 1
            self._seq[run_id] = seq
            self._first_n.setdefault(run_id, self._n)
        numbered = msgspec.structs.replace(event, n=self._n, seq=seq, run_id=run_id, ts=time.time_ns() // 1_000_000)
        return Record(numbered, encode_line(numbered))

    def after(self, n: int, run_id: str | None = None) -> list[Record]:
        n = self._start(n, run_id)
        while True:
            floor = self.buffer.floor
            found = self._on_disk(n, floor, run_id) if n < floor else []
            found += self.buffer.after(max(n, floor), run_id)
            # What was evicted between the two looks may be in neither.
            if self.buffer.floor == floor:
                return found

    def _start(self, n: int, run_id: str | None) -> int:
        """Returns where to look from: nothing of a run stands before its first event, and the disk is slow."""
        return n if run_id is None else max(n, self._first_n.get(run_id, self._n + 1) - 1)

    def _on_disk(self, n: int, up_to: int, run_id: str | None) -> list[Record]:
        return [
            record
            for record in self._file.scan().records
            if n < record.n <= up_to and run_id in (None, record.event.run_id)
        ]

    def wait(self, n: int, timeout: float, run_id: str | None = None, *, hold: float = 0.0) -> list[Record]:
        n = self._start(n, run_id)
        if n < self.buffer.floor:
            found = self.after(n, run_id)
            if found:
                return found
        found = self.buffer.wait(n, timeout, run_id, hold=hold)
        return found if n >= self.buffer.floor else self.after(n, run_id)

    def evict_run(self, run_id: str) -> None:
        if not self._file.kept_back:  # or the disk would lack a part of it
            self.buffer.evict_run(run_id)

    def close(self) -> None:
        self.buffer.close()
        self._file.close()


class JsonlEventLogs:
    """The embedded logs: a file a session in ``folder``."""

    def __init__(self, folder: Path, trash: Path) -> None:
        self._folder = folder
        self._trash = trash

    def of(self, session_id: str) -> JsonlEventLog:
        return JsonlEventLog(self._folder / f"{session_id}.jsonl")

    def trash(self, session_id: str) -> None:
        self._move(self._folder / f"{session_id}.jsonl", self._trash / f"{session_id}.runs.jsonl")

    def restore(self, session_id: str) -> None:
        self._move(self._trash / f"{session_id}.runs.jsonl", self._folder / f"{session_id}.jsonl")

    @staticmethod
    def _move(source: Path, target: Path) -> None:
        if source.exists():
            source.replace(target)
