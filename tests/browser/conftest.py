"""A chromium for the tests, and pages that came by the printed link."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.server import Server

TIMEOUT_MS = 15_000
POLICY = "Content Security Policy"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed; `make test` installs it or leaves these tests out"
    # Playwright's own 5 s are short where both cores are busy; what never comes fails all the same.
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        opened = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the first page of a server by its link; an error in a script or a breach of the policy fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def go(server: Server, *, javascript: bool = True, width: int = 1280) -> Page:
        context = browser.new_context(
            java_script_enabled=javascript, viewport={"width": width, "height": 800}, base_url=server.link.split("?")[0]
        )
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on("console", lambda message: POLICY in message.text and complaints.append(message.text))
        page = context.new_page()
        page.goto(server.link)
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
