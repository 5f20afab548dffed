"""The guard: nothing outside the workspace is read or written, and nothing in it that is not course text."""

import os
import socket
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.protocol.cancel import CancelToken
from app.protocol.tools import ToolContext, ToolError, ToolResult
from app.tools import folders
from app.tools.paths import split_path
from app.tools.registry import workspace_tools
from app.tools.workspace import MAX_FILE_BYTES, Workspace
from tests.support import swap_for_link

CANARY = "canary-3f9c"
CONTEXT = ToolContext(cancel=CancelToken(), before_effect=lambda effect: True, update=lambda text: None)


pytestmark = pytest.mark.usefixtures("way_to_open")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    (folder / "canary.md").write_text(CANARY)
    (folder / "sub" / "canary.md").write_text(CANARY)
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "course"
    (folder / "lessons" / "deep").mkdir(parents=True)
    (folder / "README.md").write_text("# Course\n")
    (folder / "lessons" / "01.md").write_text("one\n")
    (folder / "lessons" / "deep" / "02.md").write_text("two\n")
    (folder / "out.md").symlink_to(outside / "canary.md")
    (folder / "out").symlink_to(outside)
    (folder / "relative-out").symlink_to("../outside")
    (folder / "chain").symlink_to("lessons/hop")
    (folder / "lessons" / "hop").symlink_to("../relative-out")
    (folder / "root-link").symlink_to("/")
    (folder / "loop").symlink_to("loop")
    (folder / "proc").symlink_to("/proc/self/root")
    return folder


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything below ``folder``: mode and content, or target of a link."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for base, folder_names, names in os.walk(folder):
        for name in (*folder_names, *names):
            path = Path(base, name)
            content = str(path.readlink()) if path.is_symlink() else path.is_file() and path.read_bytes()
            found[str(path.relative_to(folder))] = (path.lstat().st_mode, content or "")
    return found


def call(workspace: Workspace, tool_name: str, /, **arguments: object) -> str:
    """Returns everything that a call tells: the text and details of its result, or the error."""
    tool = next(tool for tool in workspace_tools(workspace) if tool.name == tool_name)
    try:
        result = tool.execute(msgspec.convert(arguments, tool.parameters), CONTEXT)
    except ToolError as error:
        return f"refused: {error}"
    assert isinstance(result, ToolResult)
    return repr((result.content, result.details))


