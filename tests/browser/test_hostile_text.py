"""Hostile texts in a real browser: nothing runs, nothing is loaded, nothing lies over the page.

Once under our content security policy, and once without it, so that the renderer stands alone. Texts that become more
than ``LONGEST`` characters of HTML are left to the unit tests: there is only more of the same in them.
"""

import html
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route

from app.render.markdown import render_markdown
from app.web.security import HEADERS
from tests.hostile import HOSTILE, RUN, SENTINEL

pytestmark = pytest.mark.browser

STATIC = Path(__file__).resolve().parents[2] / "static"
FILES = {"/app.css": "text/css", "/math.css": "text/css", "/vendor/latinmodern-math.woff2": "font/woff2"}
LONGEST = 10_000
TITLE = "Hostile texts"
A_PAGE = 45
EVERY = 12
"""Three pages of texts from all over the corpus each time; all of them in `make test-long`."""
MARKERS_COVERED = """() => [...document.querySelectorAll('button.marker')].filter(marker => {
    marker.scrollIntoView({block: 'center'});
    const box = marker.getBoundingClientRect();
    return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) !== marker;
}).map(marker => marker.textContent)"""
CLICK_ALL = """async () => {
    // A way to the web is what a link may be; all else takes its course.
    const web = ['http:', 'https:', 'mailto:'];
    window.onclick = event => { if (web.includes(event.target.closest('a')?.protocol)) event.preventDefault(); };
    const links = [...document.querySelectorAll('a, math [href]')];
    for (const link of links) {
        link.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true, view: window}));
        await new Promise(done => setTimeout(done));
    }
    return links.length;
}"""
LETTERS = """() => {
    const found = [], range = document.createRange();
    const walk = document.createTreeWalker(document.querySelector('main p'), NodeFilter.SHOW_TEXT);
    while (walk.nextNode())
        for (let at = 0; at < walk.currentNode.length; at++) {
            range.setStart(walk.currentNode, at);
            range.setEnd(walk.currentNode, at + 1);
            found.push([walk.currentNode.data[at], range.getBoundingClientRect().x]);
        }
    return found;
}"""
TURN_OVER = """() => {
    for (const element of document.querySelectorAll('main *'))
        for (const kind of ['mouseover', 'pointerover', 'focus', 'toggle', 'animationstart', 'load', 'error'])
            element.dispatchEvent(new Event(kind));
}"""


def texts(start: int, step: int) -> list[tuple[str, str]]:
    """Returns names and HTML of a page's share: of every ``step``-th text, from ``start`` on."""
    chosen = list(HOSTILE.items())[start::step][:A_PAGE]
    shown = [(name, render_markdown(text).html) for name, text in chosen]
    return [(name, text) for name, text in shown if len(text) <= LONGEST]


def body(shown: list[tuple[str, str]]) -> str:
    pieces = [
        f'<button class="marker">{html.escape(name)}</button><div class="text">{text}</div>' for name, text in shown
    ]
    return "".join(pieces) + '<button class="marker">end</button>'


def document(inside: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>'
        '<link rel="stylesheet" href="/app.css"><link rel="stylesheet" href="/math.css"></head>'
        f"<body><main>{inside}</main></body></html>"
    )


@contextmanager
def serving(page: str, headers: dict[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind = FILES.get(self.path, "text/html")
            content = page.encode() if self.path == "/" else b""
            if self.path in FILES:
                content = (STATIC / self.path[1:]).read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Watch:
    """What a page did that it should not: requests beside its own, dialogs, pages of its own."""

    def __init__(self, page: Page, base: str) -> None:
        self.own = {f"{base}{path}" for path in ("/", "/favicon.ico", *FILES)}
        self.seen: list[str] = []
        page.on("dialog", lambda dialog: (self.seen.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("popup", lambda popup: self.seen.append("popup"))
        page.on("frameattached", lambda frame: self.seen.append(f"frame {frame.url}"))
        page.context.route("**/*", self._decide)

    def _decide(self, route: Route) -> None:
        if route.request.url in self.own:
            route.continue_()
            return
        self.seen.append(f"request {route.request.url}")
        route.fulfill(status=204)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport={"width": 1000, "height": 700})
    yield opened
    opened.close()


def wrongs(page: Page, watch: Watch, base: str) -> list[str]:
    """Returns what is wrong with the page as it stands, after its links were clicked and its events dispatched."""
    covered = page.evaluate(MARKERS_COVERED)
    page.evaluate(TURN_OVER)
    page.evaluate(CLICK_ALL)
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 20)))")
    found = [f"covered: {name}" for name in covered] + watch.seen
    if page.evaluate(f"window.{SENTINEL}") is not None:
        found.append("a script ran")
    if page.title() != TITLE or page.url.split("#")[0] != f"{base}/":
        found.append(f"moved to {page.url} {page.title()}")
    return found


def check(context: BrowserContext, chosen: list[tuple[str, str]], headers: dict[str, str]) -> None:
    shown = body(chosen)
    with serving(document(shown), headers) as base:
        page = context.new_page()
        watch = Watch(page, base)
        page.goto(base)
        assert page.locator("button.marker").count() == len(chosen) + 1
        assert wrongs(page, watch, base) == []
        page.evaluate("html => { document.querySelector('main').innerHTML = html }", shown)
        assert wrongs(page, watch, base) == []


policies = pytest.mark.parametrize("headers", [HEADERS, {}], ids=["policy", "no policy"])


@policies
@pytest.mark.parametrize("start", range(EVERY // 4))
def test_hostile_texts_do_nothing(start: int, headers: dict[str, str], context: BrowserContext) -> None:
    check(context, texts(start * 4, EVERY), headers)


@pytest.mark.long
@policies
@pytest.mark.parametrize("start", range(0, len(HOSTILE), A_PAGE))
def test_all_hostile_texts_do_nothing(start: int, headers: dict[str, str], context: BrowserContext) -> None:
    check(context, texts(start, 1), headers)


@pytest.mark.parametrize(
    "bad",
    [
        f"<script>{RUN}</script>",
        f"<img src=x onerror={RUN}>",
        f'<a href="javascript:{RUN}">go</a>',
        '<img src="https://elsewhere.invalid/a.png">',
        '<div style="position:fixed;inset:0">x</div>',
        '<iframe src="about:blank"></iframe>',
        f'<p onmouseover="{RUN}">x</p>',
        "<script>alert(1)</script>",
    ],
)
def test_the_watch_sees_what_it_is_to_see(bad: str, context: BrowserContext) -> None:
    with serving(document(body([("bad", bad)])), {}) as base:
        page = context.new_page()
        watch = Watch(page, base)
        page.goto(base)
        assert wrongs(page, watch, base) != []


def test_a_bidi_override_reorders_nothing(context: BrowserContext) -> None:
    with serving(document(render_markdown("left \u202emiddle \u2067right").html), HEADERS) as base:
        page = context.new_page()
        page.goto(base)
        letters = page.evaluate(LETTERS)
    in_place = "".join(letter for letter, _ in sorted(letters, key=lambda item: item[1]))
    assert in_place == "left U+202Emiddle U+2067right"
