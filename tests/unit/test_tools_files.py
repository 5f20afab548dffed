"""Listing, reading and searching the course text."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.protocol.cancel import Cancelled, CancelToken
from app.protocol.messages import TextContent
from app.protocol.tools import ToolContext, ToolError, ToolResult
from app.protocol.validation import validate
from app.tools import search
from app.tools.files import MAX_NAMES
from app.tools.globs import Glob
from app.tools.registry import workspace_tools
from app.tools.workspace import Workspace

Call = Callable[..., ToolResult]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "course"
    (folder / "lessons" / "deep").mkdir(parents=True)
    (folder / "README.md").write_text("# Course\n\nAbout loops.\n")
    (folder / "lessons" / "第一课.md").write_text("# 代理\n代理是一个循环。\n")
    (folder / "lessons" / "02.txt").write_text("A LOOP calls a tool.\nloop again\nnothing\n")
    (folder / "lessons" / "deep" / "03.md").write_text("deep loop")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\0loop")
    (folder / "test.gift").write_text("the loop {=answer}")
    return folder


@pytest.fixture
def call(root: Path) -> Call:
    def run(
        tool_name: str,
        /,
        *,
        max_bytes: int = 51200,
        cancel: CancelToken | None = None,
        **arguments: object,
    ) -> ToolResult:
        tools = {tool.name: tool for tool in workspace_tools(Workspace(root), max_bytes=max_bytes)}
        tool = tools[tool_name]
        context = ToolContext(cancel or CancelToken(), lambda effect: True, lambda text: None)
        result = tool.execute(validate(arguments, tool.parameters), context)
        assert isinstance(result, ToolResult)
        assert not result.is_error
        json.dumps(result.details)
        assert len(text_of(result).encode()) <= max_bytes
        assert text_of(result).count("\n") < 2000
        return result

    return run


def text_of(result: ToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_the_four_tools_have_a_short_description_and_described_parameters(root: Path) -> None:
    tools = workspace_tools(Workspace(root))
    assert [tool.name for tool in tools] == ["list_files", "read_file", "search_files", "write_note"]
    for tool in tools:
        spec = tool.spec()
        assert 0 < len(spec.description) < 200
        assert spec.parameters["type"] == "object"
        assert all("description" in str(schema) for schema in spec.parameters["properties"].values())
    required = {tool.name: tool.spec().parameters.get("required") for tool in tools}
    assert required == {
        "list_files": [],
        "read_file": ["path"],
        "search_files": ["query"],
        "write_note": ["name", "content"],
    }


# list_files


def test_a_listing_names_folders_first_and_sizes(call: Call) -> None:
    result = call("list_files")
    assert text_of(result).split("\n") == [
        ".: 1 folder, 2 files",
        "lessons/",
        "photo.jpg (7 bytes)",
        "README.md (23 bytes)",
    ]
    assert result.details == {
        "path": ".",
        "entries": [
            {"path": "lessons", "kind": "folder", "size": 0},
            {"path": "photo.jpg", "kind": "file", "size": 7},
            {"path": "README.md", "kind": "file", "size": 23},
        ],
        "truncated": False,
        "leftOut": 0,
    }


def test_a_listed_path_can_be_read(call: Call) -> None:
    for entry in call("list_files", path="lessons/").details["entries"]:
        if entry["kind"] == "file":
            call("read_file", path=entry["path"])


def test_a_recursive_listing_shows_each_folder_with_its_contents(call: Call) -> None:
    paths = [entry["path"] for entry in call("list_files", recursive=True).details["entries"]]
    assert paths == [
        "lessons",
        "lessons/deep",
        "lessons/deep/03.md",
        "lessons/02.txt",
        "lessons/第一课.md",
        "photo.jpg",
        "README.md",
    ]


def test_an_empty_folder_is_called_empty(call: Call, root: Path) -> None:
    (root / "new").mkdir()
    assert text_of(call("list_files", path="new")) == "new: empty"


@pytest.mark.parametrize("recursive", [True, False])
def test_a_listing_stops_at_500_names_and_says_so(call: Call, root: Path, recursive: bool) -> None:
    (root / "many").mkdir()
    for number in range(MAX_NAMES + 1):
        (root / "many" / f"{number}.md").touch()
    result = call("list_files", path="many", recursive=recursive)
    assert [entry["path"] for entry in result.details["entries"]][-1] == "many/499.md"
    assert result.details["truncated"] is True
    assert "Only the first 500 names" in text_of(result)


def test_exactly_500_names_are_all(call: Call, root: Path) -> None:
    (root / "many").mkdir()
    for number in range(MAX_NAMES):
        (root / "many" / f"{number}.md").touch()
    result = call("list_files", path="many")
    assert result.details["truncated"] is False
    assert "Only" not in text_of(result)


def test_a_listing_keeps_to_the_limit_in_bytes_and_details_say_what_is_shown(call: Call, root: Path) -> None:
    for number in range(100):
        (root / f"{number}{'长' * 20}.md").touch()
    result = call("list_files", max_bytes=2000)
    shown = result.details["entries"]
    assert 0 < len(shown) < 100
    assert result.details["truncated"] is True
    assert f"first {len(shown)} names" in text_of(result)
    assert shown[-1]["path"] in text_of(result)


def test_a_listing_says_that_something_is_left_out(call: Call, root: Path) -> None:
    (root / "broken").symlink_to("nothing")
    result = call("list_files")
    assert "[Left out: 1." in text_of(result)
    assert result.details["leftOut"] == 1


# read_file


def test_lines_are_numbered_and_the_range_is_named(call: Call) -> None:
    result = call("read_file", path="./README.md")
    assert text_of(result) == "README.md, lines 1-3 of 3\n1: # Course\n2: \n3: About loops."
    assert result.details == {
        "path": "README.md",
        "firstLine": 1,
        "lastLine": 3,
        "totalLines": 3,
        "nextOffset": None,
    }


def test_a_part_says_how_to_read_on(call: Call) -> None:
    result = call("read_file", path="lessons/02.txt", offset=2, limit=1)
    assert text_of(result).split("\n") == [
        "lessons/02.txt, lines 2-2 of 3",
        "2: loop again",
        "[Lines 3-3 are not shown. To read on: offset=3.]",
    ]
    assert result.details["nextOffset"] == 3


@pytest.mark.parametrize("line", ["x", "长" * 30, ""])
def test_reading_on_gives_every_line_of_a_long_file_once(call: Call, root: Path, line: str) -> None:
    (root / "long.md").write_text("".join(f"{number} {line}\n" for number in range(5000)))
    offset, seen = 1, []
    while offset:
        result = call("read_file", path="long.md", offset=offset)
        numbered = [text for text in text_of(result).split("\n")[1:] if not text.startswith("[")]
        seen += [text.partition(": ")[2] for text in numbered]
        offset = result.details["nextOffset"]
    assert seen == [f"{number} {line}" for number in range(5000)]


def test_a_line_longer_than_the_limit_is_shown_in_part(call: Call, root: Path) -> None:
    (root / "wide.txt").write_text("课" * 40_000 + "\nnext\n")
    result = call("read_file", path="wide.txt")
    head, body, *notes = text_of(result).split("\n")
    assert head == "wide.txt, lines 1-1 of 2"
    assert body.startswith("1: 课")
    assert set(body[3:]) == {"课"}
    assert len(body.encode()) > 50_000
    assert notes == [
        "[Line 1 is 120000 bytes long; only its beginning is shown.]",
        "[Lines 2-2 are not shown. To read on: offset=2.]",
    ]


def test_an_empty_file_and_a_file_of_one_empty_line(call: Call, root: Path) -> None:
    (root / "empty.md").write_text("")
    (root / "blank.md").write_text("\n")
    assert text_of(call("read_file", path="empty.md")) == "empty.md, empty"
    assert text_of(call("read_file", path="blank.md")) == "blank.md, lines 1-1 of 1\n1: "
    with pytest.raises(ToolError, match="0 lines; offset 2 is past the end"):
        call("read_file", path="empty.md", offset=2)


def test_an_offset_past_the_end_is_an_error_that_names_the_length(call: Call) -> None:
    with pytest.raises(ToolError, match=r'"README.md" has 3 lines; offset 4 is past the end'):
        call("read_file", path="README.md", offset=4)
    assert call("read_file", path="README.md", offset=3).details["firstLine"] == 3


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": -1}, {"offset": 0}, {"offset": -3}])
def test_offset_and_limit_begin_at_1(call: Call, wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(ToolError, match=f"- {name}: expected `int` >= 1"):
        call("read_file", path="README.md", **wrong)


def test_reading_a_folder_points_to_list_files(call: Call) -> None:
    with pytest.raises(ToolError, match="list_files"):
        call("read_file", path="lessons")


# search_files


def matches(result: ToolResult) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result.details["matches"]]


def test_a_search_ignores_case_and_gives_path_line_text(call: Call) -> None:
    result = call("search_files", query="Loop")
    assert text_of(result).split("\n") == [
        '4 matching lines in 3 files for "Loop"',
        "lessons/deep/03.md:1: deep loop",
        "lessons/02.txt:1: A LOOP calls a tool.",
        "lessons/02.txt:2: loop again",
        "README.md:3: About loops.",
        "[Not searched, since not UTF-8 text or too large: 1 file.]",
    ]
    assert matches(result)[0] == ("lessons/deep/03.md", 1)
    assert result.details["unreadable"] == ["photo.jpg"]
    assert result.details["truncated"] is False


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("循环", [("lessons/第一课.md", 2)]),
        (".*", []),
        ("tool.", [("lessons/02.txt", 1)]),
        ("# 代理", [("lessons/第一课.md", 1)]),
    ],
)
def test_a_query_is_plain_text_in_any_script(call: Call, query: str, found: list[tuple[str, int]]) -> None:
    assert matches(call("search_files", query=query)) == found


def test_accents_are_found_however_they_are_stored(call: Call, root: Path) -> None:
    (root / "fr.md").write_text("e\u0301te\u0301 Straße")
    assert matches(call("search_files", query="ÉTÉ strasse")) == [("fr.md", 1)]


def test_nothing_found_says_how_much_was_searched(call: Call) -> None:
    text = text_of(call("search_files", query="absent", glob="*.md"))
    assert text.split("\n") == ['0 matching lines in 0 files for "absent"', "[Searched: 3 files.]"]


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ({"path": "lessons"}, ["lessons/deep/03.md", "lessons/02.txt"]),
        ({"path": "lessons/02.txt"}, ["lessons/02.txt"]),
        ({"path": "lessons/02.txt", "glob": "*.md"}, ["lessons/02.txt"]),
        ({"glob": "*.md"}, ["lessons/deep/03.md", "README.md"]),
        ({"glob": "lessons/*"}, ["lessons/02.txt"]),
        ({"glob": "lessons/**"}, ["lessons/deep/03.md", "lessons/02.txt"]),
        ({"path": "lessons", "glob": "deep/*"}, ["lessons/deep/03.md"]),
        ({"glob": "*.{txt,rst}"}, ["lessons/02.txt"]),
    ],
)
def test_path_and_glob_narrow_the_search(call: Call, where: dict[str, str], files: list[str]) -> None:
    found = matches(call("search_files", query="loop", **where))
    assert list(dict.fromkeys(path for path, _ in found)) == files


def test_a_file_named_itself_must_be_readable(call: Call) -> None:
    with pytest.raises(ToolError, match="not text"):
        call("search_files", query="loop", path="photo.jpg")


def test_a_regular_expression_searches_line_by_line(call: Call) -> None:
    assert matches(call("search_files", query=r"^a\s+l(oo)p|循.$|^$", regex=True)) == [
        ("lessons/02.txt", 1),
        ("README.md", 2),
    ]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", r"\p{Nonsense}", "(?<n>a)(?&m)", "(" * 999, "*"])
def test_a_bad_pattern_is_an_error_that_says_so(call: Call, pattern: str) -> None:
    with pytest.raises(ToolError, match=r"not a valid regular expression.*regex=false"):
        call("search_files", query=pattern, regex=True)


def test_a_pattern_that_never_ends_is_given_up(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.md").write_text("a" * 5000 + "!")
    monkeypatch.setattr(search, "REGEX_SECONDS", 0.02)
    with pytest.raises(ToolError, match=r"given up.*longer than 0.02 seconds.*simpler pattern"):
        call("search_files", query="(a+)+$", regex=True)


def test_the_time_for_patterns_is_for_the_whole_search(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr("app.tools.search.time.monotonic", lambda: float(next(seconds)))
    (root / "slow.md").write_text("x\n" * 10)
    with pytest.raises(ToolError, match="given up"):
        call("search_files", query="y", regex=True, path="slow.md")


def test_an_overlong_pattern_is_refused(call: Call) -> None:
    with pytest.raises(ToolError, match="longer than 1000 characters"):
        call("search_files", query="a" * 1001, regex=True)


@pytest.mark.parametrize(("query", "said"), [("  ", "blank"), ("a\nb", "line by line"), ("", "length >= 1")])
def test_a_query_that_cannot_be_found_is_an_error(call: Call, query: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        call("search_files", query=query)


def test_a_search_stops_at_100_matches_and_says_so(call: Call, root: Path) -> None:
    (root / "many.md").write_text("needle\n" * 100)
    result = call("search_files", query="needle")
    assert len(matches(result)) == 100
    assert result.details["truncated"] is False
    (root / "more.md").write_text("needle\n")
    result = call("search_files", query="needle")
    assert len(matches(result)) == 100
    assert result.details["truncated"] is True
    assert "There are more" in text_of(result)


@pytest.mark.parametrize("place", [0, 300, 450, 5000, 9994])
def test_a_long_line_is_cut_to_500_characters_around_the_match(call: Call, root: Path, place: int) -> None:
    line = "." * place + "needle" + "." * (9994 - place)
    (root / "wide.md").write_text(line)
    text = text_of(call("search_files", query="NEEDLE")).split("\n")[1].removeprefix("wide.md:1: ")
    assert "needle" in text
    assert len(text) <= 500
    assert text.startswith("…") == (place > 400)
    assert text.endswith("…") == (place < 9994)


def test_a_line_of_500_characters_is_not_cut(call: Call, root: Path) -> None:
    (root / "wide.md").write_text("needle" + "." * 494)
    assert "…" not in text_of(call("search_files", query="needle"))


def test_a_search_keeps_to_the_limit_in_bytes(call: Call, root: Path) -> None:
    (root / "many.md").write_text(("长" * 400 + "\n") * 50)
    result = call("search_files", query="长", max_bytes=8000)
    assert 0 < len(matches(result)) < 50
    assert result.details["truncated"] is True
    assert "There are more" in text_of(result)


def test_cancelling_stops_a_search_and_a_listing(call: Call) -> None:
    cancel = CancelToken()
    cancel.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        call("search_files", query="loop", cancel=cancel)
    with pytest.raises(Cancelled, match="enough"):
        call("list_files", recursive=True, cancel=cancel)


def test_a_folder_reached_by_a_link_can_be_searched(call: Call, root: Path) -> None:
    (root / "alias").symlink_to("lessons")
    assert ("alias/02.txt", 2) in matches(call("search_files", query="again", path="alias"))


# globs


@pytest.mark.parametrize(
    ("glob", "path", "is_match"),
    [
        ("**/*", "a.md", True),
        ("**/*", "a/b/c.md", True),
        ("**", "a/b.md", True),
        ("*", "a/b.md", True),
        ("*.md", "a/b/c.MD", True),
        ("*.md", "a.md/b.txt", False),
        ("/a/*.md", "a/b.md", True),
        ("./a/*.md", "a/b.md", True),
        ("a/*.md", "x/a/b.md", False),
        ("a/*.md", "a/b/c.md", False),
        ("a/**/c.md", "a/c.md", True),
        ("a/**/c.md", "a/b/b/c.md", True),
        ("**/b/**", "a/b/c/d.md", True),
        ("**/b/**", "a/c/d.md", False),
        ("第?课.md", "lessons/第一课.md", True),
        ("[ab].md", "a.md", True),
        ("[!ab].md", "a.md", False),
        ("[.md", "[.md", True),
        ("{a,b/c}.md", "b/c.md", True),
        ("{a,b}{1,2}.md", "b2.md", True),
        ("a.{md,{txt,rst}}", "a.rst", True),
        ("{a.md", "{a.md", True),
        ("../*", "a.md", False),
        ("", "a.md", False),
    ],
)
def test_globs(glob: str, path: str, is_match: bool) -> None:
    assert Glob(glob).matches(path) is is_match


def test_no_glob_takes_long() -> None:
    assert not Glob("*a" * 100 + "b").matches("a" * 255)
    assert not Glob("**/a/" * 100 + "b").matches("a/" * 500 + "c")
    with pytest.raises(ToolError, match="more than 64 choices"):
        Glob("{a,b}" * 30)


# imports


def _loaded_after(code: str) -> Any:
    command = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


def test_the_tools_load_no_flask_and_regex_only_when_used() -> None:
    loaded = _loaded_after("import app.tools.registry")
    assert not {"flask", "regex"} & set(loaded)
    assert not [
        name for name in loaded if name.startswith("app.") and not name.startswith(("app.protocol", "app.tools"))
    ]
