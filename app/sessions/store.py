"""The seam between sessions and everything above them: what a session store can do and how it fails."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from app.protocol.entries import Entry, KnownEntry, SessionHeader
from app.sessions.context import Context
from app.sessions.lines import StoredEntry
from app.sessions.outline import Outline
from app.sessions.records import SkippedLine


class StoreError(Exception):
    """Something could not be read or written. The text is one or two plain sentences for a person."""


class UnknownSession(StoreError):
    """There is no such session, or its id is not a plain name."""


class UnknownEntryId(StoreError):
    """The session has no entry with that id."""


class ReadOnlySession(StoreError):
    """The session can be read but not written; the text says why."""


class SessionTaken(StoreError):
    """Another process has the session open, so it can be neither moved to the trash nor restored."""


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the list of sessions.

    ``created`` and ``modified`` in Unix milliseconds; ``message_count`` counts user and assistant messages of
    all branches; ``problem`` says why it cannot be opened or written, empty when nothing speaks against it.
    """

    id: str
    name: str = ""
    first_text: str = ""
    created: int = 0
    modified: int = 0
    message_count: int = 0
    problem: str = ""


class Session(Protocol):
    """An open session: a tree of entries in file order, and the leaf where it goes on.

    Safe to call from several threads; what has to happen in one step (read the leaf, then append) is the
    caller's to guard.
    """

    @property
    def id(self) -> str:
        """The name by which the store knows the session; not always the id in the header."""
        ...

    @property
    def header(self) -> SessionHeader:
        """The file's header, as format version 3 writes it."""
        ...

    @property
    def entries(self) -> Sequence[StoredEntry]:
        """All entries in file order: a live view that only grows, each read when it is asked for.

        Of a doubled id the later entry counts.
        """
        ...

    @property
    def leaf_id(self) -> str | None:
        """The entry where the session goes on; None is before the first entry."""
        ...

    @property
    def read_only(self) -> str:
        """Why nothing can be appended; empty when it can."""
        ...

    @property
    def skipped(self) -> Sequence[SkippedLine]:
        """Lines of the file that are neither header nor entry."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """Oddities of the file that cost nothing, one sentence each."""
        ...

    def new_id(self) -> str:
        """Returns an entry id (8 hex characters) that this session does not use."""
        ...

    @property
    def header_raw(self) -> bytes:
        """The line of the header as version 3 has it; the file's own where that was sound."""
        ...

    @property
    def outline(self) -> Outline:
        """The shape of the session without its bodies, kept up to date."""
        ...

    def at(self, position: int) -> StoredEntry:
        """Returns the entry at a position of the outline, read from the file. Raises StoreError."""
        ...

    def line(self, position: int) -> bytes:
        """Returns the line of the entry at a position, not decoded. Raises StoreError."""
        ...

    def stored(self, entry_id: str) -> StoredEntry | None:
        """Returns the entry with that id and its line, or None. Raises StoreError."""
        ...

    def get(self, entry_id: str) -> Entry | None:
        """Returns the entry with that id, or None. Raises StoreError."""
        ...

    def position(self, leaf_id: str | UnsetType | None = UNSET) -> int:
        """Returns where an entry stands, by default the leaf; NONE for None. Raises UnknownEntryId."""
        ...

    def chain_entry(self, entry_id: str | None) -> str | UnsetType | None:
        """Returns the entry itself, or for a side entry the one that it hangs on; None is before the first entry.

        UNSET for an entry that is unknown, or hangs on nothing but side entries that are lost or go round in a circle.
        """
        ...

    def path(self, leaf_id: str | UnsetType | None = UNSET) -> list[Entry]:
        """Returns the entries from the root to ``leaf_id``, by default to the session's own leaf.

        None gives the empty path. Raises UnknownEntryId for an id that is not in the session. Reads all of it: a page
        or a context asks the outline and reads what it needs.
        """
        ...

    def context(self, leaf_id: str | UnsetType | None = UNSET) -> Context:
        """Returns what a model is given at ``leaf_id``, by default at the leaf. Raises as ``path``."""
        ...

    def append(self, entry: KnownEntry, *, durable: bool = False) -> StoredEntry:
        """Writes an entry as one line and returns it; ``durable`` waits until it is on the disk.

        A chain entry becomes the leaf; a ``leaf`` entry moves it to its own parent; another side entry must
        hang on the leaf and does not move it. The parent must be in the session, or None. What is returned and
        kept is the entry as it would be read from the file. Raises ReadOnlySession, or StoreError when the
        entry does not fit the session or cannot be written: file, entries and leaf are then as before.
        """
        ...

    def append_all(self, entries: Sequence[KnownEntry], *, durable: bool = False) -> list[StoredEntry]:
        """Appends several entries, each after the one before, in one write: all of them or none.

        Returns and raises as ``append``. Only a crash of the machine can leave the first few of them.
        """
        ...

    def close(self) -> None:
        """Frees the file for other processes. Further calls do nothing."""
        ...


class SessionStore(Protocol):
    """Sessions by id."""

    def create(self, *, cwd: str, parent_session: str | None = None) -> Session:
        """Returns a new, empty, writable session that is already on the disk. Raises StoreError."""
        ...

    def open(self, session_id: str) -> Session:
        """Returns a session: the same object while it is open and writable, else one read anew.

        It is read-only, and says why, while another process has it open. Raises UnknownSession, or StoreError
        when it cannot be read.
        """
        ...

    def add(self, content: bytes, session_id: str = "") -> str:
        """Writes a whole new session, safe on the disk, and returns its id.

        That is ``session_id`` where it is a plain name and free, else a new one. Raises StoreError.
        """
        ...

    def holding(self, text: bytes) -> list[str]:
        """Returns the ids of the sessions in whose files ``text`` occurs, the file written last first."""
        ...

    def trashed(self) -> list[SessionSummary]:
        """Returns the sessions in the trash that can be restored, the one trashed last first; ``modified`` is when."""
        ...

    def list(self) -> list[SessionSummary]:
        """Returns all sessions, newest message first; what cannot be read is listed with its problem."""
        ...

    def trash(self, session_id: str) -> None:
        """Moves a session to the trash, from where ``restore`` brings it back.

        If it is open here, it is closed. Raises UnknownSession, SessionTaken or StoreError.
        """
        ...

    def restore(self, session_id: str) -> None:
        """Brings a session back from the trash. Raises UnknownSession, SessionTaken or StoreError."""
        ...

    def close(self) -> None:
        """Closes every open session."""
        ...
