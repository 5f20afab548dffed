"""The session tree as a person uses it: branch, name, search, fold, leave with a summary, copy, export, import."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.page import answers, entries, field, made, said, send, settled
from tests.server import Server

pytestmark = pytest.mark.browser

TURNS = [{"text": "A pivot is a first entry."}]
AFTER = {"text": "Said another way."}


def row(page: Page, words: str) -> Locator:
    return page.locator("#panel .nodes li", has=page.locator("a.open", has_text=words))


def opened(page: Page, words: str) -> Locator:
    page.locator("#panel .nodes a.open", has_text=words).first.click()
    node = page.locator("#node")
    expect(node).to_contain_text(words)
    return node


def name_it(page: Page, words: str, name: str) -> None:
    node = opened(page, words)
    node.get_by_label("Name of this point").fill(name)
    node.get_by_role("button", name="Save").click()
    expect(row(page, words).locator(".label")).to_have_text(name)


def continue_from(page: Page, session: str, words: str, choice: str = "") -> None:
    page.goto(f"{session}/tree")
    node = opened(page, words)
    if choice:
        node.get_by_label(choice).check()
    node.get_by_role("button", name="Continue here").click()
    page.wait_for_url(re.compile(r"/sessions/[^/]+(\?.*)?#"), wait_until="load")


def test_two_ways_from_one_question_named_found_folded_left_copied_exported_and_imported(
    server: Server, visit: Callable[..., Page], tmp_path: Path
) -> None:
    session = made(server, "Rank", "What is a pivot?")
    page = visit(server, session)
    send(page, "by determinants")
    settled(page)
    continue_from(page, session, "A pivot is a first entry.")
    send(page, "with a picture")
    settled(page)
    expect(page.locator("#branches")).to_have_text("2 branches")

    # Names, search, folds.
    page.goto(f"{session}/tree")
    name_it(page, "by determinants", "first way")
    name_it(page, "with a picture", "second way")
    page.get_by_label("Find in the tree").fill("SECOND picture")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("#panel .nodes > li")).to_have_count(1)
    expect(page.locator("#panel mark")).to_have_text(["picture"])
    page.get_by_role("link", name="Show the tree again").click()
    expect(row(page, "by determinants")).to_be_visible()
    page.locator("#panel .fold").first.click()
    expect(page.locator("#panel .fold").first).to_have_text(re.compile(r"unfold \d rows?"))
    expect(page.locator("#panel .nodes > li", has_text="end of this branch")).to_have_count(0)
    page.get_by_role("link", name="With a name").click()
    expect(page.locator("#panel .label")).to_have_text(["first way", "second way"])

    # Beside each other.
    page.goto(f"{session}/tree")
    opened(page, "by determinants").get_by_role("link", name="Compare").click()
    expect(page.locator(".sides section > h2")).to_have_text(["second way", "first way"])

    # Leaving with a summary: the note stands where the lesson goes on.
    continue_from(page, session, "by determinants", "summarise for the tutor")
    expect(page.locator("#transcript article.summary summary")).to_have_text("Summary of the other way, which you left")
    expect(said(page)).to_have_text(["What is a pivot?", "by determinants"])
    assert server.get(f"/api{session}").json["branches"] == 3
    page.locator("#moved").get_by_role("button", name="Undo").click()
    expect(said(page)).to_have_text(["What is a pivot?", "with a picture"])

    # A copy of its own.
    page.goto(f"{session}/tree")
    opened(page, "by determinants").get_by_role("button", name="Copy into a new session").click()
    page.wait_for_url(re.compile(r"/sessions/(?!" + session.rpartition("/")[2] + ")"), wait_until="load")
    expect(said(page)).to_have_text(["What is a pivot?", "by determinants"])
    send(page, "on its own")
    settled(page)
    assert len(entries(server, session, "user")) == 3

    # Export the whole session, and import it.
    page.goto(f"{session}/export")
    page.get_by_label("the whole session").check()
    page.get_by_label("the session file itself").check()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Export").click()
    file = tmp_path / saving.value.suggested_filename
    saving.value.save_as(file)
    assert file.name == "Rank.jsonl"
    page.goto("/import")
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    expect(page.locator("main .rows li")).to_contain_text("Rank.jsonl")
    page.locator("main .rows").get_by_role("link", name="Tree").click()
    expect(page.locator("#panel .label")).to_have_text(["first way", "second way"])


def test_keys_walk_fold_and_open_the_tree_which_is_one_stop(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server, "Keys", "one", "two")
    first = entries(server, session, "assistant")[0]["id"]
    server.post("/api/branch", {"sessionId": session.rpartition("/")[2], "leafId": first})
    server.post("/api/prompt", {"sessionId": session.rpartition("/")[2], "text": "three"})
    page = visit(server, f"{session}/tree")
    tree = page.get_by_role("tree", name="Session tree")
    items = tree.get_by_role("treeitem")
    expect(items).to_have_count(7)
    assert tree.locator('[tabindex="0"]').count() == 1
    here = page.locator("li[aria-current]")
    here.focus()
    page.keyboard.press("Home")
    expect(items.first).to_be_focused()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(row(page, "two")).to_be_focused()
    expect(row(page, "two")).to_have_attribute("aria-level", "2")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#panel .fold").first).to_have_text("unfold 1 row")
    expect(row(page, "two")).to_be_focused()
    expect(row(page, "two")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#panel .fold").first).to_have_text("fold")
    page.keyboard.press("Enter")
    expect(page.locator("#node")).to_contain_text("two")
    expect(page.locator("li.open")).to_be_focused()
    page.keyboard.press("End")
    expect(items.last).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("one")
    page.keyboard.press("Escape")
    expect(page.locator("#find")).to_have_value("")
    page.keyboard.press("Escape")
    expect(tree.locator("li:focus")).to_have_count(1)


def test_the_tree_follows_what_happens_and_keeps_how_it_is_shown(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server, "Live", "one")
    page = visit(server, f"{session}/tree?filter=mine")
    expect(page.locator("#panel .nodes > li")).to_have_count(2)
    server.post("/api/prompt", {"sessionId": session.rpartition("/")[2], "text": "two"})
    expect(page.locator("#panel .nodes a.open")).to_have_text(["one", "two"])
    expect(page.locator("#panel .choice [aria-current]")).to_have_text("Only mine")


def test_what_is_being_typed_stays_while_the_tree_grows_and_goes_with_its_row(
    server: Server, visit: Callable[..., Page]
) -> None:
    session = made(server, "Typed", "one", "two")
    page = visit(server, f"{session}/tree")
    node = opened(page, "one")
    name, focus = node.get_by_label("Name of this point"), node.get_by_label("What matters most")
    node.get_by_label("summarise with this in mind:").check()
    focus.fill("numbers")
    name.fill("half a na")
    server.post("/api/prompt", {"sessionId": session.rpartition("/")[2], "text": "three"})
    expect(row(page, "three")).to_have_count(1)
    expect(row(page, "three").last).to_be_visible()
    expect(name).to_be_focused()
    expect(name).to_have_value("half a na")
    expect(focus).to_have_value("numbers")
    expect(node.get_by_label("summarise with this in mind:")).to_be_checked()
    opened(page, "two")
    expect(name).to_have_value("")
    expect(focus).to_have_value("")
    expect(node.get_by_label("leave as it is")).to_be_checked()


def test_a_single_key_does_nothing_where_such_keys_are_off(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, f"{made(server, 'Off', 'one')}/tree?keys=off")
    first = page.get_by_role("treeitem").first
    first.focus()
    page.keyboard.press("/")
    expect(first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("treeitem").nth(1)).to_be_focused()


def test_earlier_messages_come_on_scrolling_up_and_what_is_read_stays_in_place(
    server: Server, visit: Callable[..., Page], tmp_path: Path
) -> None:
    lines = ['{"type":"session","version":3,"id":"long-one","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/"}']
    for number in range(160):
        above = f'"m{number - 1}"' if number else "null"
        message = f'{{"role":"user","content":"line {number}. {"word " * 60}","timestamp":1}}'
        lines.append(
            f'{{"type":"message","id":"m{number}","parentId":{above},"timestamp":"2026-01-02T03:04:05.678Z",'
            f'"message":{message}}}'
        )
    file = tmp_path / "long.jsonl"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    page = visit(server, "/import")
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    page.locator("main .rows li a").first.click()
    page.wait_for_url("**/sessions/long-one*", wait_until="load")
    expect(said(page)).to_have_count(50)
    first = page.locator("#m-m110")
    first.scroll_into_view_if_needed()
    page.mouse.move(400, 300)
    page.mouse.wheel(0, -120)
    expect(said(page)).to_have_count(100)
    expect(page.locator("#new-text")).to_be_hidden()
    expect(first).to_be_in_viewport()
    page.locator(".earlier a").click()
    expect(said(page)).to_have_count(150)
    send(page, "and on")
    settled(page)
    expect(said(page)).to_have_count(151)
    expect(answers(page)).to_have_count(1)


def test_the_tree_works_by_links_and_forms_alone(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server, "Plain", "one", "two")
    page = visit(server, f"{session}/tree", javascript=False)
    name_it(page, "one", "the first")
    page.get_by_label("Find in the tree").fill("first")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("#panel .nodes a.open")).to_have_text(["one", "A pivot is a first entry."])
    page.get_by_role("link", name="Show the tree again").click()
    node = opened(page, "one")
    node.get_by_label("summarise with this in mind:").check()
    node.get_by_label("What matters most").fill("numbers")
    node.get_by_role("button", name="Continue here").click()
    page.goto(f"{session}")
    expect(page.locator("#transcript article.summary")).to_have_count(1)
    expect(field(page)).to_be_visible()
