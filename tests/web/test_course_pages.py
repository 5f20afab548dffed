"""Courses and the folder on the first page, and a course's own page with its ways to start."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from flask import Flask
from flask.testing import FlaskClient

from app.models.offline_intents import ReadFiles
from app.models.offline_rules import understand
from app.settings import resource
from app.web.courses import first_message, language_name, shown_path
from tests.web.helpers import page


def get(client: FlaskClient, url: str, status: int = 200) -> BeautifulSoup:
    response = client.get(url)
    assert response.status_code == status, response.text
    return page(response.data)


def words(soup: BeautifulSoup, selector: str) -> list[str]:
    return [" ".join(found.get_text().split()) for found in soup.select(selector)]


@pytest.fixture
def algebra(workspace: Path) -> Path:
    """A course with two languages, a part, a README and a file that cannot be read."""
    folder = workspace / "linear algebra"
    for path, text in {
        "README.md": "# Linear *algebra*\n",
        "en/10-rank.md": "# Rank\n",
        "en/2-pivots.md": "# Pivots <b>\n",
        "en/extra/more.md": "# More\n",
        "zh/1.md": "# 主元\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    (folder / "scan.pdf").write_bytes(b"%PDF-1.7\n\0")
    return folder


def test_the_first_page_lists_the_courses(client: FlaskClient, algebra: Path) -> None:
    soup = get(client, "/")
    rows = words(soup, "#courses li")
    assert rows == ["Lessons 1 lesson", "Linear algebra 3 lessons · English · 中文"]
    assert [link["href"] for link in soup.select("#courses a")] == ["/courses/lessons", "/courses/linear%20algebra"]


def test_without_a_course_there_is_no_block(client: FlaskClient, workspace: Path) -> None:
    (workspace / "lessons" / "潮汐.md").unlink()
    (workspace / "README.md").unlink()
    soup = get(client, "/")
    assert not soup.select("#courses")
    assert "nothing to read" in words(soup, "#folder")[0]


def test_the_first_page_says_what_is_read_skipped_and_written(
    client: FlaskClient, algebra: Path, workspace: Path
) -> None:
    (workspace / "notes").mkdir()
    (workspace / "notes" / "mine.md").write_text("x")
    (workspace / "photo.gif").write_bytes(b"GIF89a\0")
    soup = get(client, "/")
    assert words(soup, "#folder > ul li") == ["7 Markdown files"]
    assert words(soup, "#folder summary") == ["1 not read: why"]
    assert words(soup, "#folder .names li") == ["linear algebra/scan.pdf a PDF; only text files are read"]
    text = words(soup, "#folder")[0]
    assert "1 picture: shown in pages, not read by the tutor" in text
    assert f"Writes only to {shown_path(workspace / 'notes')} (1 file)" in text


def test_only_the_first_skipped_files_are_named(client: FlaskClient, workspace: Path) -> None:
    for number in range(25):
        (workspace / f"{number}.pdf").write_bytes(b"%PDF-")
    soup = get(client, "/")
    assert words(soup, "#folder summary") == ["25 not read: why"]
    assert words(soup, "#folder details .counts li") == ["25: a PDF; only text files are read"]
    assert len(soup.select("#folder .names li")) == 20
    assert "5 more are not named here." in words(soup, "#folder details")[0]


def test_only_the_course_that_came_with_the_program_is_called_a_sample(new_app: Callable[..., Flask]) -> None:
    own = get(new_app(workspace=resource("workspace")).test_client(), "/")
    assert words(own, "#courses li") == ["How an agent works 3 lessons · English · 中文 · sample"]


def test_a_changed_copy_of_the_sample_is_no_sample(client: FlaskClient, workspace: Path) -> None:
    copy = workspace / "how-an-agent-works" / "en"
    copy.mkdir(parents=True)
    (copy / "1-the-loop.md").write_text("# Mine\n")
    assert words(get(client, "/"), "#courses li")[0] == "How an agent works 1 lesson · English"


def test_a_course_lists_its_lessons_in_order_with_links(client: FlaskClient, algebra: Path) -> None:
    soup = get(client, "/courses/linear%20algebra")
    assert soup.h1 is not None and soup.h1.get_text() == "Linear algebra"
    assert words(soup, "ol.lessons li > a") == ["Pivots <b>", "Rank", "More"]
    assert words(soup, "h3") == ["Extra"]
    assert [ol["start"] for ol in soup.select("ol.lessons")] == ["1", "3"]
    for link in soup.select("main a"):
        assert client.get(str(link["href"])).status_code == 200


def test_the_lessons_of_another_language_can_be_chosen(client: FlaskClient, algebra: Path) -> None:
    assert words(get(client, "/courses/linear%20algebra?lessons=zh"), "ol.lessons li > a") == ["主元"]
    assert words(get(client, "/courses/linear%20algebra?lang=zh"), "ol.lessons li > a") == ["主元"]
    soup = get(client, "/courses/linear%20algebra?lessons=tlh")
    assert words(soup, "ol.lessons li > a")[0] == "Pivots <b>"
    assert words(soup, 'main [aria-current="true"]') == ["English"]


def test_a_course_names_its_files_that_cannot_be_read(client: FlaskClient, algebra: Path) -> None:
    rows = words(get(client, "/courses/linear%20algebra"), "ul.names li")
    assert rows == ["linear algebra/scan.pdf a PDF; only text files are read"]


def test_start_makes_a_session_that_begins_with_the_first_lesson(client: FlaskClient, algebra: Path) -> None:
    soup = get(client, "/courses/linear%20algebra")
    (form,) = [form for form in soup.select("main form") if form.select(".primary")]
    fields = {str(field["name"]): str(field["value"]) for field in form.select("input")}
    assert (form["method"], form["action"]) == ("post", "/sessions")
    assert fields == {"name": "Linear algebra", "text": 'read "linear algebra/en/2-pivots.md"'}
    response = client.post(str(form["action"]), data=fields)
    assert response.status_code == 303
    session = get(client, response.headers["Location"])
    assert 'read "linear algebra/en/2-pivots.md"' in session.get_text()


def test_each_lesson_has_a_start_of_its_own(client: FlaskClient, algebra: Path) -> None:
    soup = get(client, "/courses/linear%20algebra")
    texts = [str(field["value"]) for field in soup.select('ol.lessons input[name="text"]')]
    assert texts == [
        'read "linear algebra/en/2-pivots.md"',
        'read "linear algebra/en/10-rank.md"',
        'read "linear algebra/en/extra/more.md"',
    ]


@pytest.mark.parametrize("path", ["a/b-1.md", "a b/c d.md", "潮汐/的月.md", "a's/b.md", "1. x, y.md"])
def test_the_offline_tutor_understands_the_first_message(app: Flask, path: str) -> None:
    with app.test_request_context("/"):
        message = first_message(path)
    intent = understand(message).intent
    assert isinstance(intent, ReadFiles) and intent.names == (path,)


def test_a_lesson_leads_to_its_neighbours_and_its_course(client: FlaskClient, algebra: Path) -> None:
    soup = get(client, "/files/linear%20algebra/en/10-rank.md")
    links = {" ".join(link.get_text().split()): link["href"] for link in soup.select("nav.neighbours a")}
    assert links == {
        "Before this: Pivots <b>": "/files/linear%20algebra/en/2-pivots.md",
        "After this: More": "/files/linear%20algebra/en/extra/more.md",
    }
    assert soup.select('main a[href="/courses/linear%20algebra"]')


@pytest.mark.parametrize(
    "path", ["nothing", "notes", "linear%20algebra/en", "README.md", "%2e%2e", ".git", "x.gift", "a%0ab", ""]
)
def test_what_is_no_course_is_not_found(client: FlaskClient, algebra: Path, path: str) -> None:
    soup = get(client, f"/courses/{path}", 404)
    assert soup.main is not None and soup.main.p is not None


def test_a_folder_of_lessons_without_sub_folders_is_a_course_itself(client: FlaskClient, workspace: Path) -> None:
    (workspace / "lessons" / "潮汐.md").unlink()
    (workspace / "2.md").write_text("# Two\n")
    (link,) = get(client, "/").select("#courses a")
    assert link["href"] == "/courses/"
    soup = get(client, "/courses/")
    assert words(soup, "ol.lessons li > a") == ["Two"]
    assert "/files/README.md" in [link["href"] for link in soup.select("main a")]


def test_names_of_folders_are_text(client: FlaskClient, workspace: Path) -> None:
    folder = workspace / "<script>alert(1)<b>"
    folder.mkdir()
    (folder / "\"x'.md").write_text("words\n")
    soup = get(client, "/")
    assert not soup.select("main script")
    (link,) = [link for link in soup.select("#courses a") if "script" in link.get_text()]
    course = get(client, str(link["href"]))
    assert not course.select("main script")
    assert words(course, "ol.lessons li > a") == ["\"x'"]
    assert not get(client, str(course.select("ol.lessons li > a")[0]["href"])).select("main script")


def test_languages_are_called_as_they_call_themselves() -> None:
    assert [language_name(code) for code in ("en", "zh", "zh-hant", "zh-cn", "tlh-qq")] == [
        "English",
        "中文",
        "中文 (繁體)",
        "中文 (简体, 中国)",
        "tlh-qq",
    ]


def test_folders_below_the_home_are_written_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert shown_path(Path("/home/ada/study")) == "~/study"
    assert shown_path(Path("/home/adam/study")) == "/home/adam/study"
