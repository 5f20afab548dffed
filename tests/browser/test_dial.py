"""The dial: how much of the tutor's workings is shown, and what is never hidden."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import field, made
from tests.server import Server

pytestmark = pytest.mark.browser

NOTE = {"name": "tides", "content": "Twice a day."}
TURNS = [
    {
        "text": "Looking, and writing it down.",
        "toolCalls": [
            {"name": "read_file", "arguments": {"path": "README.md"}},
            {"name": "search_files", "arguments": {"query": "moon"}},
            {"name": "list_files", "arguments": {}},
            {"name": "write_note", "arguments": {"name": "secret-plan", "content": "x"}},
            {"name": "read_file", "arguments": {"path": "missing.md"}},
            {"name": "write_note", "arguments": NOTE},
        ],
    },
]
ACTS = ["list_files", "write_note", "read_file", "write_note"]


@pytest.fixture(scope="module")
def lesson(server: Server) -> str:
    return made(server, "Tides", "Look around")


def row(page: Page, number: int) -> Any:
    """A call of the script in the transcript, by its place in it from 1."""
    return page.locator(f"#c-script-1-{number}")


def turn_dial(page: Page, stop: str) -> None:
    page.locator("#dial").get_by_role("link", name=stop).click()
    page.wait_for_url(f"**show={stop.lower()}*", wait_until="load")


def test_a_lesson_shows_one_line_a_turn_that_opens(server: Server, visit: Callable[..., Page], lesson: str) -> None:
    page = visit(server, lesson)
    line = page.locator("#transcript details.step")
    expect(line).to_have_count(1)
    expect(line.locator("summary").first).to_contain_text("Looked at README.md and 1 more")
    expect(row(page, 1)).to_be_hidden()
    line.locator("summary").first.click()
    for number, name in ((1, "read_file"), (2, "search_files")):
        expect(row(page, number)).to_contain_text(name)
        expect(row(page, number)).to_be_visible()
    expect(page.locator("#transcript pre:visible")).to_have_count(0)
    row(page, 1).locator("summary").click()
    expect(row(page, 1).get_by_role("link", name="Open README.md")).to_be_visible()


@pytest.mark.parametrize("stop", ["Lesson", "Workings", "Raw"])
def test_what_acts_or_goes_wrong_is_a_row_in_every_stop(
    server: Server, visit: Callable[..., Page], lesson: str, stop: str
) -> None:
    page = visit(server, f"{lesson}?show={stop.lower()}")
    names = page.locator("#transcript .call summary code").locator("visible=true")
    expect(names).to_have_text(ACTS if stop == "Lesson" else ["read_file", "search_files", *ACTS])
    expect(row(page, 3)).to_have_class("call done rewritten")
    expect(row(page, 3)).to_contain_text("rewritten")
    expect(row(page, 3).locator(".why")).to_contain_text("the whole workspace is listed")
    expect(row(page, 4)).to_have_class("call blocked")
    expect(row(page, 4).locator(".why")).to_contain_text("secret")
    expect(row(page, 5)).to_have_class("call failed")
    expect(row(page, 5).locator(".why")).to_contain_text("missing.md")
    expect(row(page, 6)).to_have_class("call done")
    expect(row(page, 6)).to_contain_text("tides")
    for number in (3, 4, 5, 6):
        expect(row(page, number)).to_be_visible()


def test_workings_show_each_call_with_what_was_decided_and_what_came_back(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, f"{lesson}?show=workings")
    expect(page.locator("#transcript summary", has_text="Looked at")).to_have_count(0)
    expect(page.locator("#transcript .call")).to_have_count(6)
    summary = row(page, 1).locator("summary")
    for words in ("read_file", "README.md", "allowed", " ms", " bytes"):
        expect(summary).to_contain_text(words)
    expect(row(page, 1).locator(".head")).to_contain_text("# Tides")
    expect(row(page, 4).get_by_role("link", name="rule secret-notes")).to_be_visible()
    row(page, 3).locator("summary").click()
    expect(row(page, 3).locator("del")).to_have_text("{}")
    assert json.loads(row(page, 3).locator("ins").inner_text()) == {"path": "."}
    row(page, 1).locator("summary").click()
    expect(row(page, 1).locator("details pre").first).to_have_text('{\n  "path": "README.md"\n}')
    expect(row(page, 1).locator("details pre").nth(1)).to_contain_text("The moon pulls at the water.")


def test_raw_shows_exact_json_and_leads_to_what_is_stored(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, f"{lesson}?show=raw")
    row(page, 6).locator("summary").click()
    assert json.loads(row(page, 6).locator("details pre").first.inner_text()) == NOTE
    row(page, 6).get_by_role("link", name="the whole result").click()
    stored = json.loads(page.locator("main pre").inner_text())
    assert stored["message"]["toolCallId"] == "script-1-6"


def test_the_dial_stays_where_it_was_put(server: Server, visit: Callable[..., Page], lesson: str) -> None:
    page = visit(server, lesson)
    expect(page.locator("#dial [aria-current]")).to_have_text("Lesson")
    turn_dial(page, "Workings")
    page.goto("/")
    page.goto(lesson)
    expect(page.locator("#dial [aria-current]")).to_have_text("Workings")
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert cookies["hornbook_show"]["value"] == "workings"
    assert cookies["hornbook_show"]["sameSite"] == "Strict"


def test_the_key_w_turns_the_dial_but_not_while_typing_or_switched_off(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, lesson)
    for stop in ("Workings", "Raw", "Lesson"):
        page.keyboard.press("w")
        page.wait_for_url(f"**show={stop.lower()}*", wait_until="load")
        expect(page.locator("#dial [aria-current]")).to_have_text(stop)
    field(page).press("w")
    expect(field(page)).to_have_value("w")
    page.goto(f"{lesson}?keys=off")
    address = page.url
    page.keyboard.press("w")
    # A key that is not heard leaves nothing to wait for; what is typed afterwards is handled after it.
    field(page).press("x")
    expect(field(page)).to_have_value("wx")
    assert page.url == address
    expect(page.locator("#dial [aria-current]")).to_have_text("Lesson")


def test_typed_text_survives_a_turn_of_the_dial(server: Server, visit: Callable[..., Page], lesson: str) -> None:
    page = visit(server, lesson)
    field(page).fill("half a thought\nin two lines")
    turn_dial(page, "Raw")
    expect(field(page)).to_have_value("half a thought\nin two lines")
    page.reload()
    expect(field(page)).to_have_value("half a thought\nin two lines")
    # The next test finds an empty field: drafts are kept for each tab.
    other = page.context.new_page()
    other.goto(lesson)
    expect(field(other)).to_have_value("")


def test_a_page_that_shows_all_turns_still_does_when_another_comes(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server, "Long", *(f"question {number}" for number in range(21)))
    page = visit(server, f"{session}/workings?show=workings")
    turns = page.locator("#panel article.turn")
    expect(turns).to_have_count(20)
    page.get_by_role("link", name="Earlier turns").click()
    expect(turns).to_have_count(22)
    page.wait_for_load_state("load")
    server.post("/api/prompt", {"sessionId": session.rpartition("/")[2], "text": "one more"})
    expect(turns.first).to_contain_text("Turn 23")
    expect(turns).to_have_count(23)
