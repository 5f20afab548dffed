"""The viewer: folders, Markdown, sources with line anchors, pictures; and what no page may show."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from flask.testing import FlaskClient
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.web.file_urls import parse_lines, resolve_image, resolve_link, workspace_url
from app.web.files import MAX_RENDERED
from app.web.source import MAX_BYTES, MAX_LINES, source_of
from tests.web.helpers import page

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
KEY = "KEY-3f9c"
ODD_NAMES = [
    "a b.md",
    "100% #1?.md",
    'it\'s "quoted".md',
    "<script>alert(1)<b>.md",
    "&amp;.md",
    "月\u202e亮.md",
    "+.md",
]


def get(client: FlaskClient, url: str, status: int = 200) -> BeautifulSoup:
    response = client.get(url)
    assert response.status_code == status, response.text
    return page(response.data)


def main_of(soup: BeautifulSoup) -> Tag:
    assert soup.main is not None
    return soup.main


def hrefs(soup: BeautifulSoup) -> list[str]:
    return [str(link["href"]) for link in main_of(soup).find_all("a")]


def source_lines(soup: BeautifulSoup) -> dict[str, str]:
    """The lines of a source by their anchors, without numbers."""
    lines = soup.select("pre.source .line")
    return {str(line["id"]): line.select("span")[0].get_text().removesuffix("\n") for line in lines}


def test_the_first_page_of_files_lists_folders_and_files_by_title(client: FlaskClient, workspace: Path) -> None:
    (workspace / "table.csv").write_text("a,b\n")
    soup = get(client, "/files/")
    rows = [" ".join(row.get_text().split()) for row in soup.select("ul.files li")]
    assert rows == ["lessons/", "Tides README.md · 75 bytes", "table.csv 4 bytes"]
    assert hrefs(soup) == ["/files/lessons", "/files/README.md", "/files/table.csv"]


def test_a_folder_of_a_course_links_to_the_course(client: FlaskClient) -> None:
    soup = get(client, "/files/lessons")
    assert "/courses/lessons" in hrefs(soup)
    assert "/files/lessons/%E6%BD%AE%E6%B1%90.md" in hrefs(soup)


def test_a_file_that_is_not_read_is_listed_with_the_reason(client: FlaskClient, workspace: Path) -> None:
    (workspace / "scan.pdf").write_bytes(b"%PDF-")
    rows = [" ".join(row.get_text().split()) for row in get(client, "/files/").select("ul.files li")]
    assert rows[-1] == "scan.pdf 5 bytes · a PDF; only text files are read"


def test_an_empty_folder_says_so(client: FlaskClient, workspace: Path) -> None:
    (workspace / "empty").mkdir()
    assert "nothing to read" in main_of(get(client, "/files/empty")).get_text()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_can_be_followed_and_is_shown_as_text(client: FlaskClient, workspace: Path, name: str) -> None:
    folder = workspace / name.removesuffix(".md")
    folder.mkdir()
    (folder / name).write_text("some words\n")
    parent = get(client, workspace_url(folder.name))
    (link,) = [href for href in hrefs(parent) if href.endswith(".md")]
    soup = get(client, link)
    assert soup.h1 is not None and soup.h1.get_text() == name
    assert "some words" in main_of(soup).get_text()
    assert soup.main and not soup.main.find("script")
    crumbs = soup.select(".crumbs a")
    assert [crumb.get_text() for crumb in crumbs] == ["Files", folder.name]
    assert client.get(str(crumbs[1]["href"])).status_code == 200


def test_markdown_is_shown_as_a_page_with_the_way_to_its_source(client: FlaskClient) -> None:
    soup = get(client, "/files/README.md")
    text = soup.select_one(".prose")
    assert text is not None and text.h3 is not None and text.h3.get_text() == "Tides"
    assert "/files/README.md?as=source" in hrefs(soup)
    source = get(client, "/files/README.md?as=source")
    assert source_lines(source)["L1"] == "# Tides"
    assert "/files/README.md" in hrefs(source)


def test_the_text_says_in_which_language_it_is(client: FlaskClient) -> None:
    text = get(client, "/files/lessons/潮汐.md").select_one(".prose")
    assert text is not None and text["lang"] == "zh"


def test_links_of_a_lesson_lead_to_pages_and_never_to_a_bank(client: FlaskClient, workspace: Path) -> None:
    (workspace / "lessons" / "pic.png").write_bytes(PNG)
    (workspace / "lessons" / "links.md").write_text(
        "[up](../README.md) [there](潮汐.md#L3) [out](../../secret.md) [bank](final.gift) [hidden](.git/x)\n"
        "[web](https://example.org/) [script](javascript:alert(1)) [top](/README.md)\n\n"
        "![tide](pic.png) ![far](https://example.org/x.png) ![drawing](x.svg)\n"
    )
    soup = get(client, "/files/lessons/links.md")
    text = soup.select_one(".prose")
    assert text is not None
    inside = [str(link["href"]) for link in text.find_all("a") if str(link["href"]).startswith("/")]
    assert inside == ["/files/README.md", "/files/lessons/%E6%BD%AE%E6%B1%90.md?lines=3#L3", "/files/README.md"]
    assert [img["src"] for img in text.find_all("img")] == ["/pictures/lessons/pic.png"]
    everywhere = [str(link["href"]) for link in text.find_all("a")]
    assert everywhere == [*inside[:2], "https://example.org/", inside[2], "https://example.org/x.png"]


def test_front_matter_is_not_part_of_the_page(client: FlaskClient, workspace: Path) -> None:
    (workspace / "front.md").write_text("---\ntitle: Front\nsecretive: x\n---\n# Heading\n")
    text = get(client, "/files/front.md").select_one(".prose")
    assert text is not None and text.get_text().split() == ["Heading"]


def test_html_in_a_lesson_stays_text(client: FlaskClient, workspace: Path) -> None:
    (workspace / "bad.md").write_text("# <img src=x onerror=alert(1)>\n\n<script>alert(1)</script>\n")
    for view in ("", "?as=source"):
        main = main_of(get(client, f"/files/bad.md{view}"))
        assert not main.find(["script", "img"])
        assert "<script>alert(1)</script>" in main.get_text()


def test_each_line_of_a_source_has_an_anchor_and_its_number(client: FlaskClient, workspace: Path) -> None:
    (workspace / "plot.py").write_text('x = 1\n\nprint("<b>")\n')
    soup = get(client, "/files/plot.py")
    assert source_lines(soup) == {"L1": "x = 1", "L2": "", "L3": 'print("<b>")'}
    assert [link["href"] for link in soup.select("pre.source a")] == ["#L1", "#L2", "#L3"]
    assert [link.get_text() for link in soup.select("pre.source a")] == ["1", "2", "3"]
    assert soup.select("pre.source .mi")


def test_line_numbers_are_those_that_the_tutor_cites(client: FlaskClient, workspace: Path) -> None:
    (workspace / "odd.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\x0cstill two\rthree\xe2\x80\xa8still three\n")
    lines = source_lines(get(client, "/files/odd.txt"))
    assert list(lines) == ["L1", "L2", "L3"]
    assert lines["L1"] == "one"
    assert lines["L3"].startswith("three") and lines["L3"].endswith("still three")


@pytest.mark.parametrize(
    ("query", "marked"),
    [("2-3", ["L2", "L3"]), ("4", ["L4"]), ("L2-L3", ["L2", "L3"]), ("3-1", ["L3"]), ("9", []), ("0", []), ("x", [])],
)
def test_lines_asked_for_are_marked(client: FlaskClient, workspace: Path, query: str, marked: list[str]) -> None:
    (workspace / "a.txt").write_text("1\n2\n3\n4\n")
    soup = get(client, f"/files/a.txt?lines={query}")
    assert [line["id"] for line in soup.select(".marked")] == marked


def test_lines_of_markdown_are_marked_in_its_source(client: FlaskClient) -> None:
    soup = get(client, workspace_url("README.md", (3, 4)).partition("#")[0])
    assert [line.select("span")[0].get_text() for line in soup.select(".marked")] == [
        "The sea rises and falls twice a day.\n",
        "The moon pulls at the water.\n",
    ]


def test_a_long_file_comes_in_parts(client: FlaskClient, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("app.web.files", "app.web.source"):
        monkeypatch.setattr(import_module(module), "MAX_LINES", 1000)
    (workspace / "long.txt").write_text("".join(f"{number}\n" for number in range(1, 2006)))
    first = get(client, "/files/long.txt")
    assert list(source_lines(first)) == [f"L{number}" for number in range(1, 1001)]
    assert "Lines 1 to 1,000 of 2,005 are shown." in " ".join(main_of(first).get_text().split())
    (more,) = [href for href in hrefs(first) if "from=" in href]
    second = get(client, more)
    assert list(source_lines(second)) == [f"L{number}" for number in range(1001, 2001)]
    before, after = [href for href in hrefs(second) if "from=" in href]
    assert (before, after) == ("/files/long.txt?as=source&from=1", "/files/long.txt?as=source&from=2001")
    assert list(source_lines(get(client, after))) == [f"L{number}" for number in range(2001, 2006)]
    assert list(source_lines(get(client, "/files/long.txt?from=999999"))) == ["L2005"]
    assert get(client, "/files/long.txt?lines=2005").select("#L2005.marked")


def test_a_page_holds_at_most_so_many_lines_and_bytes() -> None:
    many = source_of(["x"] * (MAX_LINES + 1), "a.txt")
    assert (many.first, many.last, many.total, many.is_cut) == (1, MAX_LINES, MAX_LINES + 1, False)
    wide = source_of(["é" * 1000] * 2000, "a.txt")
    assert wide.last * 2001 <= MAX_BYTES < (wide.last + 1) * 2001


def test_a_line_too_long_for_a_page_is_cut_and_that_is_said(client: FlaskClient, workspace: Path) -> None:
    (workspace / "one.js").write_text("é" * MAX_BYTES + "\nsecond\n", "utf-8")
    soup = get(client, "/files/one.js")
    assert [len(line) for line in source_lines(soup).values()] == [MAX_BYTES // 2]
    assert "too long to be shown whole" in main_of(soup).get_text()
    assert list(source_lines(get(client, "/files/one.js?from=2"))) == ["L2"]


def test_markdown_that_would_take_seconds_is_shown_as_source(client: FlaskClient, workspace: Path) -> None:
    (workspace / "book.md").write_text("*word* " * (MAX_RENDERED // 7 + 1))
    soup = get(client, "/files/book.md")
    assert source_lines(soup).keys() == {"L1"}
    assert "too long to be shown as a page" in main_of(soup).get_text()


def test_a_hostile_line_is_shown_in_bounded_time(client: FlaskClient, workspace: Path) -> None:
    for name, text in {"a.py": "(" * 1_000_000, "b.js": "'\\\"" * 400_000, "c.md": "[" * 100_000}.items():
        (workspace / name).write_text(text)
        assert client.get(f"/files/{name}").status_code == 200  # pytest-timeout ends it otherwise


def test_an_empty_file_says_so(client: FlaskClient, workspace: Path) -> None:
    (workspace / "empty.txt").write_text("")
    assert "empty" in main_of(get(client, "/files/empty.txt?lines=3&from=7")).get_text()


def test_what_is_not_text_is_not_shown_and_says_why(client: FlaskClient, workspace: Path) -> None:
    (workspace / "a.zip").write_bytes(b"PK\x03\x04" + bytes(9))
    (workspace / "latin.md").write_bytes(b"# Caf\xe9\n")
    for name in ("a.zip", "latin.md"):
        assert "not UTF-8 text" in main_of(get(client, f"/files/{name}")).get_text()


def test_a_picture_has_a_page_and_an_address_of_its_own(client: FlaskClient, workspace: Path) -> None:
    (workspace / "pic ture.PNG").write_bytes(PNG)
    soup = get(client, "/files/pic%20ture.PNG")
    assert [img["src"] for img in main_of(soup).find_all("img")] == ["/pictures/pic%20ture.PNG"]
    response = client.get("/pictures/pic%20ture.PNG")
    assert (response.status_code, response.mimetype, response.data) == (200, "image/png", PNG)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "private, max-age=60"
    again = client.get("/pictures/pic%20ture.PNG", headers={"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("fake.png", b"<script>alert(1)</script>"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("wrong.gif", PNG),
        ("page.html", PNG),
        ("README.md", None),
    ],
)
def test_nothing_but_a_picture_is_served_as_one(
    client: FlaskClient, workspace: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (workspace / name).write_bytes(content)
    response = client.get(f"/pictures/{name}")
    assert (response.status_code, response.mimetype) == (404, "text/html")


@pytest.fixture
def guarded(workspace: Path, tmp_path: Path) -> Path:
    """A workspace with all that must stay hidden, and links that lead out."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text(f"# {KEY}\n")
    (tmp_path / "outside" / "secret.png").write_bytes(PNG)
    (workspace / "out.md").symlink_to(tmp_path / "outside" / "secret.md")
    (workspace / "out.png").symlink_to(tmp_path / "outside" / "secret.png")
    (workspace / "outside").symlink_to(tmp_path / "outside")
    (workspace / ".hidden.md").write_text(f"# {KEY}\n")
    (workspace / "lessons" / "final.gift").write_text(f"Which? {{={KEY}}}\n")
    (workspace / "lessons" / "quiz.xml").write_text(f"<quiz><question>{KEY}</question></quiz>")
    (workspace / "to-bank.md").symlink_to("lessons/final.gift")
    (workspace / "to-quiz").symlink_to("lessons/quiz.xml")
    return workspace