WAYS_OUT = {
    "parent": "../outside/canary.md",
    "parent of a folder": "lessons/../../outside/canary.md",
    "many parents": "../" * 40 + "etc/passwd",
    "only the parent": "..",
    "parent in the middle": "lessons/../README.md",
    "parent that never was": "nothing/../../outside/canary.md",
    "dot and parent": "./.././outside/canary.md",
    "three dots": ".../outside/canary.md",
    "parent with a space": ".. /outside/canary.md",
    "absolute": "/etc/passwd",
    "absolute, two slashes": "//etc/passwd",
    "absolute by proc": "/proc/self/root/etc/passwd",
    "percent-encoded": "%2e%2e%2foutside%2fcanary.md",
    "percent-encoded in part": "%2e%2e/outside/canary.md",
    "percent-encoded twice": "%252e%252e%252foutside/canary.md",
    "overlong utf-8 in percent": "..%c0%afoutside/canary.md",
    "link to a file": "out.md",
    "link to a folder": "out/canary.md",
    "the linked folder itself": "out",
    "below a linked folder": "out/sub/canary.md",
    "relative link": "relative-out/canary.md",
    "chain of links": "chain/canary.md",
    "link in a folder": "lessons/hop/canary.md",
    "link to the system's root": "root-link/etc/passwd",
    "link to proc": "proc/etc/passwd",
    "link to itself": "loop",
    "parent of a linked folder": "out/../canary.md",
    "nul": "README.md\0.txt",
    "nul first": "\0../outside/canary.md",
    "newline": "README.md\n/../outside/canary.md",
    "delete character": "lessons/\x7f../canary.md",
    "lone surrogate": "\udc2e\udc2e/outside/canary.md",
    "very long name": "a" * 256,
    "very long name in Chinese": "课" * 86,
    "very long path": "a/" * 2049,
    "very long way back": "lessons/../" * 400 + "../outside/canary.md",
    "device name": "CON",
    "device name with ending": "nul.md",
    "device name with two endings": "lessons/Aux.tar.md",
    "device name with space": "com1 .txt",
    "device name with superscript": "LPT¹.md",
    "drive": "C:/Windows/win.ini",
    "drive without slash": "c:canary.md",
    "other stream": "README.md::$DATA",
    "unc": "\\\\server\\share\\canary.md",
    "unc with slashes": "//server/share/canary.md",
    "device path": "\\\\?\\C:\\canary.md",
    "backslashes": "..\\outside\\canary.md",
    "backslash in a name": "lessons\\..\\..\\outside\\canary.md",
    "home": "~/canary.md",
    "home of root": "~root/.bashrc",
    "variable": "$HOME/canary.md",
    "at sign": "@/etc/passwd",
    "at sign and parent": "@../outside/canary.md",
    "address": "file:///etc/passwd",
    "address, one slash": "file:/etc/passwd",
    "fullwidth dots": "．．/outside/canary.md",
    "fullwidth slash": "..／outside／canary.md",
    "dot leaders": "‥/outside/canary.md",
    "fraction slash": "..⁄outside⁄canary.md",
    "division slash": "..∕outside∕canary.md",
    "fullwidth backslash": "..＼outside＼canary.md",
    "invisible character": "\u200b../outside/canary.md",
    "invisible character between": ".\u200d./outside/canary.md",
    "space first": " ../outside/canary.md",
    "slash last": "../outside/",
    "space last": "out.md ",
    "dot last": "out.md.",
    "hidden file": ".env",
    "hidden folder": ".git/config",
}
assert len(WAYS_OUT) >= 25


@pytest.mark.parametrize("path", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_no_way_out_reads(workspace: Workspace, root: Path, outside: Path, path: str) -> None:
    before = snapshot(outside), snapshot(root)
    told = [
        call(workspace, "read_file", path=path),
        call(workspace, "list_files", path=path),
        call(workspace, "list_files", path=path, recursive=True),
        call(workspace, "search_files", query="anary", path=path),
        call(workspace, "search_files", query=".", regex=True, path=path, glob="**/*"),
        call(workspace, "search_files", query="anary", glob=path),
    ]
    for text in told:
        assert CANARY not in text
        assert "root:" not in text, "/etc/passwd"
        assert str(outside) not in text or str(outside) in path, "tells of a place on this machine"
    assert told[0].startswith("refused")
    assert (snapshot(outside), snapshot(root)) == before


@pytest.mark.parametrize("name", WAYS_OUT.values(), ids=WAYS_OUT.keys())
@pytest.mark.parametrize("before", ["", "notes/"])
def test_no_way_out_writes(
    workspace: Workspace, root: Path, outside: Path, name: str, before: str, tmp_path: Path
) -> None:
    outside_before, root_before = snapshot(outside), snapshot(root)
    (root / "notes").mkdir()
    call(workspace, "write_note", name=before + name, content="written")
    assert snapshot(outside) == outside_before
    changed = {path for path in snapshot(root) if path not in root_before}
    assert all(path.split("/")[0] == "notes" for path in changed)
    assert {path: snapshot(root)[path] for path in root_before} == root_before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course", "outside"]


def test_an_absolute_path_into_the_workspace_is_refused_too(workspace: Workspace, root: Path) -> None:
    with pytest.raises(ToolError, match="it is absolute"):
        workspace.read_text(f"{root}/README.md")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/README.md", "it is absolute"),
        ("C:README.md", "drive letter"),
        ("https://example.org/a.md", "an address"),
        ("lessons\\01.md", 'separated by "/"'),
        ("a/" * 2049, "longer than 4096 bytes"),
        ("a/../README.md", '".." would lead out'),
        ("lessons/.hidden/a.md", "hidden"),
        ("a\tb", "control character"),
        ("a\u2028b", "control character"),
        ("a\udcffb", "not valid Unicode"),
        ("a.md:stream", "colon"),
        ("é" * 128, "longer than 255 bytes"),
        ("lessons/prn.tar.gz", "Windows keeps for a device"),
        ("COM³", "Windows keeps for a device"),
        ("README.md.", "end with a dot or a space"),
        ("lessons /01.md", "end with a dot or a space"),
    ],
)
def test_a_refusal_names_what_is_wrong_and_what_would_be_right(path: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        split_path(path)
    text = str(caught.value)
    assert said in text
    assert 'Give a path relative to the workspace, such as "lessons/01.md".' in text
    assert len(text) < 400
    assert text.isprintable()


# Links (place: target, relative to the link) and the name of the note that would lead through them.
LINKS_IN_NOTES: dict[str, tuple[dict[str, str], str]] = {
    "notes is a link out": ({"notes": "../outside"}, "new.md"),
    "notes is a link to nothing": ({"notes": "../outside/made"}, "new.md"),
    "notes is a link inside": ({"notes": "lessons"}, "new.md"),
    "sub-folder is a link out": ({"notes/sub": "../../outside"}, "sub/new.md"),
    "existing note is a link out": ({"notes/x.md": "../../outside/canary.md"}, "x.md"),
    "note is a link to nothing": ({"notes/x.md": "../../outside/made.md"}, "x.md"),
    "note is a link inside": ({"notes/x.md": "../README.md"}, "x.md"),
    "chain of links": ({"notes/b": "../../outside", "notes/a": "b"}, "a/new.md"),
    "link to itself": ({"notes/a": "a"}, "a/new.md"),
}


@pytest.mark.parametrize(("links", "name"), LINKS_IN_NOTES.values(), ids=LINKS_IN_NOTES.keys())
def test_writing_refuses_every_link(
    workspace: Workspace, root: Path, outside: Path, links: dict[str, str], name: str
) -> None:
    for place, target in links.items():
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).symlink_to(target)
    before = snapshot(outside), snapshot(root)
    text = call(workspace, "write_note", name=name, content=CANARY)
    assert text.startswith("refused")
    assert "link" in text
    assert (snapshot(outside), snapshot(root)) == before


