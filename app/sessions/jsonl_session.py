"""One open session in a JSONL file: its outline, its entries read on demand, the leaf, and appending."""

import functools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import msgspec
from filelock import FileLock
from msgspec import UNSET, UnsetType

from app.protocol.codec import decode_as, encode_line
from app.protocol.entries import LEAF, CustomEntry, Entry, KnownEntry, SessionHeader, is_side_entry
from app.sessions.appending import LineFile, UnsafeFile
from app.sessions.bodies import Bodies
from app.sessions.context import Context, context_of
from app.sessions.files import reason
from app.sessions.lines import StoredEntry
from app.sessions.outline import LOST, NONE, Outline
from app.sessions.reading import FileReading, Places, entry_of
from app.sessions.records import SkippedLine
from app.sessions.store import ReadOnlySession, StoreError, UnknownEntryId

CLOSED = "This session is closed."
KEPT_DECODED = 512
"""Entries that stay decoded, those used last."""


class JsonlSession:
    """A session that lives in a JSONL file: the Session of the seam."""

    def __init__(
        self,
        session_id: str,
        path: Path,
        reading: FileReading,
        *,
        file: LineFile | None,
        lock: FileLock | None,
        read_only: str,
        close: Callable[["JsonlSession"], None],
    ) -> None:
        """Takes what was read of the file. Raises OSError when it cannot be opened again."""
        self._id = session_id
        self._path = path
        self._reading = reading
        self._outline = reading.outline
        self._places = reading.places
        self._source = _Source(reading.places, Bodies(path), reading.header.timestamp)
        self._needs_rewrite = bool(reading.needs_rewrite)
        self._file = file
        self._lock = lock
        self._read_only = read_only
        self._close = close
        self._guard = threading.RLock()
        self._decoded = functools.lru_cache(maxsize=KEPT_DECODED)(self._source.read)

    @property
    def id(self) -> str:
        return self._id

    @property
    def header(self) -> SessionHeader:
        return self._reading.header

    @property
    def header_raw(self) -> bytes:
        return self._reading.header_raw

    @property
    def outline(self) -> Outline:
        return self._outline

    @property
    def entries(self) -> Sequence[StoredEntry]:
        return _Entries(self._outline, self.at)

    @property
    def leaf_id(self) -> str | None:
        return self._id_at(self._outline.leaf)

    @property
    def read_only(self) -> str:
        return self._read_only

    @property
    def skipped(self) -> Sequence[SkippedLine]:
        return self._reading.skipped

    @property
    def warnings(self) -> Sequence[str]:
        return self._reading.warnings

    @property
    def holds_lock(self) -> bool:
        """Whether this object keeps other processes from writing the file."""
        return self._lock is not None

    def new_id(self) -> str:
        while self._outline.position(entry_id := uuid.uuid4().hex[:8]) is not None:
            pass
        return entry_id

    def at(self, position: int) -> StoredEntry:
        try:
            return self._decoded(position)
        except OSError as error:
            raise StoreError(f"The session could not be read: {reason(error)}.") from error

    def line(self, position: int) -> bytes:
        try:
            return self._source.raw(position)
        except OSError as error:
            raise StoreError(f"The session could not be read: {reason(error)}.") from error

    def stored(self, entry_id: str) -> StoredEntry | None:
        position = self._outline.position(entry_id)
        return None if position is None else self.at(position)

    def get(self, entry_id: str) -> Entry | None:
        stored = self.stored(entry_id)
        return None if stored is None else stored.entry

    def chain_entry(self, entry_id: str | None) -> str | UnsetType | None:
        if entry_id is None:
            return None
        position = self._outline.position(entry_id)
        if position is None or self._outline.chain[position] == LOST:
            return UNSET
        return self._id_at(self._outline.chain[position])

    def path(self, leaf_id: str | UnsetType | None = UNSET) -> list[Entry]:
        return [self.at(position).entry for position in self._outline.path(self.position(leaf_id))]

    def context(self, leaf_id: str | UnsetType | None = UNSET) -> Context:
        return context_of(self._outline, self.position(leaf_id), lambda position: self.at(position).entry)

    def position(self, leaf_id: str | UnsetType | None = UNSET) -> int:
        if isinstance(leaf_id, UnsetType):
            return self._outline.leaf
        if leaf_id is None:
            return NONE
        position = self._outline.position(leaf_id)
        if position is None:
            raise UnknownEntryId("This session has no such entry.")
        return position

    def append(self, entry: KnownEntry, *, durable: bool = False) -> StoredEntry:
        return self.append_all([entry], durable=durable)[0]

    def append_all(self, entries: Sequence[KnownEntry], *, durable: bool = False) -> list[StoredEntry]:
        with self._guard:
            if self._read_only or self._file is None:
                raise ReadOnlySession(self._read_only or CLOSED)
            added = self._placed(entries)
            if added:
                self._write(self._file, [stored.raw for stored in added], durable)
            return added

    def close(self) -> None:
        self._close(self)

    def shut(self, why: str) -> None:
        """Gives the file free; what was read stays readable. ``why`` is what a later append is told."""
        with self._guard:
            if self._file is not None:
                self._file.close()
                self._file = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None
            self._read_only = self._read_only or why

    def _id_at(self, position: int) -> str | None:
        return self._outline.ids[position] if position >= 0 else None

    def _placed(self, entries: Sequence[KnownEntry]) -> list[StoredEntry]:
        """Returns the entries as they will be stored. Raises StoreError if one does not fit."""
        added: list[StoredEntry] = []
        fresh: dict[str, str | UnsetType | None] = {}
        leaf_id = self.leaf_id

        def chain_of(entry_id: str | None) -> str | UnsetType | None:
            return fresh[entry_id] if entry_id in fresh else self.chain_entry(entry_id)

        for stored in map(_stored, entries):
            entry = stored.entry
            if not entry.id or entry.id in fresh or self._outline.position(entry.id) is not None:
                raise StoreError(f"The entry id {entry.id!r} is empty or already used in this session.")
            parent = entry.parent_id
            if parent is not None and parent not in fresh and self._outline.position(parent) is None:
                raise StoreError(f"The parent {parent!r} is not in this session.")
            if not is_side_entry(entry):
                fresh[entry.id] = leaf_id = entry.id
            else:
                fresh[entry.id] = chain_of(parent)
                if _moves_leaf(entry):
                    leaf_id = self._leaf_after(fresh[entry.id], fresh)
                elif fresh[entry.id] != leaf_id:
                    raise StoreError("A side entry must have the leaf as its parent.")
            added.append(stored)
        return added

    def _leaf_after(self, target: str | UnsetType | None, fresh: dict[str, str | UnsetType | None]) -> str | None:
        """Where a move to ``target`` leads; where that is lost, to the last chain entry."""
        if not isinstance(target, UnsetType):
            return target
        chain = [entry_id for entry_id, own in fresh.items() if entry_id == own]
        return chain[-1] if chain else self._id_at(self._outline.last_chain())

    def _write(self, file: LineFile, lines: Sequence[bytes], durable: bool) -> None:
        try:
            if self._needs_rewrite:
                file.rewrite(self._whole_file(), self._reading.version)
                self._needs_rewrite = False
                self._source.bodies = Bodies(self._path)
                self._places.written(len(self.header_raw) + 1)
            offset = file.append(lines, durable=durable)
        except UnsafeFile as error:
            self._read_only = str(error)
            raise
        for raw in lines:
            self._places.add(offset, len(raw))
            offset += len(raw) + 1
            self._outline.add(entry_of(raw, self.header.timestamp).entry)

    def _whole_file(self) -> bytes:
        lines = [self.header_raw, *(self.at(position).raw for position in range(len(self._outline)))]
        return b"\n".join(lines) + b"\n"


