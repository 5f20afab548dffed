"""Events on disk: one file a session, one JSON object a line, deltas left out.

The file is derived from what happened, so a line that cannot be written is kept back and written before the next one;
a torn or foreign line is skipped when reading.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from app.protocol.codec import decode_as
from app.protocol.events import Event
from app.runs.buffer import Record

NUMBER_STEP = 1_000_000


class LogError(Exception):
    """The events could not be written; the text says why. ``events`` are those that readers have all the same."""

    events: Sequence[Event] = ()


@dataclass
class LogScan:
    """What a log file holds: all records in order, the highest ``n`` and the highest ``seq`` of each run."""

    records: list[Record] = field(default_factory=list)
    highest_n: int = 0
    highest_seq: dict[str, int] = field(default_factory=dict)

    def by_run(self) -> dict[str, list[Event]]:
        """Returns the events of each run, in order."""
        runs: dict[str, list[Event]] = {}
        for record in self.records:
            if record.event.run_id is not None:
                runs.setdefault(record.event.run_id, []).append(record.event)
        return runs


def next_base(highest: int) -> int:
    """Returns the number to go on from after a restart: the next multiple of 1,000,000, 0 for a new log.

    The deltas of the process that died had numbers that are on no disk; the step keeps numbers rising all the same.
    """
    return 0 if highest == 0 else (highest // NUMBER_STEP + 1) * NUMBER_STEP


class EventFile:
    """The log file of one session. The caller serialises appends (session lock)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._backlog: list[bytes] = []
        self._closed = False

    @property
    def kept_back(self) -> bool:
        """Whether lines wait that could not be written yet."""
        return bool(self._backlog)

    def append(self, lines: list[bytes]) -> None:
        """Writes lines (without line ends) in one call. Raises LogError; the lines are then kept for the next call."""
        self._backlog.extend(lines)
        if not self._backlog:
            return
        if self._closed:
            raise LogError(f"The event log {self.path.name} is closed.")
        data = b"".join(line + b"\n" for line in self._backlog)
        try:
            self._write(data)
        except OSError as problem:
            raise LogError(f"The event log {self.path.name} cannot be written: {problem.strerror}.") from problem
        self._backlog.clear()

    def _write(self, data: bytes) -> None:
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._fd = os.open(self.path, flags, 0o600)
        size = os.fstat(self._fd).st_size
        if size and self._last_byte(size) != b"\n":
            data = b"\n" + data
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                raise OSError(28, "only a part was written; the disk may be full")
        except OSError:
            os.ftruncate(self._fd, size)
            raise

    def _last_byte(self, size: int) -> bytes:
        assert self._fd is not None
        os.lseek(self._fd, size - 1, os.SEEK_SET)
        return os.read(self._fd, 1)

    def close(self) -> None:
        """Closes the file for good; what is appended later is refused."""
        self._closed = True
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def scan(self) -> LogScan:
        """Reads the whole file, skipping what is not an event. A missing file is an empty log."""
        found = LogScan()
        for record in self._records():
            event = record.event
            found.records.append(record)
            found.highest_n = max(found.highest_n, event.n)
            if event.run_id is not None and event.seq is not None:
                found.highest_seq[event.run_id] = max(found.highest_seq.get(event.run_id, 0), event.seq)
        return found

    def _records(self) -> Iterator[Record]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        highest = 0
        for line in data.split(b"\n"):
            event = _decode(line)
            if event is not None and event.n > highest:
                highest = event.n
                yield Record(event, line)


def _decode(line: bytes) -> Event | None:
    if not line.strip():
        return None
    try:
        return decode_as(line, Event)  # type: ignore[arg-type]
    except (msgspec.ValidationError, ValueError, RecursionError):
        return None
