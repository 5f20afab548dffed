"""The states of the pages that are worth looking at, and how a browser gets to each.

Photographed by tests/screenshots.py, checked by tests/browser/test_accessibility.py. Each is reached on a real server
and can be reached again, in another width, theme or language, in any order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, Page

from tests.server import Server
from tests.stage import STREAMED_END, Stage

WIDTHS = (320, 390, 1280)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LANGUAGES = ("en", "zh")
HEIGHTS = {320: 640, 390: 844, 1280: 800}
TIMEOUT_MS = 20_000

Action = Callable[[Page, Stage], None]


def nothing(page: Page, stage: Stage) -> None:
    """Does nothing: the page shows the state when it is there."""


@dataclass(frozen=True)
class State:
    """A state: the ``server`` and ``path`` where it is, ``{name}`` in it standing for an id of the stage.

    ``act`` is done when the page is there, ``undo`` when it is done with. ``wait`` is a selector of Playwright's that
    matches something visible once the state is reached. ``status`` is the answer's, of the last page loaded. A
    ``twin`` is so much like another state that only the long tests check it.
    """

    name: str
    path: str
    wait: str
    act: Action = nothing
    undo: Action = nothing
    server: Literal["main", "first", "reader"] = "main"
    status: int = 200
    javascript: bool = True
    signed_in: bool = True
    twin: bool = False


@dataclass
class Shown:
    """A page that shows a state. ``said`` is what scripts and browser wrote to the console, a line each."""

    page: Page
    said: list[str] = field(default_factory=list)


def delete_elsewhere(page: Page, stage: Stage) -> None:
    stage.main.request("DELETE", f"/api/sessions/{stage.names['deleted']}")


def restore(page: Page, stage: Stage) -> None:
    stage.main.post(f"/api/sessions/{stage.names['deleted']}/restore")


def send_nothing(page: Page, stage: Stage) -> None:
    # A space: an empty field would not be sent, since it is required.
    page.locator("#composer textarea").fill(" ")
    page.locator("#composer button").click()


def open_menu(page: Page, stage: Stage) -> None:
    page.locator("header details.menu > summary").click()


def open_all(page: Page, stage: Stage) -> None:
    page.evaluate("for (const each of document.querySelectorAll('main details')) if (!each.name) each.open = true")


def lose_the_server(page: Page, stage: Stage) -> None:
    """What the stream's script says when the server does not answer; the server itself is needed by others."""
    page.evaluate("document.dispatchEvent(new CustomEvent('htmx:sse:error'))")


LESSON = "#transcript math"
"""Once the mathematics of its answer stands there, a lesson is there."""
WORKING = f"#transcript >> text={STREAMED_END}"
CONTINUE = "#status form[action$='/continue'] button"
PANEL = "#panel"