@dataclass
class _Source:
    """Where lines are read from. It does not refer to the session, so that with that one the file is let go of."""

    places: Places
    bodies: Bodies
    fallback_time: str

    def raw(self, position: int) -> bytes:
        kept = self.places.kept.get(position)
        return kept or self.bodies.read(self.places.offsets[position], self.places.lengths[position])

    def read(self, position: int) -> StoredEntry:
        return entry_of(self.raw(position), self.fallback_time)


class _Entries(Sequence[StoredEntry]):
    """A live view of all entries in file order, each read when it is asked for."""

    def __init__(self, outline: Outline, read: Callable[[int], StoredEntry]) -> None:
        self._outline = outline
        self._read = read

    def __len__(self) -> int:
        return len(self._outline)

    def __iter__(self) -> Iterator[StoredEntry]:
        return map(self._read, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> StoredEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[StoredEntry]: ...

    def __getitem__(self, index: int | slice) -> StoredEntry | list[StoredEntry]:
        positions = range(len(self))[index]
        return self._read(positions) if isinstance(positions, int) else [self._read(at) for at in positions]


def _moves_leaf(entry: Entry) -> bool:
    return isinstance(entry, CustomEntry) and entry.custom_type == LEAF


def _stored(entry: KnownEntry) -> StoredEntry:
    """The entry's line and the entry as it will be read: what could not be read again must not be written."""
    try:
        raw = encode_line(entry)
        view: KnownEntry = decode_as(raw, KnownEntry)  # type: ignore[arg-type]  # a union, not a class
        return StoredEntry(view, raw)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise StoreError(f"This entry cannot be written as JSON: {reason(error)}.") from error
