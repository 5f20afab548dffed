"""Going on from an earlier point: the move, its undoing, the second branch, and asking differently."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.page import answers, entries, field, made, said, send, settled
from tests.server import Server

pytestmark = pytest.mark.browser

TURNS = [{"text": "The first answer."}, {"text": "The second answer."}]


def two_turns(server: Server) -> str:
    return made(server, "Tides", "one", "two")


def continue_here(page: Page, words: str) -> None:
    page.locator("#panel .nodes > li", has_text=words).get_by_role("button", name="Continue here").click()


def opened(page: Page, words: str) -> Locator:
    """Opens a row of the tree's page; what can be done there stands in it."""
    page.locator("#panel .nodes a.open", has_text=words).click()
    node = page.locator("#node")
    expect(node).to_contain_text(words)
    return node


def moved_to_one(page: Page) -> None:
    expect(page.locator("#moved")).to_contain_text('You went to "one".')
    expect(said(page)).to_have_text(["one"])
    expect(answers(page)).to_have_text(["The first answer."])


def test_a_node_beside_the_text_goes_on_from_there_without_a_reload(server: Server, visit: Callable[..., Page]) -> None:
    session = two_turns(server)
    page = visit(server, f"{session}?show=workings&panel=tree")
    loads: list[str] = []
    page.on("load", lambda _: loads.append(page.url))
    field(page).fill("half a thought")
    continue_here(page, "The first answer.")
    moved_to_one(page)
    expect(page.locator("#panel [aria-current]")).to_contain_text("The first answer.")
    expect(field(page)).to_have_value("half a thought")
    expect(page.locator("#branches")).to_be_empty()
    send(page, "another way")
    expect(said(page)).to_have_text(["one", "another way"])
    expect(answers(page)).to_have_text(["The first answer.", "The second answer."])
    settled(page)
    expect(page.locator("#moved")).to_be_empty()
    expect(page.locator("#branches")).to_have_text("2 branches")
    expect(page.locator("#panel .forks")).to_have_text("2 branches begin here")
    assert loads == []
    asked = entries(server, session, "user")
    assert asked[1]["parentId"] == entries(server, session, "assistant")[0]["id"]
    page.get_by_role("link", name="2 branches").click()
    page.wait_for_url("**/tree", wait_until="load")
    page.locator("#panel li", has_text="two").locator("xpath=following-sibling::li[1]").locator("a.open").click()
    page.locator("#node").get_by_role("button", name="Continue here").click()
    page.wait_for_url("**/sessions/*#*", wait_until="load")
    expect(said(page)).to_have_text(["one", "two"])


def test_a_move_can_be_undone(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, f"{two_turns(server)}?show=workings&panel=tree")
    continue_here(page, "The first answer.")
    moved_to_one(page)
    page.locator("#moved").get_by_role("button", name="Undo").click()
    expect(said(page)).to_have_text(["one", "two"])
    expect(page.locator("#moved")).to_be_empty()
    continue_here(page, "Start")
    expect(page.locator("#moved")).to_contain_text("You went back to the start.")
    expect(said(page)).to_have_count(0)
    page.locator("#moved").get_by_role("button", name="Undo").click()
    expect(said(page)).to_have_text(["one", "two"])


def test_a_node_of_the_tree_page_moves_the_open_lesson(server: Server, visit: Callable[..., Page]) -> None:
    session = two_turns(server)
    page = visit(server, f"{session}/tree")
    lesson, tree = page.context.new_page(), page.context.new_page()
    lesson.goto(session)
    tree.goto(f"{session}/tree")
    opened(page, "The first answer.").get_by_role("button", name="Continue here").click()
    moved_to_one(page)
    moved_to_one(lesson)
    expect(tree.locator("#panel li[aria-current]")).to_contain_text("The first answer.")


@pytest.mark.parametrize("place", ["?show=workings&panel=tree", "/tree"])
def test_asking_differently_puts_the_old_text_into_the_composer(
    server: Server, visit: Callable[..., Page], place: str
) -> None:
    session = two_turns(server)
    page = visit(server, session + place)
    node = page.locator("#panel .nodes > li", has=page.locator("a", has_text="two"))
    if place == "/tree":
        node = opened(page, "two")
    node.get_by_role("button", name="Ask this differently").click()
    page.wait_for_url("**/sessions/*?edit=*", wait_until="load")
    expect(field(page)).to_have_value("two")
    moved_to_one(page)
    send(page, "two, but in a picture")
    expect(said(page)).to_have_text(["one", "two, but in a picture"])
    expect(page.locator("#branches")).to_have_text("2 branches")
    settled(page)
    # What has been sent does not come back into the field.
    page.reload()
    expect(said(page)).to_have_count(2)
    expect(field(page)).to_have_value("")


def test_a_branch_made_elsewhere_changes_the_open_pages(server: Server, visit: Callable[..., Page]) -> None:
    session = two_turns(server)
    page = visit(server, session)
    tree = page.context.new_page()
    tree.goto(f"{session}/tree")
    field(page).fill("half a thought")
    first = entries(server, session, "assistant")[0]["id"]
    body = {"sessionId": session.rpartition("/")[2], "leafId": first}
    assert server.post("/api/branch", body).status == 200
    moved_to_one(page)
    expect(tree.locator("#panel li[aria-current]")).to_contain_text("The first answer.")
    expect(field(page)).to_have_value("half a thought")
    send(page, "another way")
    expect(said(page)).to_have_text(["one", "another way"])
    settled(page)
    expect(tree.locator("#panel .forks")).to_have_text("2 branches begin here")