STATES: tuple[State, ...] = (
    State("first-visit", "/", "#main form button", server="first"),
    State("first-page", "/", "#sessions"),
    State("first-page-dark-by-choice", "/?theme=dark", "html[data-theme=dark] #sessions", twin=True),
    State("session-empty", "/sessions/{empty}?show=lesson", "section.start button"),
    State("lesson", "/sessions/{lesson}?show=lesson", LESSON),
    State("lesson-opened", "/sessions/{lesson}?show=lesson", LESSON, act=open_all),
    State("guarded", "/sessions/{guarded}?show=lesson", "#transcript .blocked"),
    State("failed", "/sessions/{failed}?show=lesson", "#transcript .note"),
    State("streaming", "/sessions/{streaming}?show=lesson", WORKING),
    State("streaming-workings", "/sessions/{streaming}?show=workings", WORKING, twin=True),
    State("queued", "/sessions/{queued}?show=lesson", "#status .queue li:nth-child(2)"),
    State("returned", "/sessions/{returned}?show=lesson", "#status .returned li:nth-child(2)", twin=True),
    State("interrupted", "/sessions/{interrupted}?show=lesson", CONTINUE),
    State("moved", "/sessions/{moved}?show=lesson", "#moved form button", twin=True),
    State(
        "deleted",
        "/sessions/{deleted}?show=lesson",
        "#status form[action$='/restore'] button",
        act=delete_elsewhere,
        undo=restore,
    ),
    State("server-gone", "/sessions/{empty}?show=lesson", "#gone", act=lose_the_server),
    State("read-only", "/sessions/{lesson}?show=lesson", "#main .notice", server="reader"),
    State("workings-timeline", "/sessions/{lesson}?show=workings&panel=timeline", PANEL),
    State("workings-tree", "/sessions/{tree}?show=workings&panel=tree", PANEL),
    State(
        "workings-guarded-opened", "/sessions/{guarded}?show=workings&panel=timeline", PANEL, act=open_all, twin=True
    ),
    State("raw-tools", "/sessions/{guarded}?show=raw&panel=tools", PANEL),
    State("raw-opened", "/sessions/{lesson}?show=raw&panel=timeline", PANEL, act=open_all, twin=True),
    State("timeline-page", "/sessions/{lesson}/workings?show=workings", PANEL, twin=True),
    State("tree-page", "/sessions/{tree}/tree?show=lesson", PANEL),
    State("tree-page-node", "/sessions/{tree}/tree?show=lesson&node={tree_node}", "#node"),
    State("tree-page-found", "/sessions/{tree}/tree?show=lesson&find=pivot", "#panel [role=status]", twin=True),
    State("compare", "/sessions/{tree}/compare?a={tree_leaf}&b={tree_node}", ".sides section"),
    State("summed", "/sessions/{summed}?show=lesson", "article.summary"),
    State("summed-workings", "/sessions/{summed}?show=workings", "article.summary", twin=True),
    State("export", "/sessions/{lesson}/export", "form.export"),
    State("import", "/import", "#file"),
    State("trash", "/trash", "#main h1", twin=True),
    State("tree-page-opened", "/sessions/{tree}/tree?show=workings", PANEL, act=open_all),
    State("tools-page", "/sessions/{lesson}/tools?show=workings", PANEL),
    State("entry-page", "/sessions/{lesson}/entries/{answer}", "#main pre"),
    State("files", "/files/linear-algebra", "#main li a"),
    State("file-markdown", "/files/linear-algebra/2-rank.md", "#main math"),
    State("file-source", "/files/linear-algebra/eliminate.py?lines=9-12", "#main .marked", twin=True),
    State("file-picture", "/files/linear-algebra/wave.png", "#main img", twin=True),
    State("file-unreadable", "/files/linear-algebra/measured.bin", "#main p"),
    State("course", "/courses/linear-algebra", "#main ol li"),
    State("menu-open", "/sessions/{lesson}?show=lesson", "header details.menu[open] a", act=open_menu),
    State("unauthorised", "/", "#main h1", status=401, signed_in=False),
    State("not-found", "/files/linear-algebra/nowhere.md", "#main h1", status=404),
    State(
        "form-error",
        "/sessions/{lesson}?show=lesson",
        "#problem:not(:empty)",
        act=send_nothing,
        status=422,
        javascript=False,
    ),
)


@contextmanager
def shown(
    browser: Browser,
    stage: Stage,
    state: State,
    *,
    width: int = 1280,
    scheme: Literal["light", "dark"] = "light",
    lang: str = "en",
    scripted: bool = False,
) -> Iterator[Shown]:
    """Yields a page of a new browser context that shows ``state``; fails when the state is not reached.

    With ``scripted`` the caller's own scripts run in every page: one that is to do without JavaScript has its own
    scripts emptied then, instead of JavaScript switched off.
    """
    server: Server = getattr(stage, state.server)
    origin = f"http://{server.host}:{server.port}"
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHTS.get(width, 800)},
        color_scheme=scheme,
        locale={"zh": "zh-CN"}.get(lang, "en-GB"),
        java_script_enabled=state.javascript or scripted,
        base_url=origin,
    )
    try:
        context.set_default_timeout(TIMEOUT_MS)
        if not state.javascript and scripted:
            context.route("**/*.js*", lambda route: route.fulfill(content_type="text/javascript", body=""))
        add_cookies(context, server, origin, lang, signed_in=state.signed_in)
        shown_page = Shown(context.new_page())
        page = shown_page.page
        answers: list[int] = []
        page.on("console", lambda message: shown_page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: shown_page.said.append(f"exception: {error}"))
        page.on(
            "response",
            lambda answer: answers.append(answer.status) if answer.request.is_navigation_request() else None,
        )
        page.goto(state.path.format(**stage.names))
        try:
            state.act(page, stage)
            page.locator(state.wait).first.wait_for(state="visible")
            assert answers[-1] == state.status, f"{state.name}: answered {answers[-1]}, not {state.status}"
            page.evaluate("document.fonts.ready.then(() => true)")
            yield shown_page
        finally:
            state.undo(page, stage)
    finally:
        context.close()


def add_cookies(context: BrowserContext, server: Server, origin: str, lang: str, *, signed_in: bool) -> None:
    cookies = {"hornbook_lang": lang}
    if signed_in:
        cookies[f"hornbook-{server.port}"] = server.token
    context.add_cookies([{"name": name, "value": value, "url": origin} for name, value in cookies.items()])
