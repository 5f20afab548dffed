"""One open session in a JSONL file: what was read, the leaf, and appending."""

import threading
import uuid
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence

import msgspec
from filelock import FileLock
from msgspec import UNSET, UnsetType

from app.protocol.codec import decode_as, encode_line
from app.protocol.entries import LEAF, CustomEntry, Entry, KnownEntry, SessionHeader, is_side_entry
from app.sessions.appending import LineFile, UnsafeFile
from app.sessions.files import reason
from app.sessions.lines import ParsedFile, StoredEntry
from app.sessions.records import SkippedLine
from app.sessions.store import ReadOnlySession, StoreError, UnknownEntryId
from app.sessions.tree import chain_entry, index_of, leaf_of, path_to

CLOSED = "This session is closed."


class JsonlSession:
    """A session that lives in a JSONL file: the Session of the seam."""

    def __init__(
        self,
        session_id: str,
        parsed: ParsedFile,
        *,
        file: LineFile | None,
        lock: FileLock | None,
        read_only: str,
        close: Callable[["JsonlSession"], None],
    ) -> None:
        self._id = session_id
        self._parsed = parsed
        self._entries = parsed.entries
        self._index = index_of(stored.entry for stored in parsed.entries)
        self._leaf_id = leaf_of([stored.entry for stored in parsed.entries])
        self._needs_rewrite = bool(parsed.needs_rewrite)
        self._file = file
        self._lock = lock
        self._read_only = read_only
        self._close = close
        self._guard = threading.RLock()

    @property
    def id(self) -> str:
        return self._id

    @property
    def header(self) -> SessionHeader:
        return self._parsed.header

    @property
    def entries(self) -> Sequence[StoredEntry]:
        return self._entries

    @property
    def leaf_id(self) -> str | None:
        return self._leaf_id

    @property
    def read_only(self) -> str:
        return self._read_only

    @property
    def skipped(self) -> Sequence[SkippedLine]:
        return self._parsed.skipped

    @property
    def warnings(self) -> Sequence[str]:
        return self._parsed.warnings

    @property
    def holds_lock(self) -> bool:
        """Whether this object keeps other processes from writing the file."""
        return self._lock is not None

    def new_id(self) -> str:
        while (entry_id := uuid.uuid4().hex[:8]) in self._index:
            pass
        return entry_id

    def get(self, entry_id: str) -> Entry | None:
        return self._index.get(entry_id)

    def chain_entry(self, entry_id: str | None) -> str | UnsetType | None:
        return chain_entry(self._index, entry_id)

    def path(self, leaf_id: str | UnsetType | None = UNSET) -> list[Entry]:
        target = self._leaf_id if isinstance(leaf_id, UnsetType) else leaf_id
        if target is not None and target not in self._index:
            raise UnknownEntryId("This session has no such entry.")
        return path_to(self._index, target)

    def append(self, entry: KnownEntry, *, durable: bool = False) -> StoredEntry:
        return self.append_all([entry], durable=durable)[0]

    def append_all(self, entries: Sequence[KnownEntry], *, durable: bool = False) -> list[StoredEntry]:
        with self._guard:
            if self._read_only or self._file is None:
                raise ReadOnlySession(self._read_only or CLOSED)
            added, leaf_id = self._placed(entries)
            if added:
                self._write(self._file, [stored.raw for stored in added], durable)
            self._entries.extend(added)
            self._index.update((stored.entry.id, stored.entry) for stored in added)
            self._leaf_id = leaf_id
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

    def _placed(self, entries: Sequence[KnownEntry]) -> tuple[list[StoredEntry], str | None]:
        """The entries as they will be stored and the leaf after the last. StoreError if one does not fit."""
        added: list[StoredEntry] = []
        fresh: dict[str, Entry] = {}
        index = ChainMap(fresh, self._index)
        leaf_id = self._leaf_id
        for stored in map(_stored, entries):
            entry = stored.entry
            _check_place(entry, index, leaf_id)
            added.append(stored)
            fresh[entry.id] = entry
            if _moves_leaf(entry):
                leaf_id = leaf_of([s.entry for s in (*self._entries, *added)])
            elif not is_side_entry(entry):
                leaf_id = entry.id
        return added, leaf_id

    def _write(self, file: LineFile, lines: Sequence[bytes], durable: bool) -> None:
        try:
            if self._needs_rewrite:
                file.rewrite(self._whole_file(), self._parsed.version)
                self._needs_rewrite = False
            file.append(lines, durable=durable)
        except UnsafeFile as error:
            self._read_only = str(error)
            raise

    def _whole_file(self) -> bytes:
        lines = [self._parsed.header_raw, *(stored.raw for stored in self._entries)]
        return b"\n".join(lines) + b"\n"


def _check_place(entry: Entry, index: Mapping[str, Entry], leaf_id: str | None) -> None:
    if not entry.id or entry.id in index:
        raise StoreError(f"The entry id {entry.id!r} is empty or already used in this session.")
    if entry.parent_id is not None and entry.parent_id not in index:
        raise StoreError(f"The parent {entry.parent_id!r} is not in this session.")
    if is_side_entry(entry) and not _moves_leaf(entry) and chain_entry(index, entry.parent_id) != leaf_id:
        raise StoreError("A side entry must have the leaf as its parent.")


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
