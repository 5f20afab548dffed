"""Sessions as JSONL files in one folder, one writer each."""

import contextlib
import os
import stat
import threading
import uuid
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from app.protocol.codec import encode_line
from app.protocol.entries import FORMAT_VERSION, SessionHeader
from app.sessions.appending import LineFile
from app.sessions.files import Files, reason, sync_folder, write_new
from app.sessions.jsonl_session import CLOSED, JsonlSession
from app.sessions.outline import Outline
from app.sessions.reading import read_session
from app.sessions.store import SessionSummary, SessionTaken, StoreError, UnknownSession
from app.sessions.summary import summary_of
from app.sessions.times import now_iso

_SUFFIX = ".jsonl"
_NEVER = (0, -1)  # no file has this time and size
_TAKEN = "Another process has this session open; here it can only be read."
_NEWER = f"This file has a newer format than version {FORMAT_VERSION}; it can only be read."


class JsonlSessionStore:
    """The SessionStore of the seam: ``<id>.jsonl`` files in ``folder``, removed ones in ``trash``."""

    def __init__(self, folder: Path, trash: Path, files: Files | None = None) -> None:
        """Touches nothing yet; folders are made when they are needed."""
        self._folder = folder
        self._trash = trash
        self._files = files or Files()
        self._guard = threading.RLock()
        self._open: dict[str, JsonlSession] = {}
        self._trashed: dict[str, tuple[tuple[int, int], SessionSummary]] = {}
        self._summaries: dict[str, tuple[tuple[int, int], SessionSummary]] = {}

    def create(self, *, cwd: str, parent_session: str | None = None) -> JsonlSession:
        session_id = str(uuid.uuid4())
        header = SessionHeader(
            id=session_id,
            version=FORMAT_VERSION,
            timestamp=now_iso(),
            cwd=cwd,
            parent_session=parent_session,
        )
        with self._guard:
            _make_folder(self._folder)
            lock, why = self._take_lock(session_id)
            try:
                if lock is None:
                    raise StoreError(f"The new session could not be saved. {why}")
                os.close(write_new(self._path(session_id), encode_line(header) + b"\n", self._files))
                sync_folder(self._folder)
                return self._load(session_id, lock, why)
            except OSError as error:
                _release(lock)
                raise StoreError(f"The new session could not be saved: {reason(error)}.") from error
            except StoreError:
                _release(lock)
                raise

    def add(self, content: bytes, session_id: str = "") -> str:
        with self._guard:
            _make_folder(self._folder)
            free = _is_plain_name(session_id) and not self._is_taken(session_id)
            chosen = session_id if free else str(uuid.uuid4())
            try:
                os.close(write_new(self._path(chosen), content, self._files))
            except OSError as error:
                raise StoreError(f"The session could not be saved: {reason(error)}.") from error
            sync_folder(self._folder)
            return chosen

    def look(self, session_id: str) -> JsonlSession:
        """Returns a session to read, whoever writes it meanwhile: nothing is locked. Raises as ``open``."""
        with self._guard:
            self._require(self._path(session_id))
            return self._load(session_id, None, "It was opened only to be read.")

    def _is_taken(self, session_id: str) -> bool:
        """Whether a session has the id, or one in the trash that could then not be restored."""
        name = f"{session_id}{_SUFFIX}"
        return os.path.lexists(self._folder / name) or os.path.lexists(self._trash / name)

    def open(self, session_id: str) -> JsonlSession:
        with self._guard:
            self._require(self._path(session_id))
            held = self._open.get(session_id)
            if held is not None and not held.read_only:
                return held
            if held is not None:
                held.shut(CLOSED)  # what it shows may be old, so the file is read anew
            lock, why = self._take_lock(session_id)
            try:
                return self._load(session_id, lock, why)
            except BaseException:
                _release(lock)
                raise

    def holding(self, text: bytes) -> list[str]:
        paths = sorted(self._folder.glob(f"*{_SUFFIX}"), key=_written, reverse=True)
        return [path.name.removesuffix(_SUFFIX) for path in paths if _holds(path, text)]

    def trashed(self) -> list[SessionSummary]:
        try:
            names = [name for name in os.listdir(self._trash) if name.endswith(_SUFFIX)]
        except OSError:
            return []
        found = []
        for name in names:
            path, session_id = self._trash / name, name.removesuffix(_SUFFIX)
            # A run's events lie beside their session as <id>.runs.jsonl.
            if session_id.endswith(".runs") or not _is_plain_name(session_id) or not path.is_file():
                continue
            with contextlib.suppress(OSError):
                status = path.stat()
                key, moved = (status.st_ctime_ns, status.st_size), status.st_ctime_ns // 1_000_000
                known = self._trashed.get(name)
                if known is None or known[0] != key:
                    summary = msgspec.structs.replace(_read_summary(session_id, path, moved), modified=moved)
                    self._trashed[name] = known = (key, summary)
                found.append(known[1])
        return sorted(found, key=lambda summary: (-summary.modified, summary.id))

    def list(self) -> list[SessionSummary]:
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"The sessions could not be listed: {reason(error)}.") from error
        found = {name: kept for name in names if name[0] != "." and (kept := self._summary(name))}
        self._summaries = found
        return sorted((summary for _, summary in found.values()), key=lambda s: (-s.modified, s.id))

    def trash(self, session_id: str) -> None:
        with self._guard:
            path = self._path(session_id)
            self._require(path)
            held = self._open.get(session_id)
            lock = None if held is not None and held.holds_lock else self._lock_or_raise(session_id)
            try:
                _make_folder(self._trash)
                _move_aside(self._trash / path.name)
                self._move(session_id, self._folder, self._trash)
                if held is not None:
                    self._forget(held, "This session is in the trash.")
            except OSError as error:
                raise StoreError(f"The session could not be moved to the trash: {reason(error)}.") from error
            finally:
                _release(lock)

    def restore(self, session_id: str) -> None:
        with self._guard:
            path = self._path(session_id)
            self._require(self._trash / path.name)
            lock = self._lock_or_raise(session_id)
            try:
                if os.path.lexists(path):
                    raise StoreError("A session with this id is there already.")
                self._move(session_id, self._trash, self._folder)
            except OSError as error:
                raise StoreError(f"The session could not be restored: {reason(error)}.") from error
            finally:
                _release(lock)

    def close(self) -> None:
        with self._guard:
            for session in list(self._open.values()):
                self._forget(session, CLOSED)

    def _path(self, session_id: str) -> Path:
        if not _is_plain_name(session_id):
            raise UnknownSession("This is not the id of a session.")
        return self._folder / f"{session_id}{_SUFFIX}"

    def _require(self, path: Path) -> None:
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UnknownSession("There is no such session.") from error
        except OSError as error:
            raise StoreError(f"The session could not be read: {reason(error)}.") from error
        if not stat.S_ISREG(mode):
            raise StoreError("This is not a plain file, so it is not opened.")

    def _take_lock(self, session_id: str) -> tuple[FileLock | None, str]:
        """The lock of a session's file, or None and why it is not to be had. The lock file stays for ever."""
        lock = FileLock(
            str(self._folder / f"{session_id}.lock"),
            timeout=0,
            thread_local=False,
            preserve_lock_file=True,
        )
        try:
            lock.acquire()
        except Timeout:
            return None, _TAKEN
        except (OSError, NotImplementedError) as error:
            return None, f"This session cannot be locked, so it can only be read: {reason(error)}."
        return lock, ""

    def _lock_or_raise(self, session_id: str) -> FileLock:
        lock, why = self._take_lock(session_id)
        if lock is None:
            raise SessionTaken("Another process has this session open." if why == _TAKEN else why)
        return lock

    def _load(self, session_id: str, lock: FileLock | None, why: str) -> JsonlSession:
        """Reads the file and registers the session; on an exception the lock is still the caller's."""
        path = self._path(session_id)
        try:
            reading = read_session(path, session_id)
        except FileNotFoundError as error:
            raise UnknownSession("There is no such session.") from error
        except OSError as error:
            raise StoreError(f"The session could not be read: {reason(error)}.") from error
        read_only = why or (_NEWER if reading.future_version else reading.problem)
        file: LineFile | None = None
        if not read_only:
            try:
                file = LineFile(path, self._files, size=reading.size, ends_with_newline=reading.ends_with_newline)
            except OSError as error:
                read_only = f"This file cannot be written, only read: {reason(error)}."
        if read_only:
            _release(lock)
            lock = None
        try:
            session = JsonlSession(
                session_id, path, reading, file=file, lock=lock, read_only=read_only, close=self._close_one
            )
        except OSError as error:
            if file is not None:
                file.close()
            raise StoreError(f"The session could not be read: {reason(error)}.") from error
        self._open[session_id] = session
        return session

    def _close_one(self, session: JsonlSession) -> None:
        with self._guard:
            if self._open.get(session.id) is session:
                self._forget(session, CLOSED)

    def _forget(self, session: JsonlSession, why: str) -> None:
        session.shut(why)
        del self._open[session.id]

    def _move(self, session_id: str, source: Path, target: Path) -> None:
        name = f"{session_id}{_SUFFIX}"
        self._files.replace(str(source / name), str(target / name))
        for kept in os.listdir(source):
            if kept.startswith(f"{name}.v") and kept.endswith(".bak"):
                with contextlib.suppress(OSError):  # a backup that stays behind does no harm
                    self._files.replace(str(source / kept), str(target / kept))
        sync_folder(source)
        sync_folder(target)

    def _summary(self, name: str) -> tuple[tuple[int, int], SessionSummary] | None:
        """The summary of a file, the last one while its size and time are the same; None if it is gone."""
        path = self._folder / name
        session_id = name.removesuffix(_SUFFIX)
        try:
            status = path.lstat()
        except OSError:
            return None
        key = (status.st_mtime_ns, status.st_size)
        file_time = status.st_mtime_ns // 1_000_000
        held = self._open.get(session_id)
        if held is not None and not held.read_only:
            # Memory may be a line behind the file just now, so this summary is not kept.
            return _NEVER, summary_of(session_id, held.header, held.outline, file_time=file_time)
        last = self._summaries.get(name)
        if last is not None and last[0] == key:
            return last
        if not _is_plain_name(session_id) or not stat.S_ISREG(status.st_mode):
            return key, _problem(session_id, file_time, "The name or kind of this file is not a session's.")
        return key, _read_summary(session_id, path, file_time)