@pytest.mark.parametrize(
    "path",
    [
        "out.md",
        "outside/secret.md",
        "outside",
        ".hidden.md",
        "lessons/final.gift",
        "lessons/FINAL.gift",
        "lessons/quiz.xml",
        "to-bank.md",
        "to-quiz",
        "%2e%2e/outside/secret.md",
        "lessons/..%2f..%2foutside/secret.md",
        "%2fetc/passwd",
        "C:%5cx",
        "a%00b",
        "a%0ab",
        "%ff",
        "lessons/潮汐.md/x",
        "nothing.md",
        "CON.md",
        "x" * 300,
    ],
)
def test_what_the_guard_refuses_is_a_page_with_a_sentence(client: FlaskClient, guarded: Path, path: str) -> None:
    for kind in ("files", "pictures"):
        response = client.get(f"/{kind}/{path}", follow_redirects=True)
        assert response.status_code == 404
        assert KEY not in response.text and "Traceback" not in response.text
        main = page(response.data).main
        assert main is not None and main.p is not None and main.p.get_text().strip()


def test_a_picture_behind_a_link_that_leads_out_is_refused(client: FlaskClient, guarded: Path) -> None:
    assert client.get("/pictures/out.png").status_code == 404


def test_listings_hold_no_hidden_file_and_no_bank(client: FlaskClient, guarded: Path) -> None:
    for url in ("/", "/files/", "/files/lessons", "/courses/lessons"):
        text = get(client, url).get_text()
        for name in (".hidden", "final", "quiz", "to-bank", "to-quiz", KEY):
            assert name not in text, (url, name)


