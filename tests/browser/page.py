"""What tests of pages do again and again: open a lesson, send, watch text grow, wait for the end.

Each test has a session of its own on a server that its module shares. Nothing waits for time to pass.
"""

import re
from collections.abc import Iterable
from difflib import unified_diff
from typing import Any

from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Locator, Page, expect

from tests.server import Server

BUSY = ".message.tutor[aria-busy]"

GROWS = """(element, count) => new Promise((done, fail) => {
  const length = () => document.getElementById(element.id).textContent.length;
  const before = length();
  const watch = new MutationObserver(() => {
    if (length() >= before + count) {
      watch.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => done(length())));
    } else if (!document.querySelector("[aria-busy]")) {
      watch.disconnect();
      fail(new Error("nothing is written any more"));
    }
  });
  watch.observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
})"""

OF_HTMX = ("hx-swap-oob", "data-htmx-powered", "open")
"""Attributes that say how a piece came into the page, or what a reader has opened, not what it is."""


def new_session(page: Page) -> None:
    """Until its scripts are there, a page's forms go the way without them; what is tested is the way with them."""
    page.get_by_role("button", name="New session").click()
    page.wait_for_url("**/sessions/*", wait_until="load")


def made(server: Server, name: str = "", *texts: str) -> str:
    """Returns the address of a new session in which ``texts`` have been sent and answered."""
    session_id = server.post("/api/sessions", {"name": name}).json["sessionId"]
    for text in texts:
        answer = server.post("/api/prompt", {"sessionId": session_id, "text": text})
        assert answer.status == 200, answer.text
    return f"/sessions/{session_id}"


def started(server: Server, session: str, text: str, *queued: str) -> None:
    """Sends a message without waiting for its answer, and others behind it."""
    for message in (text, *queued):
        body = {"sessionId": session.rpartition("/")[2], "text": message, "queue": True}
        assert server.post("/api/runs", body).status in (201, 202)


def stopped(server: Server, session: str) -> None:
    """Stops what works in a session without touching its pages."""
    run_id = server.get(f"/api{session}").json["runId"]
    assert server.post(f"/api/runs/{run_id}/abort").json["status"] == "aborted"


def entries(server: Server, session: str, kind: str = "") -> list[dict[str, Any]]:
    """Returns the messages of a session in the order of its file; ``kind`` is a role."""
    found = server.get(f"/api/session?sessionId={session.rpartition('/')[2]}").json["entries"]
    return [e for e in found if e["type"] == "message" and (not kind or e["message"]["role"] == kind)]


def field(page: Page) -> Locator:
    return page.get_by_label("Your message")


def send(page: Page, text: str) -> None:
    field(page).fill(text)
    page.get_by_role("button", name="Send").click()


def said(page: Page) -> Locator:
    """What the learner has said, as it stands in the transcript."""
    return page.locator(".message.user .text")


def answers(page: Page) -> Locator:
    """What the tutor has said, as it stands in the transcript."""
    return page.locator(".message.tutor .prose")


def settled(page: Page) -> None:
    expect(page.locator('#status[data-state="idle"]')).to_have_count(1)
    expect(page.locator("[aria-busy]")).to_have_count(0)


def stop(page: Page) -> None:
    page.get_by_role("button", name="Stop").click()


def grows(element: Locator, count: int = 40) -> int:
    """Waits until an element has so many characters more and has been drawn; returns how many it then has."""
    length: int = element.evaluate(GROWS, count)
    return length


def busy_text(page: Page) -> Locator:
    """The text that is being written, found again when its element is replaced."""
    return page.locator(f"{BUSY} .prose")


def plain_html(html: str) -> str:
    """Returns HTML, a line a tag, with its white space evened out and without what htmx leaves on elements."""
    soup = BeautifulSoup(html, "html.parser")
    for tag in soup.find_all(True):
        assert isinstance(tag, Tag)
        for name in OF_HTMX:
            tag.attrs.pop(name, None)
    return re.sub(r"\s*(<[^>]*>)\s*", r"\n\1\n", re.sub(r"\s+", " ", str(soup)))


def shown_html(page: Page, *places: str) -> str:
    """Returns what stands in these places of a page as plain HTML; the transcript when none is named."""
    return "\n".join(plain_html(page.locator(place).inner_html()) for place in places or ("#transcript",))


def assert_same(page: Page, other: Page, *places: str) -> None:
    """Fails with the lines in which two pages differ."""
    ours, theirs = (shown_html(tab, *places).split("\n") for tab in (page, other))
    difference = "\n".join(unified_diff(ours, theirs, lineterm="", n=2))
    assert not difference, difference


def top_of(element: Locator) -> float:
    """Returns where an element stands in the window, in pixels from its top."""
    box = element.bounding_box()
    assert box is not None
    return box["y"]


def widest(page: Page) -> float:
    """Returns how many pixels of width a page takes."""
    width: float = page.evaluate("document.documentElement.scrollWidth")
    return width


def paths(addresses: Iterable[str]) -> list[str]:
    """Returns addresses without their host."""
    return [re.sub(r"^https?://[^/]+", "", address) for address in addresses]
