"""A lesson while the tutor answers: what streams in, what a reload shows, and what other tabs see of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import answers, assert_same, busy_text, grows, made, said, send, settled, stop
from tests.server import Server

pytestmark = pytest.mark.browser

RICH = (
    "# The tide\n\nThe moon pulls at the water with $F = G m M / r^2$, **twice** a day:\n\n"
    "$$\\sum_{k=1}^{n} k = \\frac{n(n+1)}{2}$$\n\n"
    "- it rises\n- it falls, at $r \\approx 3$\n\n```python\nfor hour in range(24):\n    print(hour)\n```\n\n"
    "<script>document.title = 'run'</script> & so on.\n\n"
)
TURNS = [
    {
        "text": "Let me look at the files, and write that down.",
        "toolCalls": [
            {"name": "list_files", "arguments": {}},
            {"name": "read_file", "arguments": {"path": "README.md"}},
            {"name": "write_note", "arguments": {"name": "secret-plan", "content": "x"}},
        ],
        "chunk": 6,
        "delayMs": 5,
    },
    {"text": RICH + "And a last paragraph that takes a while. " * 6, "chunk": 8, "delayMs": 20},
    {"text": RICH + "And on and on, **always** the same, with $x^2$.\n\n" * 400, "chunk": 6, "delayMs": 20},
]
PLACES = ("#transcript", "#status", "#panel")


def test_a_prompt_streams_in_and_is_set_at_its_end(server: Server, study: Path, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server))
    assert "token" not in page.url
    send(page, "What is here?")
    expect(said(page)).to_have_text("What is here?")
    # The tools stand there while the answer is still being written.
    expect(page.locator("#transcript .call.blocked")).to_contain_text("secret-plan")
    expect(busy_text(page)).to_contain_text("The moon pulls")
    expect(page.locator('#status[data-state="running"]').get_by_role("button", name="Stop")).to_be_visible()
    assert grows(busy_text(page)) < grows(busy_text(page))
    settled(page)
    answer = answers(page).nth(1)
    expect(answer.get_by_role("heading", name="The tide")).to_be_visible()
    expect(answer.locator("strong")).to_have_text("twice")
    expect(answer.locator("math")).to_have_count(3)
    expect(answer.locator("pre code span").first).to_be_visible()
    expect(answer.locator("li")).to_have_count(2)
    expect(answer).to_contain_text("<script>document.title = 'run'</script> & so on.")
    assert page.title() != "run"
    assert not (study / "notes").exists()
    expect(page.locator("#announce")).to_have_text("The tutor has answered.")
    fresh = page.context.new_page()
    fresh.goto(page.url)
    assert_same(page, fresh, *PLACES)


@pytest.mark.parametrize("show", [pytest.param("lesson", marks=pytest.mark.long), "raw"])
def test_a_reload_in_mid_run_loses_and_repeats_nothing(server: Server, visit: Callable[..., Page], show: str) -> None:
    page = visit(server, f"{made(server, '', 'What is here?')}?show={show}")
    idle, reloaded = page.context.new_page(), page.context.new_page()
    for tab in (idle, reloaded):
        tab.goto(page.url)
    send(page, "And now?")
    expect(said(idle)).to_have_text(["What is here?", "And now?"])
    expect(busy_text(reloaded)).to_contain_text("The moon")
    reloaded.reload()
    grows(busy_text(reloaded), 200)
    reloaded.reload()
    grows(busy_text(reloaded), 200)
    stop(reloaded)
    for tab in (page, idle, reloaded):
        settled(tab)
    fresh = page.context.new_page()
    fresh.goto(page.url)
    expect(answers(fresh)).to_have_count(3)
    for tab in (page, idle, reloaded):
        # What is on the side comes a moment after the answer.
        expect(tab.locator("#panel")).to_have_text(fresh.locator("#panel").text_content() or "")
        assert_same(tab, fresh, *PLACES)


def test_the_trees_of_two_tabs_gain_their_nodes_while_the_run_goes_on(
    server: Server, visit: Callable[..., Page]
) -> None:
    page = visit(server, f"{made(server)}?show=workings&panel=tree")
    alone = page.context.new_page()
    alone.goto(page.url.partition("?")[0] + "/tree")
    send(page, "What is here?")
    for tab in (page, alone):
        # Start, the question, the first answer and the results of its three calls; the second one is not there yet.
        expect(tab.locator("#panel .nodes > li")).to_have_count(6)
        expect(tab.locator("#panel .nodes")).to_contain_text("Blocked:")
        expect(tab.locator("#panel")).to_contain_text("The tutor is working.")
    settled(page)
    for tab in (page, alone):
        expect(tab.locator("#panel .nodes > li")).to_have_count(7)
        expect(tab.locator("#panel .nodes > li").last).to_contain_text("You are here")
        expect(tab.locator("#panel")).not_to_contain_text("The tutor is working.")
