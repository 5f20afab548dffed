"""The same journeys with JavaScript off, on a phone's width: forms, links and a page that asks again by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import answers, field, made, said, send, stop
from tests.server import Server

pytestmark = pytest.mark.browser

SLOW = {"chunk": 7, "delayMs": 25}
TURNS = [
    {"text": "Let me look.", "toolCalls": [{"name": "list_files", "arguments": {}}], "chunk": 6, "delayMs": 20},
    {"text": "There is a **README**, and $x^2$. " * 30, "chunk": 8, "delayMs": 20},
    {"text": "slowly " * 1600, **SLOW},
    {"text": "One more."},
]
AFTER = {"text": "So it is."}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "tides").mkdir()
    (folder / "tides" / "1-moon.md").write_text("# The moon\n\nIt pulls.\n", "utf-8")
    (folder / "tides" / "2-sun.md").write_text("# The sun\n\nIt pulls less.\n", "utf-8")
    return folder


@pytest.fixture
def open_page(visit: Callable[..., Page], server: Server) -> Callable[[str], Page]:
    return lambda path="/": visit(server, path, javascript=False, width=390)


def running(page: Page) -> None:
    expect(page.locator("#status")).to_have_attribute("data-state", "running")


def settled(page: Page) -> None:
    """The page asks again by itself, so that nothing needs to be done."""
    expect(page.locator("#status")).to_have_attribute("data-state", "idle")
    expect(page.locator("[aria-busy]")).to_have_count(0)


def test_a_page_asks_again_while_the_tutor_answers(server: Server, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.get_by_role("button", name="New session").click()
    send(page, "What is here?")
    running(page)
    note = page.locator("#status noscript p")
    expect(note).to_contain_text("This page asks again by itself.")
    expect(page.locator("#act")).to_be_in_viewport()
    expect(page.locator("#transcript .call")).to_contain_text("list_files")
    settled(page)
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last.locator("strong").first).to_have_text("README")
    expect(answers(page).last.locator("math").first).to_be_visible()
    expect(note).to_have_count(0)
    expect(page.locator("noscript meta")).to_have_count(0)
    expect(page.locator("#act")).to_be_in_viewport()


def test_stop_queue_remove_and_send(server: Server, open_page: Callable[..., Page]) -> None:
    session = made(server, "Queue", "one")
    page = open_page(session)
    send(page, "two")
    running(page)
    # Else the page would ask again while one types.
    page.get_by_role("link", name="Stop that, to write in peace").click()
    page.wait_for_url("**refresh=0*")
    send(page, "three")
    page.get_by_role("link", name="Stop that, to write in peace").click()
    send(page, "four")
    expect(page.locator(".queue li")).to_have_count(2)
    page.locator(".queue li").first.get_by_role("button", name="Remove").click()
    expect(page.locator(".queue li")).to_have_count(1)
    stop(page)
    settled(page)
    expect(page.locator(".message.tutor").last).to_contain_text("Stopped here.")
    expect(page.locator(".returned li")).to_contain_text("four")
    page.get_by_role("button", name="Send it now").click()
    settled(page)
    expect(said(page)).to_have_text(["one", "two", "four"])
    expect(answers(page).last).to_have_text("One more.")


def test_what_is_wrong_with_a_message_is_said_and_the_text_kept(server: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(made(server, "Wrong"))
    send(page, "   ")
    expect(page.locator("#problem")).to_have_text("Write something first.")
    expect(field(page)).to_have_value("   ")


def test_branch_undo_and_asking_differently(server: Server, open_page: Callable[..., Page]) -> None:
    session = made(server, "Ways", "one")
    page = open_page(f"{session}/tree")
    page.locator("#panel .nodes a.open", has_text="one").click()
    page.locator("#node").get_by_role("button", name="Continue here").click()
    page.wait_for_url("**/sessions/*#*")
    expect(page.locator("#moved")).to_contain_text('You went to "one".')
    expect(answers(page)).to_have_count(0)
    page.locator("#moved").get_by_role("button", name="Undo").click()
    expect(answers(page)).to_have_count(2)
    expect(page.locator("#moved")).to_be_empty()
    page.goto(f"{session}?show=workings&panel=tree")
    page.locator("#panel").get_by_role("button", name="Ask this differently").click()
    expect(field(page)).to_have_value("one")
    expect(said(page)).to_have_count(0)
    send(page, "one, but shorter")
    expect(said(page)).to_have_text(["one, but shorter"])
    expect(page.locator("#branches")).to_have_text("2 branches")
    settled(page)


def test_dial_panels_language_and_theme_are_links(server: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(made(server, "Links", "one"))
    page.locator("#dial").get_by_role("link", name="Workings").click()
    expect(page.locator("#panel.timeline")).to_be_visible()
    expect(page.locator("#transcript summary", has_text="list_files")).to_be_visible()
    page.get_by_role("link", name="Beside the text").click()
    expect(page.locator("#side")).to_be_in_viewport()
    for panel in ("Tree", "Tools", "Timeline"):
        page.locator("#side nav").get_by_role("link", name=panel).click()
        expect(page.locator("#side nav [aria-current]")).to_have_text(panel)
    for name in ("Tree", "Workings", "Tools"):
        page.get_by_text("More", exact=True).click()
        page.locator(".menu").get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", name=name, exact=True, level=1)).to_be_visible()
    page.get_by_role("link", name="Lesson").last.click()
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator(".menu > summary").click()
    page.get_by_role("link", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_rename_delete_and_undo(server: Server, open_page: Callable[..., Page]) -> None:
    made(server, "Before", "one")
    page = open_page()
    row = page.locator("#sessions li", has=page.get_by_role("link", name="Before", exact=True))
    row.get_by_text("Rename").click()
    row.get_by_label("Name").fill("After")
    row.get_by_role("button", name="Save").click()
    page.locator("#sessions").get_by_role("link", name="After", exact=True).click()
    page.get_by_text("More", exact=True).click()
    page.locator(".menu").get_by_text("Rename").click()
    page.locator(".menu").get_by_label("Name").fill("Later")
    page.locator(".menu").get_by_role("button", name="Save").click()
    expect(page.locator("#name")).to_have_text("Later")
    page.get_by_text("More", exact=True).click()
    page.locator(".menu").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="Later", exact=True)).to_have_count(0)
    page.locator(".notice").get_by_role("button", name="Undo").click()
    expect(page.locator("#name")).to_have_text("Later")
    expect(said(page)).to_have_text("one")


def test_from_a_course_to_a_lesson_and_its_files(server: Server, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.locator("#courses").get_by_role("link").first.click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(said(page)).to_contain_text("tides/1-moon.md")
    settled(page)
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Files of the folder").click()
    page.get_by_role("link", name="tides/").click()
    page.get_by_role("link", name="The moon").click()
    expect(page.locator(".prose")).to_contain_text("It pulls.")
    page.get_by_role("link", name="Show the source").click()
    page.locator("#L3 a").click()
    assert page.url.endswith("#L3")
    page.get_by_role("link", name="Show as a page").click()
    page.get_by_role("link", name="After this: The sun").click()
    expect(page.locator(".prose")).to_contain_text("It pulls less.")
