"""Sessions as things: named, thrown away and brought back, from the first page and from their own."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.page import field, made, new_session, said
from tests.server import Server

pytestmark = pytest.mark.browser

TURNS: list[dict[str, object]] = []


def row(page: Page, name: str) -> Locator:
    return page.locator("#sessions li", has=page.get_by_role("link", name=name, exact=True))


def test_a_session_is_begun_from_the_first_page(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server)
    new_session(page)
    expect(page.locator("#name")).to_have_text("Untitled session")
    expect(field(page)).to_be_visible()
    expect(page.get_by_text("Offline tutor")).to_have_count(0)
    expect(page.locator("#composer")).to_contain_text("Scripted")


def test_a_session_is_renamed_on_the_first_page(server: Server, visit: Callable[..., Page]) -> None:
    made(server, "Before", "one")
    page = visit(server)
    row(page, "Before").get_by_text("Rename").click()
    row(page, "Before").get_by_label("Name").fill("<b>After</b> & on")
    row(page, "Before").get_by_role("button", name="Save").click()
    page.wait_for_url("**/#sessions", wait_until="load")
    expect(row(page, "<b>After</b> & on")).to_be_visible()
    expect(page.get_by_role("link", name="Before", exact=True)).to_have_count(0)


def test_a_session_is_renamed_from_its_menu_and_elsewhere(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server, "Waves", "one")
    page = visit(server, session)
    other = page.context.new_page()
    other.goto(session)
    field(page).fill("half a thought")
    page.get_by_text("More", exact=True).click()
    page.locator(".menu").get_by_text("Rename").click()
    page.locator(".menu").get_by_label("Name").fill("Tides")
    page.locator(".menu").get_by_role("button", name="Save").click()
    for tab in (page, other):
        expect(tab.locator("#name")).to_have_text("Tides")
    expect(field(page)).to_have_value("half a thought")
    server.request("PATCH", f"/api{session}", {"name": "Tides and moons"})
    for tab in (page, other):
        expect(tab.locator("#name")).to_have_text("Tides and moons")


def test_a_session_is_deleted_and_brought_back_on_the_first_page(server: Server, visit: Callable[..., Page]) -> None:
    made(server, "To go", "what was said")
    page = visit(server)
    row(page, "To go").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/?trashed=*", wait_until="load")
    expect(page.get_by_role("link", name="To go", exact=True)).to_have_count(0)
    page.locator(".notice").get_by_role("button", name="Undo").click()
    expect(said(page)).to_have_text("what was said")
    expect(page.locator("#name")).to_have_text("To go")


def test_a_deleted_session_says_so_on_its_open_page_and_can_be_brought_back(
    server: Server, visit: Callable[..., Page]
) -> None:
    session = made(server, "Open", "one")
    page = visit(server, session)
    field(page).fill("half a thought")
    server.request("DELETE", f"/api{session}")
    expect(page.locator("#status")).to_contain_text("moved to the trash")
    expect(field(page)).to_have_value("half a thought")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#status")).to_be_empty()
    expect(page.locator("#name")).to_have_text("Open")
    expect(said(page)).to_have_text("one")
    expect(field(page)).to_have_value("half a thought")


def test_one_menu_is_open_at_a_time_and_escape_closes_it(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server, "Menus"))
    menu = page.locator(".menu")
    page.get_by_text("More", exact=True).click()
    expect(menu.get_by_role("link", name="Tree")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu.get_by_role("link", name="Tree")).to_be_hidden()
    expect(menu.locator("> summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(menu.get_by_role("link", name="Tree")).to_be_visible()
    field(page).click()
    expect(menu.get_by_role("link", name="Tree")).to_be_hidden()
