"""Nothing is wider than the narrowest screen, whatever is written without a break, and a long file stays usable."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import entries, made, send, settled, started, widest
from tests.server import Server

pytestmark = pytest.mark.browser

LONG = "unbroken" * 38
TURNS = [
    {
        "text": f"{LONG} and https://example.org/{LONG} and [{LONG}](https://example.org/) and `{LONG}`.",
        "toolCalls": [
            {"name": "read_file", "arguments": {"path": f"{LONG[:200]}.md"}},
            {"name": "write_note", "arguments": {"name": f"secret-{LONG}", "content": LONG}},
            {"name": LONG, "arguments": {LONG: LONG}},
        ],
    },
    {
        "text": f"# {LONG}\n\n> {LONG}\n\n- {LONG}\n\n| a | {LONG} |\n|---|---|\n| {LONG} | b |\n\n"
        f"$$\\text{{{LONG}}} = {'x + ' * 100}1$$\n\n```python\n{LONG} = 1\n```\n",
    },
    {"text": f"```python\n{'print(1)' * 30}\n" + "print('a line of code')\n" * 1999 + "```\n"},
    {"text": f"{LONG} again"},
    {"text": f"{LONG} ", "fault": {"kind": "hang", "afterDeltas": 60}},
]
NARROWEST = 320


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    course = folder / LONG[:200]
    course.mkdir()
    (course / f"{LONG[:200]}.md").write_text(f"# {LONG}\n\n{LONG}\n\n```\n{LONG}\n```\n", "utf-8")
    (course / "scan.pdf").write_bytes(b"%PDF-1.7\n")
    (course / "code.py").write_text(f"{LONG} = 1\n" + "print('a line of code')\n" * 1999, "utf-8")
    return folder


@pytest.fixture(scope="module")
def lesson(server: Server) -> str:
    """A session that waits in the middle of an answer, with a branch, and with all that it says unbroken."""
    session = made(server, LONG[:200], LONG, "A long block of code")
    leaf = entries(server, session, "assistant")[1]["id"]
    server.post("/api/branch", {"sessionId": session.rpartition("/")[2], "leafId": leaf})
    server.post("/api/prompt", {"sessionId": session.rpartition("/")[2], "text": LONG})
    server.post("/api/prompt", {"sessionId": session.rpartition("/")[2], "text": "and on"})
    started(server, session, LONG, LONG)
    return session


@pytest.mark.timeout(240)  # every page, one after another
def test_no_page_is_wider_than_the_narrowest_screen(server: Server, visit: Callable[..., Page], lesson: str) -> None:
    page = visit(server, width=NARROWEST)
    course = f"/files/{LONG[:200]}"
    places = [
        "/",
        "/files/",
        course,
        f"{course}/{LONG[:200]}.md",
        f"{course}/{LONG[:200]}.md?as=source",
        f"{course}/code.py",
        f"/courses/{LONG[:200]}",
        lesson,
        *(
            f"{lesson}?show={show}&panel={panel}"
            for show, panel in (("workings", "timeline"), ("workings", "tree"), ("raw", "timeline"), ("raw", "tools"))
        ),
        *(f"{lesson}/{panel}" for panel in ("workings", "tree")),
        f"{lesson}/entries/{entries(server, lesson)[0]['id']}",
        f"{lesson}?show=lesson&lang=zh",
        "/sessions/no-such-one?lang=en",
    ]
    wide = {}
    for place in places:
        page.goto(place)
        page.locator("details:not(.menu):not([open]) > summary").evaluate_all(
            "summaries => summaries.forEach((summary) => (summary.parentElement.open = true))"
        )
        if widest(page) > NARROWEST:
            wide[place] = widest(page)
    assert wide == {}


def test_the_menu_fits_on_the_narrowest_screen(server: Server, visit: Callable[..., Page], lesson: str) -> None:
    page = visit(server, lesson, width=NARROWEST)
    page.get_by_text("More", exact=True).click()
    page.locator(".menu").get_by_text("Rename").click()
    box = page.locator(".menu .list").bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= NARROWEST
    assert widest(page) <= NARROWEST


def test_what_streams_in_is_not_wider_either(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server), width=NARROWEST)
    send(page, LONG)
    expect(page.locator("#transcript .call")).to_have_count(3)
    settled(page)
    assert widest(page) <= NARROWEST


def test_two_thousand_lines_of_code_do_not_hold_a_page_up(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server, "", LONG), width=NARROWEST)
    send(page, "A long block of code")
    block = page.locator(".message.tutor pre").last
    expect(block).to_contain_text("print('a line of code')\n" * 1998)
    settled(page)
    assert block.locator("code").inner_text().count("\n") >= 1999
    assert widest(page) <= NARROWEST
    # It scrolls inside itself, sideways only: the page is what scrolls down.
    assert block.evaluate("pre => pre.scrollWidth > pre.clientWidth && pre.scrollHeight === pre.clientHeight")
