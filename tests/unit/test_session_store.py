"""Sessions on disk: nothing that was acknowledged is lost, nothing half-written stays, one writer."""

import errno
import json
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.entries import (
    LEAF,
    RUN,
    CustomEntry,
    KnownEntry,
    LabelEntry,
    MessageEntry,
    SessionInfoEntry,
)
from app.protocol.messages import AssistantMessage, TextContent, ToolResultMessage, UserMessage
from app.sessions.context import build_context
from app.sessions.files import Files
from app.sessions.jsonl import JsonlSessionStore
from app.sessions.store import (
    ReadOnlySession,
    Session,
    SessionStore,
    SessionTaken,
    StoreError,
    UnknownEntryId,
    UnknownSession,
)
from tests.running import other_process

ROOT = Path(__file__).parents[2]
STAMP = "2026-01-02T03:04:05.678Z"
STAMP_MS = 1_767_323_045_678
HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": STAMP, "cwd": "/course"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path / "sessions"


@pytest.fixture
def store(folder: Path) -> Iterator[JsonlSessionStore]:
    store = new_store(folder)
    yield store
    store.close()


def new_store(folder: Path, files: Files | None = None) -> JsonlSessionStore:
    return JsonlSessionStore(folder, folder.parent / "trash", files)


def user(entry_id: str, parent: str | None, text: str = "hi", timestamp: int = 0) -> MessageEntry:
    message = UserMessage(content=text, timestamp=timestamp)
    return MessageEntry(id=entry_id, parent_id=parent, timestamp=STAMP, message=message)


def assistant(entry_id: str, parent: str | None, timestamp: int = 0) -> MessageEntry:
    message = AssistantMessage(content=[TextContent(text="well")], stop_reason="stop", timestamp=timestamp)
    return MessageEntry(id=entry_id, parent_id=parent, timestamp=STAMP, message=message)


def side(entry_id: str, parent: str | None, kind: str = RUN) -> CustomEntry:
    return CustomEntry(id=entry_id, parent_id=parent, timestamp=STAMP, custom_type=kind)


def named(entry_id: str, parent: str | None, name: str) -> SessionInfoEntry:
    return SessionInfoEntry(id=entry_id, parent_id=parent, timestamp=STAMP, name=name)


def stored_line(entry_id: str, parent: str | None, **extra: Any) -> dict[str, Any]:
    message = {"role": "user", "content": f"text of {entry_id}", "timestamp": STAMP_MS}
    entry = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": STAMP, "message": message}
    return entry | extra


def put(folder: Path, name: str, *values: Any, before: bytes = b"", end: bytes = b"\n") -> Path:
    """Writes a session file of JSON values and raw lines."""
    lines = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    path = folder / f"{name}.jsonl"
    path.write_bytes(before + b"".join(line + end for line in lines))
    return path


def ids(session: Session) -> list[str]:
    return [stored.entry.id for stored in session.entries]


