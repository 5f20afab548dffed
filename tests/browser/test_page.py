"""What a person does on the plain page: send, watch, stop, queue, reload, come back after a crash."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.server import running_server

pytestmark = pytest.mark.browser

LOOK = {
    "text": "Let me look at the files, and write that down.",
    "toolCalls": [
        {"name": "list_files", "arguments": {}},
        {"name": "write_note", "arguments": {"name": "secret-plan", "content": "x"}},
    ],
    "chunk": 6,
    "delayMs": 10,
}
ANSWER = {"text": "There is a README.\n\n<script>document.title = 'run'</script> & so on.", "chunk": 8, "delayMs": 10}
SLOW = {"text": "slowly " * 1600, "chunk": 7, "delayMs": 25}


@pytest.fixture
def script(script: Callable[..., str]) -> Callable[..., str]:
    return partial(script, after=ANSWER)


def new_session(page: Page) -> None:
    """Until its scripts are there, a page's forms go the way without them; what is tested is the way with them."""
    page.get_by_role("button", name="New session").click()
    page.wait_for_url("**/sessions/*", wait_until="load")


def send(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_role("button", name="Send").click()


def settled(page: Page) -> None:
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(page.locator("[aria-busy]")).to_have_count(0)


def test_a_prompt_streams_in_and_a_reload_shows_the_same(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script(LOOK)) as server:
        page = visit(server)
        assert "token" not in page.url
        new_session(page)
        other = page.context.new_page()
        other.goto(page.url)
        send(page, "What is here?")
        expect(page.locator(".message.user")).to_have_text("What is here?")
        expect(page.locator(".call.done")).to_contain_text("list_files")
        expect(page.locator(".call.failed")).to_contain_text("secret-plan")
        expect(page.locator(".message.assistant").nth(1)).to_contain_text(
            "<script>document.title = 'run'</script> & so on."
        )
        settled(page)
        expect(page.get_by_label("Your message")).to_have_value("")
        settled(other)
        shown = page.locator("#transcript").inner_text()
        expect(other.locator("#transcript")).to_have_text(page.locator("#transcript").text_content() or "")
        page.reload()
        assert page.locator("#transcript").inner_text() == shown
        assert page.title() != "run"
        assert not (workspace / "notes").exists()


def test_stop_keeps_what_was_said_and_returns_the_queue(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script(SLOW)) as server:
        page = visit(server)
        new_session(page)
        send(page, "go")
        expect(page.locator(".message.assistant")).to_contain_text("slowly slowly")
        send(page, "and then this")
        expect(page.locator(".queue")).to_contain_text("and then this")
        send(page, "and that")
        expect(page.locator(".queue li")).to_have_count(2)
        page.locator(".queue li").first.get_by_role("button", name="Remove").click()
        expect(page.locator(".queue li")).to_have_count(1)
        page.get_by_role("button", name="Stop").click()
        settled(page)
        expect(page.locator(".queue")).to_have_count(0)
        expect(page.locator(".message.assistant")).to_contain_text("Stopped here.")
        expect(page.locator(".message.assistant")).to_contain_text("slowly slowly")


def test_a_branch_made_elsewhere_changes_the_open_page(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script()) as server:
        page = visit(server)
        new_session(page)
        for text in ("one", "two"):
            send(page, text)
            expect(page.locator(".message.user").last).to_have_text(text)
            expect(page.locator(".message.assistant")).to_have_count(["one", "two"].index(text) + 1)
            settled(page)
        entries = server.get("/api/session").json["entries"]
        messages = [entry for entry in entries if entry["type"] == "message"]
        assert server.post("/api/branch", {"leafId": messages[1]["id"]}).status == 200
        expect(page.locator(".message.user")).to_have_count(1)
        send(page, "another way")
        expect(page.locator(".message.user").last).to_have_text("another way")
        settled(page)
        expect(page.locator(".message.assistant")).to_have_count(2)


def test_after_kill_9_the_page_comes_back_with_the_typed_text_and_the_run_goes_on(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    model = script(LOOK, SLOW)
    data = tmp_path / "data"
    with running_server(data=data, workspace=workspace, model=model) as server:
        page = visit(server)
        new_session(page)
        send(page, "go")
        expect(page.locator(".message.assistant").nth(1)).to_contain_text("slowly slowly")
        page.get_by_label("Your message").fill("half a thought")
        port = server.port
        server.kill()
    script(LOOK)
    with running_server(data=data, workspace=workspace, model=model, port=port):
        expect(page.get_by_role("button", name="Continue")).to_be_visible()
        expect(page.get_by_label("Your message")).to_have_value("half a thought")
        page.get_by_role("button", name="Continue").click()
        expect(page.locator(".message.assistant").last).to_contain_text("There is a README.")
        settled(page)
        expect(page.get_by_role("button", name="Continue")).to_have_count(0)
        expect(page.locator(".call")).to_have_count(2)


def test_what_is_typed_survives_a_sending_and_every_error(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script()) as server:
        page = visit(server)
        new_session(page)
        field, problem = page.get_by_label("Your message"), page.locator("#problem")
        # Held back, so that one can type while the message is on its way.
        page.route("**/prompt", lambda route: (field.press_sequentially("the next"), route.continue_()))
        send(page, "the first")
        expect(page.locator(".message.user")).to_have_text("the first")
        expect(field).to_have_value("the next")
        page.unroute("**/prompt")
        settled(page)
        send(page, "x" * 300_000)
        expect(problem).to_contain_text("larger than 256 KiB")
        expect(field).to_have_value("x" * 300_000)
        page.route("**/prompt", lambda route: route.abort())
        send(page, "into the void")
        expect(problem).to_contain_text("Not sent")
        expect(field).to_have_value("into the void")
        page.unroute("**/prompt")
        page.context.clear_cookies()
        page.get_by_role("button", name="Send").click()
        expect(problem).to_contain_text("link that Hornbook printed")
        expect(field).to_have_value("into the void")


def test_a_deleted_session_says_so_on_its_open_page_and_can_be_brought_back(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script()) as server:
        page = visit(server)
        new_session(page)
        expect(page.locator("#name")).to_have_text("Session")
        session_id = page.url.rpartition("/")[2]
        server.request("PATCH", f"/api/sessions/{session_id}", {"name": "Tides"})
        expect(page.locator("#name")).to_have_text("Tides")
        server.request("DELETE", f"/api/sessions/{session_id}")
        expect(page.locator("#status")).to_contain_text("moved to the trash")
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("#name")).to_have_text("Tides")
        expect(page.locator("#status")).to_have_text("")


def test_everything_works_with_javascript_off(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script(LOOK, ANSWER, SLOW)) as server:
        page = visit(server, javascript=False, width=390)
        new_session(page)
        send(page, "What is here?")
        # The page asks again by itself while the run works.
        expect(page.locator(".message.assistant")).to_have_count(2)
        settled(page)
        expect(page.locator(".message.assistant").last).to_contain_text("There is a README.")
        send(page, "go on")
        page.get_by_role("button", name="Stop").click()
        settled(page)
        expect(page.locator(".message.assistant").last).to_contain_text("Stopped here.")
        page.goto("/")
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".message.user").first).to_have_text("What is here?")


def test_without_the_token_the_page_says_what_to_do(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script()) as server:
        page = visit(server)
        page.context.clear_cookies()
        page.goto("/")
        expect(page.get_by_role("heading")).to_contain_text("needs the link that Hornbook printed")
        assert server.token not in page.content()


def test_nothing_is_wider_than_a_narrow_screen(
    tmp_path: Path, workspace: Path, script: Callable[..., str], visit: Callable[..., Page]
) -> None:
    with running_server(data=tmp_path / "data", workspace=workspace, model=script(LOOK)) as server:
        page = visit(server, width=320)
        new_session(page)
        send(page, "a" * 300)
        expect(page.locator(".call")).to_have_count(2)
        settled(page)
        box = page.locator("main").bounding_box()
        assert box and box["width"] <= 320
        page.mouse.wheel(1000, 0)
        heading = page.locator(".brand").bounding_box()
        assert heading and heading["x"] >= 0