SWAPS = {"file": ("lessons/01.md", "canary.md"), "folder": ("lessons", "."), "deep": ("lessons/deep", "sub")}


@pytest.fixture
def swapped(outside: Path) -> None:
    """Places files of the same names outside, so that a swapped folder would find them."""
    (outside / "01.md").write_text(CANARY)
    (outside / "deep").mkdir()
    (outside / "deep" / "02.md").write_text(CANARY)
    (outside / "sub" / "02.md").write_text(CANARY)


@pytest.mark.parametrize("kind", SWAPS)
def test_a_link_swapped_in_after_the_check_leads_nowhere(
    workspace: Workspace,
    root: Path,
    outside: Path,
    swapped: None,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    place, target = SWAPS[kind]
    path = "lessons/deep/02.md" if kind == "deep" else "lessons/01.md"
    resolve = Workspace._resolve

    def resolve_then_swap(self: Workspace, path: str) -> tuple[str, ...]:
        names = resolve(self, path)
        if not (root / place).is_symlink():
            swap_for_link(root / place, outside / target)
        return names

    monkeypatch.setattr(Workspace, "_resolve", resolve_then_swap)
    with pytest.raises(ToolError):
        workspace.read_text(path)
    assert (root / place).is_symlink(), "the swap was not made"


@pytest.mark.parametrize("kind", SWAPS)
def test_a_link_swapped_in_at_the_last_moment_before_opening_leads_nowhere(
    workspace: Workspace,
    root: Path,
    outside: Path,
    swapped: None,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    place, target = SWAPS[kind]
    wanted, text = ("lessons/deep/02.md", "two\n") if kind == "deep" else ("lessons/01.md", "one\n")
    really_open = os.open

    def swap_then_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path.endswith(wanted.rpartition("/")[2]) and not (root / place).is_symlink():
            swap_for_link(root / place, outside / target)
        return really_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    try:
        # A pinned folder still holds the right file, whatever its place is called by now.
        assert workspace.read_text(wanted) == text
    except ToolError as error:
        assert CANARY not in str(error)
    assert (root / place).is_symlink(), "the swap was not made"


def test_a_folder_swapped_for_a_link_and_back_again_leads_nowhere(
    workspace: Workspace, root: Path, outside: Path, swapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def open_swapped(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not path.endswith("01.md"):
            return really_open(path, flags, mode, dir_fd=dir_fd)
        swap_for_link(root / "lessons", outside)
        fd = really_open(path, flags, mode, dir_fd=dir_fd)
        (root / "lessons").unlink()
        (root / "lessons.gone").rename(root / "lessons")
        return fd

    monkeypatch.setattr(os, "open", open_swapped)
    try:
        assert workspace.read_text("lessons/01.md") == "one\n"
    except ToolError as error:
        assert "link" in str(error)


def test_listing_a_folder_swapped_for_a_link_tells_nothing(
    workspace: Workspace, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = Workspace._resolve

    def resolve_then_swap(self: Workspace, path: str) -> tuple[str, ...]:
        names = resolve(self, path)
        if path == "lessons" and not (root / "lessons").is_symlink():
            swap_for_link(root / "lessons", outside)
        return names

    monkeypatch.setattr(Workspace, "_resolve", resolve_then_swap)
    with pytest.raises(ToolError):
        workspace.listing("lessons")


def test_links_that_stay_inside_may_be_read(workspace: Workspace, root: Path) -> None:
    (root / "first.md").symlink_to("lessons/01.md")
    (root / "all").symlink_to("lessons")
    assert workspace.read_text("first.md") == "one\n"
    assert workspace.read_text("all/deep/02.md") == "two\n"
    entries = {entry.path: entry for entry in workspace.listing().entries}
    assert (entries["first.md"].kind, entries["first.md"].size) == ("file", 4)
    assert entries["all"].kind == "folder"
    assert "all/01.md" in [entry.path for entry in workspace.listing("all").entries]


def test_walking_follows_no_link_and_finds_each_file_once(workspace: Workspace, root: Path) -> None:
    (root / "lessons" / "back").symlink_to("..")
    (root / "first.md").symlink_to("lessons/01.md")
    paths = [entry.path for entry in workspace.walk_text_files()]
    assert sorted(paths) == ["README.md", "lessons/01.md", "lessons/deep/02.md"]


def test_a_root_reached_by_a_link_works(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert Workspace(tmp_path / "alias").read_text("README.md") == "# Course\n"


def test_a_root_that_is_no_folder_is_an_error(root: Path) -> None:
    with pytest.raises(NotADirectoryError):
        Workspace(root / "README.md")
    with pytest.raises(FileNotFoundError):
        Workspace(root / "nowhere")


BANKS = [
    "test.gift",
    "TEST.GIFT",
    "test.GiFt",
    "unit.gift.txt",
    "unit.aiken.txt",
    "unit.Aiken.TXT",
    "unit.bank.md",
    "单元.BANK.md",
    "test.gift~",
    "test.gift.bak",
    "te\u200dst.gi\u200dft",
]


@pytest.mark.parametrize("name", BANKS)
def test_a_question_bank_is_not_course_text(workspace: Workspace, root: Path, name: str) -> None:
    for folder in ("", "notes/"):
        (root / "notes").mkdir(exist_ok=True)
        (root / folder / name).write_text(CANARY)
        with pytest.raises(ToolError, match="question bank"):
            workspace.read_text(folder + name)
    assert name not in repr(list(workspace.walk()))
    assert CANARY not in call(workspace, "search_files", query=CANARY[1:])
    listing = workspace.listing("notes")
    assert (listing.entries, listing.left_out) == ([], 0)


@pytest.mark.parametrize("ending", ["", ".", " ", ". ."])
def test_a_bank_is_not_found_under_a_name_that_windows_would_shorten(
    workspace: Workspace, root: Path, ending: str
) -> None:
    (root / "test.gift").write_text(CANARY)
    with pytest.raises(ToolError, match="question bank"):
        workspace.read_text("test.gift" + ending)


@pytest.mark.parametrize("name", BANKS)
def test_no_note_gets_the_name_of_a_bank(workspace: Workspace, root: Path, name: str) -> None:
    assert "refused" in call(workspace, "write_note", name=name, content="x")
    assert not (root / "notes").exists()


def test_a_link_to_a_bank_or_a_hidden_file_is_refused(workspace: Workspace, root: Path) -> None:
    (root / "test.gift").write_text(CANARY)
    (root / ".env").write_text(CANARY)
    (root / "answers.md").symlink_to("test.gift")
    (root / "settings.md").symlink_to(".env")
    with pytest.raises(ToolError, match="question bank"):
        workspace.read_text("answers.md")
    with pytest.raises(ToolError, match="hidden"):
        workspace.read_text("settings.md")
    assert CANARY not in call(workspace, "search_files", query="anary")
    assert not {"answers.md", "settings.md"} & {entry.path for entry in workspace.listing().entries}


@pytest.mark.parametrize(
    "content",
    [
        b'<?xml version="1.0" encoding="UTF-8"?>\n<!-- ours -->\n<quiz><question/></quiz>',
        b"<QUIZ>\n",
        b"<!--" + b"x" * 30_000 + b"-->\n<quiz \n>",
        '<?xml version="1.0" encoding="UTF-16"?><quiz>'.encode("utf-16"),
        b"\xef\xbb\xbf<m:quiz/>",
    ],
)
def test_moodle_xml_is_a_question_bank(workspace: Workspace, root: Path, content: bytes) -> None:
    (root / "Export.XML").write_bytes(content)
    (root / "link.md").symlink_to("Export.XML")
    for path in ("Export.XML", "link.md"):
        with pytest.raises(ToolError, match="question bank"):
            workspace.read_text(path)
        assert path not in {entry.path for entry in workspace.listing().entries}
    assert "Export" not in call(workspace, "search_files", query="q", glob="*.xml")


@pytest.mark.parametrize("name", ["quiz.xml", "quiz.XML", "quiz.xml.bak", "quiz.xml~", "quiz.xml.old", "quiz.xml.txt"])
def test_a_quiz_is_not_course_text_under_any_name_it_is_kept_under(workspace: Workspace, root: Path, name: str) -> None:
    (root / name).write_text(f"<quiz>{CANARY}</quiz>")
    with pytest.raises(ToolError, match="question bank"):
        workspace.read_text(name)
    assert name not in {entry.path for entry in workspace.listing().entries}
    assert CANARY not in call(workspace, "search_files", query=CANARY[1:])


def test_a_quiz_far_down_in_a_file_is_found_when_the_file_is_read(workspace: Workspace, root: Path) -> None:
    (root / "late.xml").write_bytes(b"<!--" + b"x" * 100_000 + b"--><quiz>" + CANARY.encode() + b"</quiz>")
    with pytest.raises(ToolError, match="question bank"):
        workspace.read_text("late.xml")
    assert CANARY not in call(workspace, "search_files", query=CANARY[1:])


def test_other_xml_is_course_text(workspace: Workspace, root: Path) -> None:
    (root / "data.xml").write_text("<quizzes><a/></quizzes>")
    assert workspace.read_text("data.xml") == "<quizzes><a/></quizzes>"
    assert "data.xml" in {entry.path for entry in workspace.listing().entries}


def test_hidden_names_are_neither_listed_nor_read(workspace: Workspace, root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(CANARY)
    (root / ".env").write_text(CANARY)
    (root / "\u200d.env").write_text(CANARY)
    assert not [entry for entry in workspace.walk() if "env" in entry.path or "config" in entry.path]
    assert CANARY not in call(workspace, "search_files", query="anary")
    with pytest.raises(ToolError, match="hidden"):
        workspace.read_text("\u200d.env")


def test_names_in_any_script_and_odd_but_plain_names_can_be_read(workspace: Workspace, root: Path) -> None:
    for name in ["第1课 代理.md", "урок.md", "é.md", "~notes", "@home.md", "100%.md", "a．．b.md", "con-text.md"]:
        (root / name).write_text(name)
        assert workspace.read_text(name) == name


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_found_however_its_accents_are_stored(workspace: Workspace, root: Path, form: str) -> None:
    other = "NFD" if form == "NFC" else "NFC"
    folder = root / unicodedata.normalize(form, "leçons")  # type: ignore[arg-type]
    folder.mkdir()
    (folder / unicodedata.normalize(form, "été.md")).write_text("soleil")  # type: ignore[arg-type]
    path = unicodedata.normalize(other, "leçons/été.md")  # type: ignore[arg-type]
    assert workspace.read_text(path) == "soleil"
    assert workspace.kind(path) == "file"


def test_what_no_path_can_name_is_counted_and_not_hidden(workspace: Workspace, root: Path) -> None:
    (root / "odd").mkdir()
    (root / "odd" / "fine.md").write_text("x")
    (root / "odd" / "Unit 1: intro.md").write_text("x")
    (root / "odd" / "dangling").symlink_to("nothing")
    (root / "odd" / "out").symlink_to(root.parent)
    os.mkfifo(root / "odd" / "pipe")
    Path(os.fsdecode(os.fsencode(root / "odd") + b"/\xff.md")).write_text("x")
    listing = workspace.listing("odd")
    assert [entry.path for entry in listing.entries] == ["odd/fine.md"]
    assert listing.left_out == 5


def test_devices_pipes_and_sockets_are_refused_without_waiting(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    place = os.open(root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{place}/socket.md")
    os.close(place)
    for name in ("pipe.md", "socket.md"):
        with pytest.raises(ToolError, match="Only ordinary files"):
            workspace.read_text(name)


def test_a_file_swapped_for_a_pipe_is_refused_without_waiting(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe.md")
    ordinary = os.stat(root / "README.md")
    monkeypatch.setattr(folders.Folder, "stat", lambda self, name: ordinary)
    fd = folders.Folder(str(root), None) if not folders.CAN_PIN else folders.Folder.open_root(str(root))
    with fd as folder, pytest.raises(OSError, match="No such device"):
        folder.open_file("pipe.md")


def test_missing_files_and_wrong_kinds_say_what_would_be_right(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match=r'There is no "lesson.md".*list_files'):
        workspace.read_text("lesson.md")
    with pytest.raises(ToolError, match=r'"lessons/" is a folder\. list_files'):
        workspace.read_text("lessons/")
    with pytest.raises(ToolError, match=r'"\." is a folder'):
        workspace.read_text(".")
    with pytest.raises(ToolError, match=r"not a folder.*read_file"):
        workspace.listing("README.md")
    with pytest.raises(ToolError, match="leads through a file"):
        workspace.read_text("README.md/more")


def test_text_is_utf_8_without_mark_and_with_plain_line_ends(workspace: Workspace, root: Path) -> None:
    (root / "dos.md").write_bytes("\ufeff一\r\n二\r三\n".encode())
    assert workspace.read_text("dos.md") == "一\n二\n三\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04\x00\x00", "NUL"),
        ("课".encode("utf-16"), "UTF-8"),
        ("课程".encode("gbk"), "byte 1 "),
        (b"fine \xed\xa0\x80", "byte 6 "),
    ],
)
def test_what_is_not_text_is_named_and_refused(workspace: Workspace, root: Path, content: bytes, said: str) -> None:
    (root / "file.md").write_bytes(content)
    with pytest.raises(ToolError, match=r"file\.md") as caught:
        workspace.read_text("file.md")
    assert said in str(caught.value)
    assert "UTF-8 text file" in str(caught.value)


def test_a_huge_file_is_refused_without_being_read_whole(workspace: Workspace, root: Path) -> None:
    with open(root / "huge.txt", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ToolError, match="larger than 8388608 bytes"):
        workspace.read_text("huge.txt")


def test_errors_of_the_system_are_sentences_without_paths_of_the_machine(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **more: object) -> int:
        raise PermissionError(13, "Permission denied", str(root))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    for attempt, path in ((workspace.read_text, "README.md"), (workspace.listing, "lessons")):
        with pytest.raises(ToolError, match="no permission") as caught:
            attempt(path)
        assert str(root) not in str(caught.value)


def test_no_descriptor_stays_open(workspace: Workspace, root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("lessons/deep/02.md", "lessons", "nothing/at/all", "README.md/x", "out.md"):
        call(workspace, "read_file", path=path)
        call(workspace, "list_files", path=path, recursive=True)
        call(workspace, "write_note", name=path, content="x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_entries_come_folders_first_in_natural_order(workspace: Workspace, root: Path) -> None:
    course = root / "course"
    (course / "zoo").mkdir(parents=True)
    for name in ["lesson10.md", "Lesson2.md", "lesson1.md", "10.md", "9.md"]:
        (course / name).write_text("")
    names = [entry.name for entry in workspace.listing("course").entries]
    assert names == ["zoo", "9.md", "10.md", "lesson1.md", "Lesson2.md", "lesson10.md"]


def test_a_folder_that_vanishes_while_walking_is_passed_over(workspace: Workspace, root: Path) -> None:
    walk = workspace.walk()
    assert next(walk).path == "lessons"
    (root / "lessons").rename(root / "moved")
    assert [entry.path for entry in walk] == ["README.md"]


GOOD_PIECES = ["lessons", "deep", "01.md", "README.md", ".", ""]
LINK_PIECES = ["out", "out.md", "chain", "hop", "loop", "proc", "root-link", "sub"]
ODD_PIECES = ["..", "etc", "passwd", "canary.md", "outside", "~", "%2e%2e", "．．", "C:", ".env", " "]
PIECES = st.sampled_from([*GOOD_PIECES, *LINK_PIECES, *ODD_PIECES])
PATHS = st.one_of(
    st.lists(st.tuples(PIECES, st.sampled_from(["/", "/", "//", "\\", "／", "\0"])), max_size=8).map(
        lambda pairs: "".join(piece + separator for piece, separator in pairs).removesuffix("/")
    ),
    st.text(max_size=20),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("shared")
    (base / "outside" / "sub").mkdir(parents=True)
    (base / "outside" / "canary.md").write_text(CANARY)
    (base / "course" / "lessons" / "deep").mkdir(parents=True)
    (base / "course" / "README.md").write_text("x")
    (base / "course" / "lessons" / "01.md").write_text("x")
    (base / "course" / "lessons" / "hop").symlink_to("../out")
    for name, target in {
        "out": "../outside",
        "out.md": "../outside/canary.md",
        "chain": "lessons/hop",
        "loop": "loop",
        "root-link": "/",
        "proc": "/proc/self/root",
        "sub": "lessons/deep",
    }.items():
        (base / "course" / name).symlink_to(target)
    return base


def _open_or_refuse(workspace: Workspace, path: str) -> int | None:
    try:
        names = workspace._resolve(path)
        with folders.explained(path):
            return workspace._open(names)
    except ToolError:
        return None


def test_whatever_the_path_a_file_that_opens_is_inside(shared: Path) -> None:
    root = shared / "course"
    workspace = Workspace(root)
    inside = {(path.stat().st_dev, path.stat().st_ino) for path in (root / "README.md", root / "lessons" / "01.md")}
    opened = 0

    @given(PATHS)
    @example("lessons/01.md")
    @example("lessons/hop/canary.md")
    def check(path: str) -> None:
        nonlocal opened
        fd = _open_or_refuse(workspace, path)
        if fd is not None:
            opened += 1
            info = os.fstat(fd)
            os.close(fd)
            assert (info.st_dev, info.st_ino) in inside

    check()
    assert opened, "no path was good, so nothing was tested"


@given(PATHS)
def test_whatever_the_path_its_names_are_safe_or_it_is_refused(path: str) -> None:
    try:
        names = split_path(path)
    except ToolError as error:
        assert "\n" not in str(error)
        return
    for name in names:
        assert name not in ("", ".", "..")
        assert not set(name) & set("/\\:\0")
        assert len(name.encode()) <= 255