def values_in(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def reopened(folder: Path, session_id: str) -> Session:
    """The session as another start of the program would read it."""
    store = new_store(folder)
    session = store.open(session_id)
    store.close()
    return session


class Faults:
    """File calls that work until told to fail."""

    def __init__(self) -> None:
        self.write_error: int | None = None
        self.written_before_error = 0
        self.fsync_error: int | None = None
        self.truncate_error: int | None = None
        self.replace_error: int | None = None
        self.open_error: int | None = None
        self.short_by = 0
        self.writes: list[bytes] = []
        self.fsyncs = 0

    def files(self) -> Files:
        return Files(
            open=self._open,
            write=self._write,
            fsync=self._fsync,
            ftruncate=self._ftruncate,
            replace=self._replace,
        )

    def _open(self, path: str, flags: int, mode: int) -> int:
        self._fail(self.open_error)
        return os.open(path, flags, mode)

    def _write(self, descriptor: int, data: bytes) -> int:
        if self.write_error is not None:
            if self.written_before_error:
                os.write(descriptor, data[: self.written_before_error])
            self._fail(self.write_error)
        self.writes.append(data)
        return os.write(descriptor, data[: max(0, len(data) - self.short_by)])

    def _fsync(self, descriptor: int) -> None:
        self._fail(self.fsync_error)
        self.fsyncs += 1
        os.fsync(descriptor)

    def _ftruncate(self, descriptor: int, size: int) -> None:
        self._fail(self.truncate_error)
        os.ftruncate(descriptor, size)

    def _replace(self, source: str, target: str) -> None:
        self._fail(self.replace_error)
        os.replace(source, target)

    @staticmethod
    def _fail(code: int | None) -> None:
        if code is not None:
            raise OSError(code, os.strerror(code))


# --- creating and reading ---


def test_the_classes_are_what_the_seam_asks_for(store: JsonlSessionStore) -> None:
    seam: SessionStore = store
    session: Session = seam.create(cwd="/course")
    assert list(session.entries) == [] and session.leaf_id is None and session.read_only == ""


def test_a_new_session_is_on_disk_at_once_with_one_header(folder: Path) -> None:
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.create(cwd="/course", parent_session="parent")
    (header,) = values_in(folder / f"{session.id}.jsonl")
    assert header["type"] == "session" and header["version"] == 3 and header["id"] == session.id
    assert header["cwd"] == "/course" and header["parentSession"] == "parent"
    assert session.header.timestamp == header["timestamp"] and faults.fsyncs == 1
    store.close()


def test_the_folder_is_made_when_it_is_missing(tmp_path: Path) -> None:
    store = JsonlSessionStore(tmp_path / "deep" / "sessions", tmp_path / "trash")
    assert store.list() == []
    session = store.create(cwd="/")
    assert [summary.id for summary in store.list()] == [session.id]
    store.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_session_that_cannot_be_created_leaves_no_file(folder: Path, code: int) -> None:
    faults = Faults()
    faults.write_error = code
    with pytest.raises(StoreError) as caught:
        new_store(folder, faults.files()).create(cwd="/")
    assert isinstance(caught.value.__cause__, OSError)
    assert not list(folder.glob("*.jsonl"))


@pytest.mark.parametrize(
    "session_id", ["", ".", "..", ".hidden", "a/b", "/etc/passwd", "..\\x", "a\0b", "a\nb", "x" * 300, "\ud800"]
)
def test_an_id_that_is_no_plain_name_is_unknown(store: JsonlSessionStore, session_id: str) -> None:
    for call in (store.open, store.trash, store.restore):
        with pytest.raises(UnknownSession):
            call(session_id)


def test_an_unknown_id_leaves_no_lock_file(store: JsonlSessionStore, folder: Path) -> None:
    for call in (store.open, store.trash, store.restore):
        with pytest.raises(UnknownSession):
            call("nobody")
    assert list(folder.iterdir()) == []


def test_a_link_or_folder_in_place_of_the_file_is_not_opened(store: JsonlSessionStore, folder: Path) -> None:
    outside = put(folder.parent, "outside", HEADER)
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "dir.jsonl").mkdir()
    for name in ("link", "dir"):
        with pytest.raises(StoreError):
            store.open(name)
    assert {summary.id for summary in store.list() if summary.problem} == {"link", "dir"}


def test_names_in_any_script_are_ids(store: JsonlSessionStore, folder: Path) -> None:
    put(folder, "第一课 2026", HEADER, stored_line("a", None))
    assert ids(store.open("第一课 2026")) == ["a"]


# --- appending ---


def test_an_entry_is_one_line_in_one_write_and_there_for_the_next_reader(folder: Path) -> None:
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.create(cwd="/")
    faults.writes.clear()
    stored = session.append(user("a", None, "first prompt"))
    assert faults.writes == [stored.raw + b"\n"]
    assert ids(session) == ["a"] and session.leaf_id == "a" and session.get("a") == stored.entry
    assert ids(reopened(folder, session.id)) == ["a"], "without close, without an answer of the model"
    store.close()


def test_only_a_durable_entry_waits_for_the_disk(folder: Path) -> None:
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.create(cwd="/")
    before = faults.fsyncs
    session.append(user("a", None))
    assert faults.fsyncs == before
    session.append(user("b", "a"), durable=True)
    assert faults.fsyncs == before + 1
    store.close()


def test_several_entries_go_in_one_write_all_or_none(folder: Path) -> None:
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.create(cwd="/")
    faults.writes.clear()
    batch: list[KnownEntry] = [side("r", None), user("a", None), side("q", "a", "queued"), assistant("b", "a")]
    session.append_all(batch)
    assert len(faults.writes) == 1 and ids(session) == ["r", "a", "q", "b"] and session.leaf_id == "b"
    faults.write_error, faults.written_before_error = errno.ENOSPC, 40
    with pytest.raises(StoreError):
        session.append_all([user("c", "b"), user("d", "c")])
    faults.write_error = None
    for bad in ([user("c", "b"), user("c", "c")], [user("c", "b"), user("d", "lost")]):
        with pytest.raises(StoreError):
            session.append_all(bad)
    assert ids(session) == ids(reopened(folder, session.id)) == ["r", "a", "q", "b"] and session.leaf_id == "b"
    assert session.append_all([]) == []
    store.close()


