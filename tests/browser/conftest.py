"""A chromium for the tests, a server for each module, and pages that came by the printed link."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.conftest import README
from tests.server import Server, running_server

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


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of course material that the tests of a module share; a module that needs more has its own."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "README.md").write_text(README, "utf-8")
    return folder


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, study: Path) -> Iterator[Server]:
    """A server that the tests of a module share. Its model plays the module's TURNS, and then its AFTER."""
    folder = tmp_path_factory.mktemp("server")
    script = folder / "script.json"
    played = {"turns": request.module.TURNS, "after": getattr(request.module, "AFTER", {"text": "So it is."})}
    script.write_text(json.dumps({"name": "Scripted", **played}), "utf-8")
    with running_server(data=folder / "data", workspace=study, model=f"script:{script}") as running:
        yield running


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of a server by its link; an error in a script or a breach of the policy fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def go(server: Server, path: str = "/", *, javascript: bool = True, width: int = 1280, height: int = 800) -> Page:
        context = browser.new_context(
            java_script_enabled=javascript,
            viewport={"width": width, "height": height},
            base_url=server.link.split("?")[0],
        )
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on("console", lambda message: POLICY in message.text and complaints.append(message.text))
        page = context.new_page()
        joint = "&" if "?" in path else "?"
        page.goto(f"{path}{joint}token={server.token}")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