def test_a_folder_names_what_is_not_read_in_it(client: FlaskClient, guarded: Path) -> None:
    rows = [" ".join(row.get_text().split()) for row in get(client, "/files/").select("ul.names li")]
    assert rows == [
        f"{name} a link that leads out of the folder or to nothing" for name in ("out.md", "out.png", "outside")
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_no_permission_is_said(client: FlaskClient, workspace: Path) -> None:
    (workspace / "README.md").chmod(0)
    assert "no permission" in main_of(get(client, "/files/README.md", 404)).get_text()


@pytest.mark.parametrize(
    ("path", "lines", "url"),
    [
        (".", None, "/files/"),
        ("a b/ü.md", None, "/files/a%20b/%C3%BC.md"),
        ("a.md", 41, "/files/a.md?lines=41#L41"),
        ("a.md", (41, 52), "/files/a.md?lines=41-52#L41"),
        ("a?#%.md", (7, 7), "/files/a%3F%23%25.md?lines=7#L7"),
    ],
)
def test_addresses_of_files_are_quoted(path: str, lines: Any, url: str) -> None:
    assert workspace_url(path, lines) == url


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("b.md", "/files/c/b.md"),
        ("./d/../b.md", "/files/c/b.md"),
        ("../top.md", "/files/top.md"),
        ("../../out.md", None),
        ("..", "/files/"),
        ("/b.md", "/files/b.md"),
        ("b%20c.md", "/files/c/b%20c.md"),
        ("b.md#L4-L9", "/files/c/b.md?lines=4-9#L4"),
        ("d/b.md:4-9", "/files/c/d/b.md?lines=4-9#L4"),
        ("b.md#heading", "/files/c/b.md"),
        ("b.md?x=1", "/files/c/b.md"),
        ("#L4", "#L4"),
        ("#heading", None),
        ("", None),
        ("final.gift", None),
        (".env", None),
        ("%2e%2e/%2e%2e/x", None),
        ("%00", None),
        ("%ff", None),
        ("a\\b", None),
        ("//evil.example/x", None),
        ("https://evil.example/x", None),
        ("javascript:alert(1)", None),
        ("http://[", None),
    ],
)
def test_a_relative_link_leads_to_a_page_of_the_workspace_or_nowhere(address: str, url: str | None) -> None:
    assert resolve_link("c")(address) == url


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("x.png", "/pictures/c/x.png"),
        ("../x.JPEG", "/pictures/x.JPEG"),
        ("x.svg", None),
        ("x.md", None),
        ("https://evil.example/x.png", None),
        ("//evil.example/x.png", None),
        ("data:image/png;base64,AA", None),
        ("../../x.png", None),
    ],
)
def test_a_picture_comes_from_the_workspace_or_not_at_all(address: str, url: str | None) -> None:
    assert resolve_image("c")(address) == url


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab./\\%2e:#?L19-\n <月"), max_size=40), st.sampled_from(["", "c", "c/d"]))
def test_no_link_leaves_the_viewer(address: str, folder: str) -> None:
    url = resolve_link(folder)(address)
    if url is not None:
        path = url.partition("?")[0]
        assert path.startswith(("/files/", "#L")) and ".." not in path.split("/") and "//" not in path
        assert url.isascii() and not set(url) & set('<>"\\ \n')


@settings(deadline=None)
@given(st.text(max_size=12))
def test_lines_are_ordered_and_positive(text: str) -> None:
    lines = parse_lines(text)
    assert lines is None or 1 <= lines[0] <= lines[1]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Cn", "Co"]), max_size=30), max_size=30))
@example(["a\u2028b", "", "c\u2029"])
def test_a_source_has_each_line_once(lines: list[str]) -> None:
    for name in ("a.txt", "a.py"):
        source = source_of(lines, name)
        assert [line.number for line in source.lines] == list(range(1, len(lines) + 1))
        shown = [page(f"<i>{line.html}</i>").get_text() for line in source.lines]
        assert shown == [line.replace("\u2028", "\ufffd").replace("\u2029", "\ufffd") for line in lines]


def test_a_folder_behind_a_link_inside_is_listed(client: FlaskClient, workspace: Path) -> None:
    (workspace / "again").symlink_to("lessons")
    assert "/files/again/%E6%BD%AE%E6%B1%90.md" in hrefs(get(client, "/files/again"))
    assert "link" in main_of(get(client, "/files/")).get_text()