def test_what_is_kept_in_memory_is_what_will_be_read(store: JsonlSessionStore, folder: Path) -> None:
    session = store.create(cwd="/")
    session.append(user("a", None, "half \ud800 pair, \u2028 and \u0085"))
    session.append(CustomEntry(id="b", parent_id="a", timestamp=STAMP, custom_type="x", data={"n": float("nan")}))
    again = reopened(folder, session.id)
    assert list(again.entries) == list(session.entries) and not again.skipped


@pytest.mark.parametrize(
    "entry",
    [
        user("a", None),
        user("", None),
        user("b", "lost"),
        user("b", "b"),
        side("b", None),
        CustomEntry(id="b", parent_id="a", timestamp=STAMP, custom_type="x", data=object()),
    ],
    ids=["id in use", "empty id", "unknown parent", "own parent", "side entry off the leaf", "not JSON"],
)
def test_an_entry_that_has_no_place_is_refused(store: JsonlSessionStore, folder: Path, entry: KnownEntry) -> None:
    session = store.create(cwd="/")
    session.append(user("a", None))
    before = (folder / f"{session.id}.jsonl").read_bytes()
    with pytest.raises(StoreError):
        session.append(entry)
    assert (folder / f"{session.id}.jsonl").read_bytes() == before
    assert ids(session) == ["a"] and session.leaf_id == "a" and not session.read_only


def test_new_ids_are_8_hex_characters_and_free(store: JsonlSessionStore) -> None:
    session = store.create(cwd="/")
    drawn = {session.new_id() for _ in range(50)}
    assert len(drawn) == 50 and all(len(entry_id) == 8 and int(entry_id, 16) >= 0 for entry_id in drawn)