def _is_plain_name(name: str) -> bool:
    """Whether a name can only be a file directly in the folder."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return False
    plain = all(character not in "/\\" and ord(character) >= 32 for character in name)
    return 0 < length <= 200 and plain and not name.startswith(".")


def _read_summary(session_id: str, path: Path, file_time: int) -> SessionSummary:
    try:
        reading = read_session(path, session_id)
    except OSError as error:
        return _problem(session_id, file_time, f"This file cannot be read: {reason(error)}.")
    problem = _NEWER if reading.future_version else reading.problem
    return summary_of(session_id, reading.header, reading.outline, file_time=file_time, problem=problem)


def _problem(session_id: str, file_time: int, problem: str) -> SessionSummary:
    header = SessionHeader(id=session_id)
    return summary_of(session_id, header, Outline(), file_time=file_time, problem=problem)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder for sessions could not be made: {reason(error)}.") from error


def _move_aside(path: Path) -> None:
    """Frees a name in the trash without losing what has it."""
    if os.path.lexists(path):
        number = 1
        while os.path.lexists(aside := path.with_name(f"{path.name}.{number}")):
            number += 1
        path.rename(aside)


def _release(lock: FileLock | None) -> None:
    if lock is not None:
        lock.release()


def _written(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _holds(path: Path, text: bytes) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as lines:
        return any(text in line for line in lines)
    return False
