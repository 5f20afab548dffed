"""Writing to the tutor: what sends and what does not, what waits, what is given back; nothing typed is ever lost."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import busy_text, entries, field, grows, made, paths, said, send, settled, started, stop
from tests.server import Server

pytestmark = pytest.mark.browser

SLOW = {"chunk": 7, "delayMs": 25}
TURNS = [{"text": "slowly " * 1600, **SLOW}, {"text": "slowly " * 120, **SLOW}]


def sent_by(page: Page) -> list[str]:
    """A list that grows with each message that a page sends."""
    sent: list[str] = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.url))
    return sent


def test_enter_sends_and_shift_enter_breaks_the_line(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server))
    one_line = field(page).bounding_box()
    field(page).press("Enter")
    expect(field(page)).to_have_value("")
    field(page).press_sequentially("first")
    for line in ("second", "third", "fourth", "fifth"):
        field(page).press("Shift+Enter")
        field(page).press_sequentially(line)
    expect(field(page)).to_have_value("first\nsecond\nthird\nfourth\nfifth")
    grown = field(page).bounding_box()
    assert one_line and grown and grown["height"] > one_line["height"] + 20
    field(page).press("Enter")
    expect(said(page)).to_have_text("first\nsecond\nthird\nfourth\nfifth")
    expect(field(page)).to_have_value("")


def test_enter_does_not_send_what_is_still_composed(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server))
    sent = sent_by(page)
    enter = {"key": "Enter", "code": "Enter"}
    field(page).fill("ni hao")
    field(page).dispatch_event("compositionstart")
    field(page).dispatch_event("keydown", {**enter, "isComposing": True})
    # Some browsers say so only by the events of composition.
    field(page).dispatch_event("keydown", {**enter, "isComposing": False})
    expect(field(page)).to_have_value("ni hao")
    field(page).dispatch_event("compositionend")
    # And some end the composition before they report the key that ended it.
    field(page).dispatch_event("keydown", {**enter, "isComposing": True})
    field(page).fill("你好")
    field(page).press("Enter")
    expect(said(page)).to_have_text("你好")
    assert len(sent) == 1


def test_an_input_method_of_the_browser_composes_and_then_enter_sends(
    server: Server, visit: Callable[..., Page]
) -> None:
    page = visit(server, made(server))
    sent = sent_by(page)
    devtools = page.context.new_cdp_session(page)
    field(page).focus()
    devtools.send("Input.imeSetComposition", {"text": "nihao", "selectionStart": 5, "selectionEnd": 5})
    expect(field(page)).to_have_value("nihao")
    field(page).dispatch_event("keydown", {"key": "Enter"})
    devtools.send("Input.insertText", {"text": "你好"})
    expect(field(page)).to_have_value("你好")
    assert sent == []
    field(page).press("Enter")
    expect(said(page)).to_have_text("你好")
    assert len(sent) == 1


def test_what_is_typed_survives_a_sending_and_every_error(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server))
    problem = page.locator("#problem")
    # Held back, so that one can type while the message is on its way.
    page.route("**/prompt", lambda route: (field(page).press_sequentially("the next"), route.continue_()))
    send(page, "the first")
    expect(said(page)).to_have_text("the first")
    expect(field(page)).to_have_value("the next")
    page.unroute("**/prompt")
    send(page, "x" * 300_000)
    expect(problem).to_contain_text("larger than 256 KiB")
    expect(field(page)).to_have_value("x" * 300_000)
    page.route("**/prompt", lambda route: route.abort())
    send(page, "into the void")
    expect(problem).to_contain_text("Not sent")
    expect(field(page)).to_have_value("into the void")
    page.unroute("**/prompt")
    page.context.clear_cookies()
    page.get_by_role("button", name="Send").click()
    expect(problem).to_contain_text("link that Hornbook printed")
    expect(field(page)).to_have_value("into the void")
    page.context.add_cookies([{"name": f"hornbook-{server.port}", "value": server.token, "url": page.url}])
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".queue, .message.user .text").filter(has_text="into the void")).to_be_visible()
    expect(problem).to_be_empty()
    expect(field(page)).to_have_value("")


def test_a_message_of_spaces_is_refused_and_kept(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server))
    send(page, "   ")
    expect(page.locator("#problem")).to_have_text("Write something first.")
    expect(field(page)).to_have_value("   ")


def test_a_message_refused_while_another_is_typed_comes_back_before_it(
    server: Server, visit: Callable[..., Page]
) -> None:
    page = visit(server, made(server))
    page.route("**/prompt", lambda route: (field(page).press_sequentially("the next"), route.abort()))
    send(page, "the first")
    expect(field(page)).to_have_value("the first\n\nthe next")
    page.reload()
    expect(field(page)).to_have_value("the first\n\nthe next")


def test_messages_sent_while_the_tutor_works_wait_and_go_out_after(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server)
    page = visit(server, session)
    send(page, "stopped at once")
    stop(page)
    settled(page)
    send(page, "one")
    expect(busy_text(page)).to_contain_text("slowly slowly")
    send(page, "two")
    send(page, "three")
    expect(page.locator(".queue li")).to_have_count(2)
    expect(page.locator(".queue li").first).to_contain_text("two")
    page.locator(".queue li").first.get_by_role("button", name="Remove").click()
    expect(page.locator(".queue li")).to_have_count(1)
    expect(said(page)).to_have_text(["stopped at once", "one", "three"])
    expect(page.locator(".queue")).to_have_count(0)
    settled(page)
    assert len(entries(server, session, "user")) == 3


def test_two_quick_sends_are_two_messages_and_a_double_click_is_one(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server)
    page = visit(server, session)
    sent = sent_by(page)
    field(page).fill("one")
    page.get_by_role("button", name="Send").dblclick()
    expect(said(page)).to_have_text(["one"])
    field(page).fill("two")
    field(page).press("Enter")
    field(page).fill("three")
    field(page).press("Enter")
    expect(page.locator(".queue li")).to_have_count(2)
    expect(page.locator(".queue li").first).to_contain_text("two")
    expect(page.locator(".queue li").last).to_contain_text("three")
    assert paths(sent) == [f"{session}/prompt"] * 3


def test_stop_keeps_what_was_said_and_gives_the_queue_back(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server))
    send(page, "go")
    expect(busy_text(page)).to_contain_text("slowly slowly")
    send(page, "and then this")
    send(page, "and that")
    expect(page.locator(".queue li")).to_have_count(2)
    stop(page)
    settled(page)
    stopped = page.locator(".message.tutor")
    expect(stopped).to_contain_text("Stopped here.")
    expect(stopped).to_contain_text("slowly slowly")
    expect(page.locator(".returned li")).to_have_count(2)
    page.locator(".returned li").first.get_by_role("button", name="Remove").click()
    expect(page.locator(".returned li")).to_have_count(1)
    page.get_by_role("button", name="Send it now").click()
    expect(said(page)).to_have_text(["go", "and that"])
    expect(page.locator(".returned")).to_have_count(0)


def test_each_session_keeps_its_own_draft(server: Server, visit: Callable[..., Page]) -> None:
    first, second = made(server, "One"), made(server, "Two")
    page = visit(server, first)
    field(page).fill("for the first")
    page.goto(second)
    expect(field(page)).to_have_value("")
    field(page).fill("for the second")
    page.goto(first)
    expect(field(page)).to_have_value("for the first")
    page.goto(second)
    expect(field(page)).to_have_value("for the second")


def test_back_after_sending_shows_the_present_state(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server)
    page = visit(server)
    page.goto(session)
    send(page, "go")
    expect(busy_text(page)).to_contain_text("slowly slowly")
    page.goto("/files/")
    page.go_back(wait_until="load")
    expect(said(page)).to_have_text("go")
    grows(busy_text(page))
    expect(field(page)).to_have_value("")
    page.go_back(wait_until="load")
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    page.go_forward(wait_until="load")
    expect(said(page)).to_have_text("go")


def test_a_way_to_begin_is_sent_with_one_press(server: Server, visit: Callable[..., Page]) -> None:
    page = visit(server, made(server))
    page.get_by_role("button", name="List the files").click()
    expect(said(page)).to_have_text("List the files")
    expect(page.get_by_text("begin with one of these")).to_be_hidden()


def test_an_idle_tab_shows_what_was_sent_in_another_program(server: Server, visit: Callable[..., Page]) -> None:
    session = made(server)
    page = visit(server, session)
    started(server, session, "from a program", "and behind it")
    expect(said(page).first).to_have_text("from a program")
    expect(page.locator(".queue")).to_contain_text("and behind it")
