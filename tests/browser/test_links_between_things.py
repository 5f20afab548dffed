"""A message, a tool row, a row of the timeline and a node of the tree that are the same thing lead to each other."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.page import entries, made
from tests.server import Server

pytestmark = pytest.mark.browser

TURNS = [
    {
        "text": "Looking.",
        "toolCalls": [
            {"name": "read_file", "arguments": {"path": "README.md"}},
            {"name": "write_note", "arguments": {"name": "secret-plan", "content": "x"}},
        ],
    },
    {"text": "There is a README."},
]


@pytest.fixture(scope="module")
def lesson(server: Server) -> str:
    return made(server, "Tides", "What is here?")


def arrived(page: Page, path: str, wanted: Locator) -> None:
    """The page is at ``path``, and what its address names is there once, in view, and is what was wanted."""
    page.wait_for_load_state("load")
    assert page.url.partition("#")[0].partition("?")[0].endswith(path), page.url
    target = page.locator(f'[id="{page.url.partition("#")[2]}"]')
    expect(target).to_have_count(1)
    expect(target).to_be_in_viewport()
    expect(page.locator(":target").and_(wanted)).to_have_count(1)


def test_beside_the_text_message_and_turn_of_the_timeline_lead_to_each_other(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, f"{lesson}?show=workings&panel=timeline", height=300)
    first = page.locator(".message.tutor").first
    number = first.locator(".margin a")
    expect(number).to_have_text("1")
    turn = page.locator("#panel article.turn", has_text="Turn 1")
    number.click()
    arrived(page, lesson, turn)
    turn.get_by_role("link", name="Turn 1").first.click()
    arrived(page, lesson, first)
    first.locator("> .said > .links").get_by_role("link", name="timeline").click()
    arrived(page, lesson, turn)


def test_beside_the_text_tool_row_and_row_of_the_timeline_lead_to_each_other(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, f"{lesson}?show=workings&panel=timeline", height=300)
    for place, name in enumerate(("read_file", "write_note"), 1):
        row = page.locator(f"#transcript #c-script-1-{place}")
        step = page.locator("#panel .steps li.call", has_text=name)
        row.locator("summary").click()
        row.get_by_role("link", name="timeline").click()
        arrived(page, lesson, step)
        step.get_by_role("link", name=name).first.click()
        arrived(page, lesson, row)


def test_beside_the_text_tool_row_message_and_node_lead_to_each_other(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, f"{lesson}?show=workings&panel=tree", height=300)
    row = page.locator("#transcript #c-script-1-1")
    node = page.locator("#panel .nodes li.tool", has_text="read_file")
    row.locator("summary").click()
    row.get_by_role("link", name="tree").click()
    arrived(page, lesson, node)
    node.get_by_role("link").first.click()
    arrived(page, lesson, row)
    for message, words in (
        (page.locator(".message.user"), "What is here?"),
        (page.locator(".message.tutor").last, "There is"),
    ):
        node = page.locator("#panel .nodes > li", has_text=words)
        message.locator("> .said > .links").get_by_role("link", name="tree").click()
        arrived(page, lesson, node)
        node.get_by_role("link").first.click()
        arrived(page, lesson, message)


def test_from_page_to_page_each_link_arrives_at_the_same_thing(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, f"{lesson}/workings?show=workings", height=300)
    step = page.locator("#panel .steps li.call", has_text="read_file")
    node = page.locator("#panel .nodes li.tool", has_text="read_file")
    row = page.locator("#transcript #c-script-1-1")
    step.get_by_role("link", name="tree").click()
    arrived(page, f"{lesson}/tree", node)
    page.locator("#node").get_by_role("link", name="In the lesson").click()
    arrived(page, lesson, row)
    # With the timeline beside it, the lesson's own panel is what its rows lead to, the tree is a page of its own.
    row.locator("summary").click()
    row.get_by_role("link", name="tree").click()
    arrived(page, f"{lesson}/tree", node)
    page.goto(f"{lesson}?panel=tree")
    row.locator("summary").click()
    row.get_by_role("link", name="timeline").click()
    arrived(page, f"{lesson}/workings", step)
    step.get_by_role("link", name="read_file").first.click()
    arrived(page, lesson, row)


def test_in_a_lesson_the_step_of_a_folded_line_is_found_from_the_tree(
    server: Server, visit: Callable[..., Page], lesson: str
) -> None:
    page = visit(server, f"{lesson}/tree?show=lesson")
    page.locator("#panel summary", has_text="steps").click()
    page.locator("#panel li.tool", has_text="read_file").locator("a.open").click()
    expect(page.locator("#node")).to_contain_text("read_file")
    page.locator("#node").get_by_role("link", name="In the lesson").click()
    row = page.locator("#transcript #c-script-1-1")
    arrived(page, lesson, row)
    expect(row).to_be_visible()


def test_a_rule_leads_to_its_words(server: Server, visit: Callable[..., Page], lesson: str) -> None:
    page = visit(server, f"{lesson}?show=workings")
    page.get_by_role("link", name="rule secret-notes").click()
    arrived(page, f"{lesson}/tools", page.locator("#rule-secret-notes"))


def test_raw_leads_to_each_entry_and_back(server: Server, visit: Callable[..., Page], lesson: str) -> None:
    page = visit(server, f"{lesson}?show=raw")
    for entry in entries(server, lesson):
        if entry["message"]["role"] == "toolResult":
            continue
        page.goto(f"{lesson}#m-{entry['id']}")
        page.get_by_role("link", name=f"entry {entry['id']}").click()
        expect(page.locator("main pre")).to_contain_text(f'"id": "{entry["id"]}"')
        page.get_by_role("link", name="In the tree").click()
        arrived(page, f"{lesson}/tree", page.locator(f"#n-{entry['id']}"))
