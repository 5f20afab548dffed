"""A server that is killed and started again with pages open, and what they say meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import BUSY, answers, assert_same, field, made, said, send, settled, started
from tests.server import running_server

pytestmark = pytest.mark.browser

LOOK = {"text": "Let me look.", "toolCalls": [{"name": "list_files", "arguments": {}}]}
SILENT = {"text": "slowly " * 20, "chunk": 7, "fault": {"kind": "hang", "afterDeltas": 12}}
ANSWER = {"text": "There is a README.", "chunk": 8}
BACK_SECONDS = 3.0
"""How long a page may take to come back by itself, from the server's first answer on."""


def within(began: float) -> float:
    """Returns how many milliseconds are left of the time in which pages come back."""
    return max(1.0, (began + BACK_SECONDS - time.monotonic()) * 1000)


def test_after_kill_9_two_tabs_come_back_with_what_was_typed_and_the_run_goes_on(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    model, data = script(LOOK, SILENT, after=ANSWER), tmp_path / "data"
    with running_server(data=data, workspace=workspace, model=model) as server:
        page = visit(server, f"{made(server)}?show=workings")
        other = page.context.new_page()
        other.goto(page.url)
        send(page, "go")
        for tab, typed in ((page, "half a thought"), (other, "and another")):
            expect(answers(tab).nth(1)).to_contain_text("slowly slowly")
            field(tab).fill(typed)
        port = server.port
        server.kill()
    for tab in (page, other):
        expect(tab.locator("#gone")).to_have_text("Hornbook does not answer. This page tries again by itself.")
    script(LOOK, ANSWER)
    with running_server(data=data, workspace=workspace, model=model, port=port) as server:
        assert server.get("/api/health").status == 200
        began = time.monotonic()
        for tab in (page, other):
            expect(tab.get_by_role("button", name="Continue")).to_be_visible(timeout=within(began))
            expect(tab.locator(BUSY)).to_have_count(0, timeout=within(began))
        for tab, typed in ((page, "half a thought"), (other, "and another")):
            expect(tab.locator("#gone")).to_be_hidden()
            expect(field(tab)).to_have_value(typed)
            expect(said(tab)).to_have_text("go")
        page.get_by_role("button", name="Continue").click()
        for tab in (page, other):
            expect(answers(tab).last).to_have_text("There is a README.")
            settled(tab)
            expect(tab.get_by_role("button", name="Continue")).to_have_count(0)
            expect(tab.locator("#transcript .call")).to_have_count(1)
        # Who saw the beginning of an answer is told that it is gone; else nothing differs from a page that is new.
        cut_off = "What was being written here was cut off and is not kept."
        expect(other.locator("#transcript")).to_contain_text(cut_off)
        other.locator(".message", has_text=cut_off).evaluate("element => element.remove()")
        page.reload()
        assert_same(other, page)
        expect(field(page)).to_have_value("half a thought")


def test_a_page_that_was_open_says_when_its_token_is_no_longer_right(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    model, data = script(), tmp_path / "data"
    with running_server(data=data, workspace=workspace, model=model) as server:
        session = made(server, "Tides", "one")
        page = visit(server, session)
        field(page).fill("half a thought")
        port = server.port
    expect(page.locator("#gone")).to_be_visible()
    page.context.clear_cookies()
    with running_server(data=data, workspace=workspace, model=model, port=port) as server:
        expect(page.locator("#problem")).to_contain_text("link that Hornbook printed")
        expect(field(page)).to_have_value("half a thought")
        # The link opened in another tab is enough.
        other = page.context.new_page()
        other.goto(server.link)
        started(server, session, "from elsewhere")
        expect(said(page)).to_have_text(["one", "from elsewhere"])
        settled(page)
        expect(page.locator("#problem")).to_be_empty()
        expect(page.locator("#gone")).to_be_hidden()
        expect(field(page)).to_have_value("half a thought")
        send(page, "two")
        expect(said(page)).to_have_text(["one", "from elsewhere", "two"])


def test_without_the_token_a_page_says_what_to_do(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script()) as server:
        page = visit(server)
        page.context.clear_cookies()
        page.goto("/")
        expect(page.get_by_role("heading")).to_contain_text("needs the link that Hornbook printed")
        assert server.token not in page.content()
