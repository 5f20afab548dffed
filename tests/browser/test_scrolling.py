"""Scrolling: the page follows the text while its end is in view, and never moves under a reader who scrolled up."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import answers, busy_text, entries, grows, made, send, settled, stop, stopped, top_of
from tests.server import Server

pytestmark = pytest.mark.browser

LONG = "A paragraph that is long enough to be read, and that breaks into more than one line on a narrow page. "
TURNS = [
    {"text": "\n\n".join(f"{LONG} Number {number}." for number in range(40))},
    {"text": "\n\n".join(f"{LONG} Again {number}." for number in range(400)), "chunk": 12, "delayMs": 10},
]
SCROLLED_AS_TEXT_COMES = """async () => {
  const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  scrollTo(0, document.documentElement.scrollHeight);
  await drawn();
  scrollBy(0, -1200);
  const wanted = scrollY;
  const text = document.createElement("p");
  text.textContent = "New text. ".repeat(2000);
  document.getElementById("transcript").append(text);
  await drawn();
  return scrollY - wanted;
}"""


def in_view(page: Page) -> None:
    """The end of the flow, where one acts, can be seen."""
    expect(page.locator("#act")).to_be_in_viewport()


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.long)])
def test_the_page_follows_while_the_end_is_in_view(server: Server, visit: Callable[..., Page], width: int) -> None:
    page = visit(server, made(server, "", "first"), width=width)
    expect(page.locator("#act")).not_to_be_in_viewport()
    page.locator("#act").scroll_into_view_if_needed()
    send(page, "second")
    expect(busy_text(page)).to_be_visible()
    for _ in range(3):
        grows(busy_text(page), 600)
        in_view(page)
    expect(page.locator("#new-text")).to_be_hidden()
    stop(page)
    settled(page)
    in_view(page)


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.long), 390])
def test_nothing_moves_under_a_reader_who_scrolled_up(server: Server, visit: Callable[..., Page], width: int) -> None:
    session = made(server, "", "first")
    page = visit(server, session, width=width)
    link = page.locator("#new-text")
    send(page, "second")
    expect(busy_text(page)).to_be_visible()
    grows(busy_text(page), 600)
    read = answers(page).first.locator("p").nth(30)
    read.scroll_into_view_if_needed()
    page.mouse.move(200, 300)
    page.mouse.wheel(0, -300)
    expect(link).to_be_visible()
    before = top_of(read)
    grows(busy_text(page), 1200)
    assert top_of(read) == before
    expect(link).to_be_visible()
    link.click()
    in_view(page)
    expect(link).to_be_hidden()
    for _ in range(2):
        grows(busy_text(page), 600)
        in_view(page)
    read.scroll_into_view_if_needed()
    before = top_of(read)
    stopped(server, session)
    settled(page)
    assert top_of(read) == before


def test_one_who_reads_the_text_that_is_being_written_is_not_moved(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server, "", "first")
    page = visit(server, session)
    send(page, "second")
    expect(busy_text(page)).to_be_visible()
    grows(busy_text(page), 3000)
    read = busy_text(page).locator("p").first
    read.scroll_into_view_if_needed()
    page.mouse.move(200, 300)
    page.mouse.wheel(0, -60)
    expect(page.locator("#new-text")).to_be_visible()
    paragraph = answers(page).nth(1).locator("p").first
    before = top_of(paragraph)
    grows(busy_text(page), 1200)
    assert top_of(paragraph) == before
    # At its end the whole message is set anew.
    stopped(server, session)
    settled(page)
    assert top_of(paragraph) == before


def test_text_that_comes_in_the_moment_of_scrolling_up_does_not_pull_back(
    server: Server, visit: Callable[..., Page]
) -> None:
    page = visit(server, made(server, "", "first"))
    assert page.evaluate(SCROLLED_AS_TEXT_COMES) == 0
    expect(page.locator("#new-text")).to_be_visible()


def test_the_page_follows_on_another_branch_too(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server, "", "first")
    page = visit(server, session)
    send(page, "second")
    expect(busy_text(page)).to_be_visible()
    stopped(server, session)
    settled(page)
    first = entries(server, session, "assistant")[0]["id"]
    server.post("/api/branch", {"sessionId": session.rpartition("/")[2], "leafId": first})
    expect(answers(page)).to_have_count(1)
    send(page, "another way")
    expect(busy_text(page)).to_be_visible()
    for _ in range(2):
        grows(busy_text(page), 600)
        in_view(page)


def test_the_link_to_new_text_is_an_anchor_that_needs_no_script(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server, "", "first"))
    assert page.locator("#new-text").get_attribute("href") == "#act"
