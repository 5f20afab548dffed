"""Notes are written into notes/ only, whole or not at all, and once."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.protocol.cancel import CancelToken
from app.protocol.tools import Effect, OutcomeUnknown, ToolContext, ToolError, ToolResult
from app.protocol.validation import validate
from app.tools import folders
from app.tools.notes import note_path, write_note, write_note_tool
from app.tools.workspace import MAX_FILE_BYTES, Workspace
from tests.support import swap_for_link

pytestmark = pytest.mark.usefixtures("way_to_open")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "course"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


class Effects:
    """Stands for the run: records what is announced and answers as told."""

    def __init__(self, answer: bool = True) -> None:
        self.seen: list[Effect] = []
        self.answer = answer

    def __call__(self, effect: Effect) -> bool:
        self.seen.append(effect)
        return self.answer


def call(workspace: Workspace, effects: Callable[[Effect], bool], **arguments: object) -> ToolResult:
    tool = write_note_tool(workspace)
    context = ToolContext(cancel=CancelToken(), before_effect=effects, update=lambda text: None)
    result = tool.execute(validate(arguments, tool.parameters), context)
    assert isinstance(result, ToolResult)
    return result


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_new_note_outlives_a_power_cut(workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not folders.CAN_PIN:
        return  # no folder can be synced there
    really, synced = os.fsync, list[int]()
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), really(fd)))
    call(workspace, Effects(), name="a", content="x")
    assert {(root / "notes").stat().st_ino, (root / "notes" / "a.md").stat().st_ino} <= set(synced)


def test_a_note_is_written_and_announced_right_before(workspace: Workspace, root: Path) -> None:
    there: list[bool] = []

    def announced(effect: Effect) -> bool:
        there.append((root / "notes").exists())
        assert effect == Effect(target="notes/分数.md", before="", after=sha256("半 = ½\n".encode()))
        return True

    result = call(workspace, announced, name="分数", content="半 = ½\n")
    assert there == [False], "announced once, before anything changed"
    assert (root / "notes" / "分数.md").read_bytes() == "半 = ½\n".encode()
    assert everything_in(root) == ["notes", "notes/分数.md"]
    assert result == ToolResult.of_text(
        "Saved notes/分数.md (9 bytes).",
        {"path": "notes/分数.md", "bytes": 9, "sha256": sha256("半 = ½\n".encode())},
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a", "notes/a.md"),
        ("a.md", "notes/a.md"),
        ("a.TXT", "notes/a.TXT"),
        ("notes/a.md", "notes/a.md"),
        ("./notes//a", "notes/a.md"),
        ("notes/notes/a", "notes/notes/a.md"),
        ("notes", "notes/notes.md"),
        ("unit 1/第一课.md", "notes/unit 1/第一课.md"),
        ("v1.2/summary", "notes/v1.2/summary.md"),
        ("مذكرة", "notes/مذكرة.md"),
    ],
)
def test_a_name_becomes_a_path_in_notes(workspace: Workspace, root: Path, name: str, path: str) -> None:
    call(workspace, Effects(), name=name, content="x")
    assert (root / path).read_text() == "x"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.html", r"only \.md and \.txt"),
        ("run.sh", r"only \.md and \.txt"),
        ("lesson 1.2", r'Use for example "lesson 1\.2\.md"'),
        ("quiz.xml", r"only \.md and \.txt"),
        ("", "expected `str` of length >= 1"),
        (".", "needs a name"),
        ("notes/", "needs a name"),
        ("unit/", "needs a name"),
        ("x" * 253, "longer than 255 bytes"),
        ("../a", r'"\.\." would lead out'),
        ("key.bank", r"only \.md"),
        ("key.bank.md", "question bank"),
        ("notes/key.aiken.txt", "question bank"),
    ],
)
def test_other_names_are_refused_and_nothing_is_made(workspace: Workspace, root: Path, name: str, said: str) -> None:
    effects = Effects()
    with pytest.raises(ToolError, match=said):
        call(workspace, effects, name=name, content="x")
    assert (everything_in(root), effects.seen) == ([], [])


def test_the_same_note_again_is_a_success_and_nothing_is_written(workspace: Workspace, root: Path) -> None:
    first = call(workspace, Effects(), name="a", content="x")
    before = (root / "notes" / "a.md").stat()
    effects = Effects()
    assert call(workspace, effects, name="a", content="x") == first
    after = (root / "notes" / "a.md").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert effects.seen == []


@pytest.mark.parametrize("there", [b"mine", b"", b"x" * 100_000, b"\xff\0"])
def test_a_note_with_another_text_is_kept(workspace: Workspace, root: Path, there: bytes) -> None:
    (root / "notes").mkdir()
    (root / "notes" / "a.md").write_bytes(there)
    effects = Effects()
    with pytest.raises(ToolError, match=r"exists already with another text.*confirmation.*another name"):
        call(workspace, effects, name="a", content="yours")
    assert (root / "notes" / "a.md").read_bytes() == there
    assert effects.seen == []


def test_an_effect_made_before_a_crash_is_not_made_again(workspace: Workspace, root: Path) -> None:
    made = call(workspace, Effects(), name="a", content="x")
    (root / "notes" / "a.md").unlink()
    again = call(workspace, Effects(answer=False), name="a", content="x")
    assert again == made
    assert everything_in(root) == ["notes"]


def test_an_unknown_outcome_is_passed_on_and_nothing_is_written(workspace: Workspace, root: Path) -> None:
    def unknown(effect: Effect) -> bool:
        raise OutcomeUnknown("Look first.")

    with pytest.raises(OutcomeUnknown):
        call(workspace, unknown, name="a", content="x")
    assert everything_in(root) == []


def test_a_disk_error_of_the_announcement_is_not_taken_for_one_of_the_note(workspace: Workspace) -> None:
    def full(effect: Effect) -> bool:
        raise OSError(errno.ENOSPC, "the session's disk is full")

    with pytest.raises(OSError, match="the session's disk"):
        call(workspace, full, name="a", content="x")


def test_a_temporary_file_left_by_a_crash_is_cleared_away_when_the_call_is_redone(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    with monkeypatch.context() as patched:

        def die(*args: object, **more: object) -> None:
            patched.setattr(os, "unlink", die)
            raise Killed

        patched.setattr(os, "rename", die)
        with pytest.raises(Killed):
            call(workspace, Effects(), name="a", content="x")
    assert len(everything_in(root)) == 2, "the test needs a temporary file"
    call(workspace, Effects(), name="a", content="x")
    assert everything_in(root) == ["notes", "notes/a.md"]


def test_a_link_laid_in_the_temporary_files_place_is_not_followed(
    workspace: Workspace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "canary").write_text("mine")
    really_open = os.open

    def lay_link_then_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            (root / "notes" / os.path.basename(path)).symlink_to(tmp_path / "canary")
        return really_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", lay_link_then_open)
    with pytest.raises(ToolError):
        call(workspace, Effects(), name="a", content="x")
    assert (tmp_path / "canary").read_text() == "mine"
    assert everything_in(root) == ["notes"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "The disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "can only be read"),
        (errno.EACCES, "no permission"),
        (errno.EPERM, "no permission"),
        (errno.EIO, "could not be used: Input/output error"),
    ],
)
@pytest.mark.parametrize("function", ["mkdir", "write", "fsync", "rename"])
def test_an_error_of_the_disk_is_a_plain_sentence_and_leaves_nothing(
    workspace: Workspace,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    code: int,
    said: str,
) -> None:
    def fail(*args: object, **more: object) -> int:
        raise OSError(code, os.strerror(code), str(root))

    with monkeypatch.context() as patched:
        patched.setattr(os, function, fail)
        with pytest.raises(ToolError, match=said) as caught:
            call(workspace, Effects(), name="a", content="x")
    assert '"notes/a.md"' in str(caught.value)
    assert str(root) not in str(caught.value)
    assert everything_in(root) == ([] if function == "mkdir" else ["notes"])
    call(workspace, Effects(), name="a", content="x")
    assert (root / "notes" / "a.md").read_text() == "x"


def test_a_file_that_cannot_be_created_leaves_nothing(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def fail_to_create(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EACCES, "Permission denied", path)
        return really_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", fail_to_create)
    with pytest.raises(ToolError, match="no permission"):
        call(workspace, Effects(), name="a", content="x")
    assert everything_in(root) == ["notes"]


def test_a_write_that_takes_only_part_goes_on(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: really_write(fd, bytes(data)[:3]))
    call(workspace, Effects(), name="a", content="0123456789")
    assert (root / "notes" / "a.md").read_text() == "0123456789"


def test_a_disk_that_takes_nothing_is_full(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda fd, data: 0)
    with pytest.raises(ToolError, match="disk is full"):
        call(workspace, Effects(), name="a", content="x")


@pytest.mark.parametrize(("saved", "error"), [("theirs", True), ("mine", False)])
def test_a_note_that_appears_meanwhile_is_never_replaced(
    workspace: Workspace, root: Path, saved: str, error: bool
) -> None:
    def save_meanwhile(effect: Effect) -> bool:
        (root / "notes").mkdir()
        (root / "notes" / "a.md").write_text(saved)
        return True

    if error:
        with pytest.raises(ToolError, match="exists already"):
            call(workspace, save_meanwhile, name="a", content="mine")
    else:
        call(workspace, save_meanwhile, name="a", content="mine")
    assert (root / "notes" / "a.md").read_text() == saved
    assert everything_in(root) == ["notes", "notes/a.md"]


@pytest.mark.parametrize("place", ["notes", "notes/unit"])
def test_a_folder_swapped_for_a_link_after_the_check_is_not_written_into(
    workspace: Workspace, root: Path, tmp_path: Path, place: str
) -> None:
    (root / "notes" / "unit").mkdir(parents=True)
    outside = tmp_path / "outside"
    (outside / "unit").mkdir(parents=True)

    def swap(effect: Effect) -> bool:
        swap_for_link(root / place, outside)
        return True

    with pytest.raises(ToolError, match=r"link|not a folder"):
        call(workspace, swap, name="unit/a", content="x")
    assert everything_in(outside) == ["unit"]


@pytest.mark.parametrize("function", ["open", "fsync", "rename"])
def test_a_folder_swapped_for_a_link_at_the_last_moment_is_not_written_into(
    workspace: Workspace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    (root / "notes").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("mine")
    really = getattr(os, function)

    def swap_then_do(*args: object, **more: object) -> object:
        creates = function != "open" or bool(int(args[1]) & os.O_CREAT)  # type: ignore[call-overload]
        if creates and not (root / "notes").is_symlink():
            swap_for_link(root / "notes", outside)
        return really(*args, **more)

    monkeypatch.setattr(os, function, swap_then_do)
    try:
        call(workspace, Effects(), name="a", content="x")
    except ToolError as error:
        assert "mine" not in str(error)
    assert (root / "notes").is_symlink(), "the swap was not made"
    assert everything_in(outside) == ["a.md"]
    assert (outside / "a.md").read_text() == "mine"


def test_a_folder_or_pipe_in_the_notes_place_is_refused(workspace: Workspace, root: Path) -> None:
    (root / "notes" / "folder.md").mkdir(parents=True)
    os.mkfifo(root / "notes" / "pipe.md")
    (root / "notes" / "file.md").write_text("x")
    for name, said in (
        ("folder", "is a folder"),
        ("pipe", "Only ordinary files"),
        ("file.md/sub", "not a folder"),
    ):
        with pytest.raises(ToolError, match=said):
            call(workspace, Effects(), name=name, content="x")
    assert everything_in(root) == ["notes", "notes/file.md", "notes/folder.md", "notes/pipe.md"]


def test_lone_surrogates_are_replaced_and_line_ends_kept(workspace: Workspace, root: Path) -> None:
    result = call(workspace, Effects(), name="a", content="x\ud800y\r\nz")
    assert (root / "notes" / "a.md").read_bytes() == "x\ufffdy\r\nz".encode()
    assert result.details["bytes"] == 8


def test_a_note_too_large_to_be_read_again_is_refused(workspace: Workspace, root: Path) -> None:
    with pytest.raises(ToolError, match="larger than"):
        call(workspace, Effects(), name="a", content="x" * (MAX_FILE_BYTES + 1))
    assert everything_in(root) == []


@pytest.mark.parametrize("contents", [["same"] * 8, [f"text {number}" for number in range(8)]])
def test_of_several_writers_at_once_one_writes(workspace: Workspace, root: Path, contents: list[str]) -> None:
    together = threading.Barrier(len(contents))
    failed: list[ToolError] = []

    def write(content: str) -> None:
        def wait_for_the_others(effect: Effect) -> bool:
            together.wait(timeout=10)
            return True

        try:
            write_note(workspace, "a", content, wait_for_the_others)
        except ToolError as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failed) == len(set(contents)) - 1
    assert (root / "notes" / "a.md").read_text() in contents
    assert everything_in(root) == ["notes", "notes/a.md"]


def test_a_note_path_is_its_own_path() -> None:
    assert note_path(note_path("unit/a")) == "notes/unit/a.md"
