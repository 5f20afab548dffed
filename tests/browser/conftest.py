"""A chromium for the tests, and pages that came by the printed link."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.server import Server

TIMEOUT_MS = 15_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed; `make test` installs it or leaves these tests out"
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        opened = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the first page of a server by its link; complaints of the page (scripts, CSP) fail the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def go(server: Server, *, javascript: bool = True, width: int = 1280) -> Page:
        context = browser.new_context(
            java_script_enabled=javascript, viewport={"width": width, "height": 800}, base_url=server.link.split("?")[0]
        )
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page = context.new_page()
        page.goto(server.link)
        return page

    yield go
    for context in contexts:
        context.close()
    # A server that is killed on purpose breaks the stream: the page says so in the console and comes back.
    expected = ("net::ERR_", "htmx:sse:error", "status of 401")
    assert [said for said in complaints if not any(word in said for word in expected)] == []