FAULTS: dict[str, Callable[[Faults], None]] = {
    "disk full": lambda f: setattr(f, "write_error", errno.ENOSPC),
    "read-only disk": lambda f: setattr(f, "write_error", errno.EROFS),
    "no permission": lambda f: setattr(f, "write_error", errno.EACCES),
    "disk error after a part": lambda f: (
        setattr(f, "write_error", errno.EIO),
        setattr(f, "written_before_error", 9),
    )[0],
    "short write": lambda f: setattr(f, "short_by", 5),
    "nothing written": lambda f: setattr(f, "short_by", 10_000),
    "failed fsync": lambda f: setattr(f, "fsync_error", errno.EIO),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("torn", [False, True], ids=["whole file", "torn file"])
def test_a_failed_append_changes_nothing_and_can_be_repeated(
    folder: Path, fault: Callable[[Faults], None], torn: bool
) -> None:
    path = put(folder, "s", HEADER, stored_line("a", None))
    if torn:
        path.write_bytes(path.read_bytes() + b'{"type":"mess')
    before = path.read_bytes()
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.open("s")
    fault(faults)
    with pytest.raises(StoreError) as caught:
        session.append(user("b", "a"), durable=True)
    assert str(caught.value).endswith(".") and str(path) not in str(caught.value)
    assert path.read_bytes() == before and ids(session) == ["a"] and session.leaf_id == "a"
    assert session.get("b") is None and not session.read_only
    faults.__init__()  # type: ignore[misc]
    session.append(user("b", "a"), durable=True)
    assert ids(reopened(folder, "s")) == ["a", "b"]
    store.close()


def test_the_cause_of_a_failure_is_chained_and_said_plainly(folder: Path) -> None:
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.create(cwd="/")
    faults.write_error = errno.ENOSPC
    with pytest.raises(StoreError, match="the disk is full") as caught:
        session.append(user("a", None))
    assert isinstance(caught.value.__cause__, OSError)
    store.close()


def test_when_cutting_back_fails_too_nothing_more_is_written_until_a_reload(folder: Path) -> None:
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.create(cwd="/")
    session.append(user("a", None))
    faults.write_error, faults.written_before_error, faults.truncate_error = errno.ENOSPC, 20, errno.EIO
    with pytest.raises(StoreError):
        session.append(user("b", "a"))
    faults.__init__()  # type: ignore[misc]
    assert "reload" in session.read_only
    with pytest.raises(ReadOnlySession):
        session.append(user("b", "a"))
    again = store.open(session.id)
    assert again is not session and not again.read_only
    again.append(user("b", "a"))
    assert ids(reopened(folder, session.id)) == ["a", "b"]
    store.close()


def test_an_entry_after_a_torn_line_is_not_swallowed(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s", HEADER, stored_line("a", None))
    torn = path.read_bytes() + b'{"type":"message","id":"b","par'
    path.write_bytes(torn)
    session = store.open("s")
    assert [line.line_number for line in session.skipped] == [3] and "torn" in session.skipped[0].reason
    stored = session.append(user("c", "a"))
    session.append(user("d", "c"))
    assert path.read_bytes().startswith(torn + b"\n" + stored.raw + b"\n")
    again = reopened(folder, "s")
    assert ids(again) == ["a", "c", "d"] and [line.line_number for line in again.skipped] == [3]


def test_a_last_line_that_only_lacks_its_line_end_is_kept(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s", HEADER, stored_line("a", None))
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    store.open("s").append(user("b", "a"))
    again = reopened(folder, "s")
    assert ids(again) == ["a", "b"] and not again.skipped


def test_skipped_lines_and_crlf_stay_as_they_are(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s", b"garbage", HEADER, b"null", b"", stored_line("a", None), end=b"\r\n")
    before = path.read_bytes()
    session = store.open("s")
    session.append(user("b", "a"))
    assert path.read_bytes().startswith(before) and not list(folder.glob("*.bak"))
    again = reopened(folder, "s")
    assert ids(again) == ["a", "b"] and [line.line_number for line in again.skipped] == [1, 3, 4]


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + json.dumps(stored_line("x", "a")).encode() + b"\n")


def shrink(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def exchange(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.replace(copy, path)


@pytest.mark.parametrize("change", [grow, shrink, exchange, Path.unlink])
def test_a_file_that_another_program_changed_is_not_appended_to(
    store: JsonlSessionStore, folder: Path, change: Callable[[Path], None]
) -> None:
    path = put(folder, "s", HEADER, stored_line("a", None))
    session = store.open("s")
    change(path)
    after = path.read_bytes() if path.exists() else None
    with pytest.raises(StoreError):
        session.append(user("b", "a"))
    assert session.read_only and session.outline.ids == ["a"] and session.leaf_id == "a"
    if change is shrink:
        with pytest.raises(StoreError, match="could not be read"):
            session.get("a")
    else:
        assert ids(session) == ["a"], "what was read stays readable"
    with pytest.raises(ReadOnlySession):
        session.append(user("b", "a"))
    assert (path.read_bytes() if path.exists() else None) == after


def test_opening_again_reads_what_another_program_wrote(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s", HEADER, stored_line("a", None))
    session = store.open("s")
    grow(path)
    with pytest.raises(StoreError):
        session.append(user("b", "a"))
    again = store.open("s")
    assert ids(again) == ["a", "x"] and not again.read_only
    again.append(user("b", "x"))
    session.close()
    assert not again.read_only, "closing the old object does not close the new one"


# --- the leaf and paths ---


def test_the_leaf_follows_chain_entries_and_stays_at_side_entries(store: JsonlSessionStore) -> None:
    session = store.create(cwd="/")
    session.append(side("r", None))
    assert session.leaf_id is None
    session.append(user("a", None))
    session.append(side("t", "a", "tool-started"))
    session.append(named("n", "a", "A name"))
    session.append(LabelEntry(id="l", parent_id="a", timestamp=STAMP, target_id="a", label="x"))
    assert session.leaf_id == "a"
    session.append(side("q", "a", "interaction"))
    assert session.leaf_id == "q"


def test_a_moved_leaf_is_there_after_a_restart(store: JsonlSessionStore, folder: Path) -> None:
    session = store.create(cwd="/")
    session.append_all([user("a", None), assistant("b", "a"), user("c", "b"), side("m", "b", LEAF)])
    assert session.leaf_id == "b" == reopened(folder, session.id).leaf_id
    session.append(user("d", "b"))
    assert [entry.id for entry in session.path()] == ["a", "b", "d"]
    assert [entry.id for entry in session.path("c")] == ["a", "b", "c"]
    session.append(side("root", None, LEAF))
    assert session.leaf_id is None is reopened(folder, session.id).leaf_id
    assert session.path() == [] == session.path(None)
    assert build_context(session.path()).messages == []


def test_a_path_to_an_unknown_entry_is_refused(store: JsonlSessionStore) -> None:
    with pytest.raises(UnknownEntryId):
        store.create(cwd="/").path("nobody")


# --- older files ---


def old_file(folder: Path, kind: str) -> Path:
    first, second = stored_line("a", None), stored_line("b", "a")
    match kind:
        case "v1":
            bare = [{k: v for k, v in line.items() if k not in ("id", "parentId")} for line in (first, second)]
            return put(folder, "s", {k: v for k, v in HEADER.items() if k != "version"}, *bare)
        case "v2":
            hook = {"role": "hookMessage", "customType": "x", "content": "hi", "display": True}
            return put(folder, "s", HEADER | {"version": 2}, first, second | {"message": hook})
        case "no header":
            return put(folder, "s", first, second)
        case "teaching":
            return put(folder, "s", {"type": "session", "version": 1, "id": "t"}, first, second)
    return put(folder, "s", HEADER, first, second, before=b"\xef\xbb\xbf")


OLD = {"v1": "v1", "v2": "v2", "no header": "v1", "teaching": "v1", "byte order mark": "v3"}


@pytest.mark.parametrize(("kind", "version"), OLD.items())
def test_an_older_file_is_renewed_at_the_first_append_and_the_original_kept(
    store: JsonlSessionStore, folder: Path, kind: str, version: str
) -> None:
    path = old_file(folder, kind)
    original = path.read_bytes()
    session = store.open("s")
    shown = ids(session)
    assert path.read_bytes() == original, "reading changes nothing"
    session.append(user("new", session.leaf_id))
    session.append(user("newer", "new"))
    assert (folder / f"s.jsonl.{version}.bak").read_bytes() == original
    assert values_in(path)[0]["version"] == 3 and not path.read_bytes().startswith(b"\xef\xbb\xbf")
    again = reopened(folder, "s")
    assert ids(again) == [*shown, "new", "newer"] == ids(session)
    assert [stored.entry for stored in again.entries] == [stored.entry for stored in session.entries]
    assert not again.skipped and sorted(p.name for p in folder.iterdir()) == [
        "s.jsonl",
        f"s.jsonl.{version}.bak",
        "s.lock",
    ]


@pytest.mark.parametrize("fault", ["write_error", "replace_error", "fsync_error"])
def test_a_failed_renewal_changes_nothing(folder: Path, fault: str) -> None:
    path = old_file(folder, "v1")
    original = path.read_bytes()
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.open("s")
    shown = ids(session)
    setattr(faults, fault, errno.ENOSPC)
    with pytest.raises(StoreError):
        session.append(user("new", session.leaf_id))
    assert path.read_bytes() == original and ids(session) == shown
    assert not [p for p in folder.iterdir() if p.name.startswith(".")], "no temporary file stays"
    setattr(faults, fault, None)
    session.append(user("new", session.leaf_id))
    assert ids(reopened(folder, "s")) == [*shown, "new"]
    assert [p.name for p in folder.glob("*.bak")] == ["s.jsonl.v1.bak"]
    store.close()


def test_an_earlier_backup_is_not_overwritten(store: JsonlSessionStore, folder: Path) -> None:
    path = old_file(folder, "v1")
    (folder / "s.jsonl.v1.bak").write_bytes(b"another")
    original = path.read_bytes()
    session = store.open("s")
    session.append(user("new", session.leaf_id))
    assert (folder / "s.jsonl.v1.bak").read_bytes() == b"another"
    assert (folder / "s.jsonl.v1.2.bak").read_bytes() == original


def test_an_older_file_that_another_program_changed_is_not_renewed(store: JsonlSessionStore, folder: Path) -> None:
    path = old_file(folder, "v1")
    session = store.open("s")
    grow(path)
    changed = path.read_bytes()
    with pytest.raises(StoreError):
        session.append(user("new", session.leaf_id))
    assert path.read_bytes() == changed and session.read_only and not list(folder.glob("*.bak"))


def test_an_empty_file_becomes_a_session_with_a_header(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s")
    session = store.open("s")
    session.append(user("a", None))
    assert [value["type"] for value in values_in(path)] == ["session", "message"]
    assert values_in(path)[0]["id"] == "s"


@pytest.mark.parametrize(
    "lines", [[HEADER | {"version": 4}, stored_line("a", None)], [b"no session"], [{"question": 1}]]
)
def test_a_newer_format_and_what_is_no_session_can_only_be_read(
    store: JsonlSessionStore, folder: Path, lines: list[Any]
) -> None:
    path = put(folder, "s", *lines)
    before = path.read_bytes()
    session = store.open("s")
    assert session.read_only
    with pytest.raises(ReadOnlySession):
        session.append(user("b", session.leaf_id))
    assert path.read_bytes() == before and store.list()[0].problem


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_file_that_cannot_be_opened_for_writing_can_be_read(folder: Path, code: int) -> None:
    put(folder, "s", HEADER, stored_line("a", None))
    faults = Faults()
    faults.open_error = code
    store = new_store(folder, faults.files())
    session = store.open("s")
    assert ids(session) == ["a"] and "only read" in session.read_only
    with pytest.raises(ReadOnlySession):
        session.append(user("b", "a"))
    faults.open_error = None
    assert not store.open("s").read_only, "once it can be written, opening again tells"
    store.close()


@pytest.fixture
def synced_folders(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of folders that were synced."""
    really, synced = os.fsync, list[int]()

    def sync(descriptor: int) -> None:
        info = os.fstat(descriptor)
        synced.extend([info.st_ino] if stat.S_ISDIR(info.st_mode) else [])
        really(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return synced


def test_a_name_that_comes_or_goes_is_on_the_disk_too(
    store: JsonlSessionStore, folder: Path, synced_folders: list[int]
) -> None:
    session = store.create(cwd="/")
    assert folder.stat().st_ino in synced_folders
    for act in (store.trash, store.restore):
        synced_folders.clear()
        act(session.id)
        assert {path.stat().st_ino for path in (folder, folder.parent / "trash")} <= set(synced_folders)
    put(folder, "old", {"type": "session", "id": "old", "timestamp": STAMP, "cwd": "/"}, stored_line("a", None))
    synced_folders.clear()
    store.open("old").append(user("b", "a"))
    assert list(folder.glob("*.bak")) and folder.stat().st_ino in synced_folders


def test_a_hidden_file_is_no_session(store: JsonlSessionStore, folder: Path) -> None:
    put(folder, ".s", HEADER)
    with pytest.raises(UnknownSession):
        store.open(".s")
    assert store.list() == []


# --- one writer ---


def test_a_second_process_can_only_read(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s", HEADER, stored_line("a", None))
    with other_process(folder, folder.parent / "trash", "s") as (said, process):
        assert said == "writable"
        session = store.open("s")
        assert ids(session) == ["a"] and "Another process" in session.read_only
        with pytest.raises(ReadOnlySession):
            session.append(user("b", "a"))
        with pytest.raises(SessionTaken):
            store.trash("s")
        assert path.exists()
        process.kill()
        process.wait()
        again = store.open("s")
        assert not again.read_only, "a killed process frees the session"
        again.append(user("b", "a"))


def test_while_we_have_it_open_another_process_can_only_read(store: JsonlSessionStore, folder: Path) -> None:
    session = store.create(cwd="/")
    with other_process(folder, folder.parent / "trash", session.id) as (said, _):
        assert "Another process" in said
    session.close()
    with other_process(folder, folder.parent / "trash", session.id) as (said, _):
        assert said == "writable"


def test_restoring_is_refused_while_another_process_has_the_id_open(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s", HEADER)
    store.trash("s")
    put(folder, "s", HEADER)
    with other_process(folder, folder.parent / "trash", "s"):
        path.unlink()
        with pytest.raises(SessionTaken):
            store.restore("s")
    store.restore("s")
    assert path.exists()


def test_a_second_store_in_the_same_process_can_only_read(store: JsonlSessionStore, folder: Path) -> None:
    session = store.create(cwd="/")
    other = new_store(folder)
    assert other.open(session.id).read_only
    other.close()
    session.append(user("a", None))


def test_the_lock_file_is_never_removed_or_replaced(store: JsonlSessionStore, folder: Path) -> None:
    session = store.create(cwd="/")
    lock = folder / f"{session.id}.lock"
    inode = lock.stat().st_ino
    session.close()
    # Looked at after each step: a lock file made anew may well get the old inode.
    assert lock.stat().st_ino == inode
    store.open(session.id).close()
    assert lock.stat().st_ino == inode
    store.trash(session.id)
    assert lock.stat().st_ino == inode
    store.restore(session.id)
    assert lock.stat().st_ino == inode


def test_a_session_opened_twice_is_one_object_until_it_is_closed(store: JsonlSessionStore) -> None:
    session = store.create(cwd="/")
    assert store.open(session.id) is session
    session.append(user("a", None))
    session.close()
    session.close()
    with pytest.raises(ReadOnlySession, match="closed"):
        session.append(user("b", "a"))
    again = store.open(session.id)
    assert again is not session and ids(again) == ["a"] and not again.read_only
    session.close()
    again.append(user("b", "a"))


def test_appends_of_many_threads_are_whole_lines(store: JsonlSessionStore, folder: Path) -> None:
    session = store.create(cwd="/")
    session.append(user("root", None))
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for step in range(25):
            session.append(user(f"{number}-{step}", "root", "x" * 500))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = reopened(folder, session.id)
    assert ids(again) == ids(session) and len(ids(again)) == 201 and not again.skipped


# --- the list ---


def test_the_list_tells_names_texts_counts_and_times(store: JsonlSessionStore) -> None:
    session = store.create(cwd="/")
    result = ToolResultMessage(tool_call_id="1", content="x", timestamp=STAMP_MS + 99_000)
    session.append_all(
        [
            user("a", None, "\x1b[0mfirst\nline", STAMP_MS),
            assistant("b", "a", STAMP_MS + 5),
            MessageEntry(id="c", parent_id="b", timestamp=STAMP, message=result),
            named("n", "c", "  Old name "),
            named("o", "c", "A\x07 new\u202e name"),
            named("p", "c", "  "),
        ]
    )
    (summary,) = store.list()
    assert (summary.id, summary.name, summary.first_text) == (session.id, "A new name", "[0mfirst line")
    assert (summary.modified, summary.message_count, summary.problem) == (STAMP_MS + 5, 2, "")


def test_the_newest_message_comes_first_and_a_new_name_moves_nothing(store: JsonlSessionStore, folder: Path) -> None:
    for number, name in enumerate(["old", "new", "middle"]):
        put(folder, name, HEADER, stored_line("a", None))
        stamp = STAMP_MS + [1, 3, 2][number]
        session = store.open(name)
        session.append(user("b", "a", timestamp=stamp))
    assert [summary.id for summary in store.list()] == ["new", "middle", "old"]
    store.open("old").append(named("n", "b", "Renamed"))
    summaries = store.list()
    assert [summary.id for summary in summaries] == ["new", "middle", "old"]
    assert summaries[2].name == "Renamed"


def test_without_messages_the_header_then_the_file_gives_the_time(store: JsonlSessionStore, folder: Path) -> None:
    put(folder, "header", HEADER)
    os.utime(put(folder, "file", HEADER | {"timestamp": "?"}), ns=(0, 7_000_000))
    times = {summary.id: (summary.created, summary.modified) for summary in store.list()}
    assert times == {"header": (STAMP_MS, STAMP_MS), "file": (7, 7)}


def test_absurd_times_do_not_disturb_the_order(store: JsonlSessionStore, folder: Path) -> None:
    lines = [stored_line("a", None), stored_line("b", "a"), stored_line("c", "b")]
    for line, stamp in zip(lines, [1e300, -5, STAMP_MS + 1], strict=True):
        line["message"]["timestamp"] = stamp
    put(folder, "s", HEADER, *lines)
    assert store.list()[0].modified == STAMP_MS + 1


def test_files_that_are_no_sessions_are_listed_with_a_problem(store: JsonlSessionStore, folder: Path) -> None:
    put(folder, "good", HEADER, stored_line("a", None))
    put(folder, "prose", b"Dear diary")
    put(folder, "data", {"question": "?"})
    (folder / "broken.jsonl").symlink_to("nowhere")
    (folder / ".hidden.jsonl").write_text("x")
    (folder / "notes.txt").write_text("x")
    (folder / os.fsdecode(b"bad\xff.jsonl")).write_bytes(b"")
    problems = {summary.id: bool(summary.problem) for summary in store.list()}
    assert problems == {"good": False, "prose": True, "data": True, "broken": True, "bad\ufffd": True}


def test_a_long_header_is_no_obstacle(store: JsonlSessionStore, folder: Path) -> None:
    put(folder, "s", HEADER | {"cwd": "/x" * 5000}, stored_line("a", None))
    assert store.list()[0].problem == "" and store.list()[0].message_count == 1


def test_a_file_is_read_again_only_when_its_time_or_size_changed(store: JsonlSessionStore, folder: Path) -> None:
    path = put(folder, "s", HEADER, stored_line("aaa", None))
    status = path.stat()
    assert store.list()[0].first_text == "text of aaa"
    path.write_bytes(path.read_bytes().replace(b"aaa", b"bbb"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.list()[0].first_text == "text of aaa", "not read again"
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert store.list()[0].first_text == "text of bbb"


def test_the_list_of_an_open_session_is_up_to_date(store: JsonlSessionStore) -> None:
    session = store.create(cwd="/")
    for number in range(3):
        session.append(user(str(number), session.leaf_id))
        assert store.list()[0].message_count == number + 1


# --- the trash ---


def test_the_trash_gives_back_what_it_took(store: JsonlSessionStore, folder: Path) -> None:
    session = store.create(cwd="/")
    session.append(user("a", None))
    store.trash(session.id)
    assert store.list() == [] and (folder.parent / "trash" / f"{session.id}.jsonl").exists()
    with pytest.raises(ReadOnlySession, match="trash"):
        session.append(user("b", "a"))
    with pytest.raises(UnknownSession):
        store.open(session.id)
    store.restore(session.id)
    again = store.open(session.id)
    assert ids(again) == ["a"] and not again.read_only
    with pytest.raises(UnknownSession):
        store.restore(session.id)


def test_a_backup_goes_along(store: JsonlSessionStore, folder: Path) -> None:
    old_file(folder, "v1")
    session = store.open("s")
    session.append(user("new", session.leaf_id))
    store.trash("s")
    assert sorted(p.name for p in folder.iterdir()) == ["s.lock"]
    store.restore("s")
    assert sorted(p.name for p in folder.iterdir()) == ["s.jsonl", "s.jsonl.v1.bak", "s.lock"]


def test_the_trash_never_overwrites(store: JsonlSessionStore, folder: Path) -> None:
    put(folder, "s", HEADER, stored_line("first", None))
    store.trash("s")
    put(folder, "s", HEADER, stored_line("second", None))
    with pytest.raises(StoreError):
        store.restore("s")
    store.trash("s")
    kept = [path.read_text() for path in (folder.parent / "trash").iterdir()]
    assert len(kept) == 2 and any("first" in text for text in kept)
    store.restore("s")
    assert ids(store.open("s")) == ["second"]


def test_a_failed_move_to_the_trash_leaves_the_session_open(folder: Path) -> None:
    faults = Faults()
    store = new_store(folder, faults.files())
    session = store.create(cwd="/")
    faults.replace_error = errno.EXDEV
    with pytest.raises(StoreError, match="different disks"):
        store.trash(session.id)
    session.append(user("a", None))
    assert ids(reopened(folder, session.id)) == ["a"]
    store.close()


# --- random histories ---

steps = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "side", "label", "name", "chain", "leaf", "reopen", "fail", "batch"]),
        st.integers(0, 30),
    ),
    max_size=25,
)


def step_entry(session: Session, kind: str, choice: int) -> KnownEntry:
    entry_id, leaf = session.new_id(), session.leaf_id
    targets = [None, *(stored.entry.id for stored in session.entries)]
    target = targets[choice % len(targets)]
    match kind:
        case "assistant":
            return assistant(entry_id, leaf)
        case "side":
            return side(entry_id, leaf)
        case "label":
            return LabelEntry(id=entry_id, parent_id=leaf, timestamp=STAMP, target_id=target or "", label="x")
        case "name":
            return named(entry_id, leaf, "n")
        case "chain":
            return side(entry_id, target, "learning-state")
        case "leaf":
            return side(entry_id, target, LEAF)
    return user(entry_id, leaf)


@settings(deadline=None, max_examples=60)
@given(steps)
def test_a_reload_equals_memory_after_any_history(history: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "sessions"
        faults = Faults()
        store = new_store(folder, faults.files())
        session = store.create(cwd="/")
        for kind, choice in history:
            if kind == "reopen":
                session.close()
                session = store.open(session.id)
            elif kind == "batch":
                first = user(session.new_id(), session.leaf_id)
                session.append_all([first, side(session.new_id(), first.id), assistant(session.new_id(), first.id)])
            elif kind == "fail":
                faults.short_by = 1 + choice
                with pytest.raises(StoreError):
                    session.append(step_entry(session, "user", choice))
                faults.short_by = 0
            else:
                session.append(step_entry(session, kind, choice))
        again = reopened(folder, session.id)
        assert list(again.entries) == list(session.entries) and again.leaf_id == session.leaf_id
        assert again.path() == session.path() and not again.skipped and not again.warnings
        store.close()
