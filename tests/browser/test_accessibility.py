"""Every state of the pages: axe-core finds nothing, nothing overflows, and the keyboard gets everywhere."""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.stage import Stage, built_stage
from tests.states import HEIGHTS, LANGUAGES, SCHEMES, STATES, WIDTHS, State, shown

pytestmark = pytest.mark.browser

VENDOR = Path(__file__).resolve().parents[1] / "vendor"
COMBINATIONS = list(itertools.product(WIDTHS, SCHEMES, LANGUAGES))
STEP = 5
"""Shares no factor with the number of combinations: as many states in a row have each of them once."""
TARGET = 24
"""CSS pixels that something to press is wide and high at least (WCAG 2.2, 2.5.8)."""
TABS = 8

RUN_AXE = """async () => {
  const all = axe.getRules().map((rule) => rule.ruleId);
  const rules = Object.fromEntries(all.map((id) => [id, { enabled: true }]));
  for (const old of ["duplicate-id", "duplicate-id-active", "color-contrast-enhanced"]) delete rules[old];
  const found = await axe.run(document, { rules, resultTypes: ["violations"] });
  return found.violations.flatMap((rule) =>
    rule.nodes.map(({ target, html, failureSummary }) =>
      `${rule.id}: ${target.join(" ")} ${html.slice(0, 160)}\\n  ${failureSummary}`),
  );
}"""

# A link that stands in a line of other text is as high as the line.
SMALL_TARGETS = """(size) => {
  const pressed = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  const inText = (element) => {
    if (getComputedStyle(element).display !== "inline") return false;
    let block = element.parentElement;
    while (getComputedStyle(block).display === "inline") block = block.parentElement;
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const words = walker.currentNode;
      if (words.data.trim() && !words.parentElement.closest(`${pressed}, .hidden`)) return true;
    }
    return false;
  };
  return [...document.querySelectorAll(pressed)]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }))
    .map((element) => [element, element.getBoundingClientRect()])
    .filter(([, box]) => box.right > 0 && box.bottom > 0 && (box.width < size - 0.1 || box.height < size - 0.1))
    .filter(([element]) => !inText(element))
    .map(([element, box]) => `${Math.round(box.width)}x${Math.round(box.height)} ${element.outerHTML.slice(0, 140)}`);
}"""

TOO_WIDE = """() => {
  const root = document.scrollingElement;
  if (root.scrollWidth <= innerWidth) return [];
  const scrolls = (element) =>
    element && (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement));
  return [`${root.scrollWidth} px`, ...[...document.body.querySelectorAll("*")]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 0.5 && !scrolls(element.parentElement))
    .map((element) => element.outerHTML.slice(0, 140))];
}"""

# What has the focus: where it stands in the document, whether the focus can be seen, and whether something covers it.
FOCUSED = """() => {
  const element = document.activeElement;
  if (element === document.body) return null;
  const style = getComputedStyle(element);
  const box = element.getClientRects()[0];
  const seen = document.elementFromPoint(box.x + box.width / 2, box.y + Math.min(box.height / 2, 20));
  return {
    at: [...document.querySelectorAll("*")].indexOf(element),
    what: element.outerHTML.slice(0, 140),
    outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    uncovered: Boolean(seen) && (element.contains(seen) || seen.contains(element)),
  };
}"""


def listed() -> dict[str, str]:
    """Returns the vendored files and their sha256 by tests/vendor/VERSIONS.md."""
    lines = (VENDOR / "VERSIONS.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: row[-1] for row in rows[2:]}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with built_stage(tmp_path_factory.mktemp("stage")) as built:
        yield built


@pytest.fixture(scope="module")
def axe() -> str:
    return (VENDOR / "axe.min.js").read_text(encoding="utf-8")


def problems_of(page: Page, axe: str) -> dict[str, Any]:
    """Returns what is wrong with the page that is shown, by what was looked for; empty where all is well."""
    page.evaluate(axe)
    found: dict[str, Any] = {"axe": page.evaluate(RUN_AXE), "small targets": page.evaluate(SMALL_TARGETS, TARGET)}
    headings = page.locator("h1").all_text_contents()
    found["headings"] = headings if len(headings) != 1 or not headings[0].strip() else []
    found["tab order"] = page.evaluate(
        "[...document.querySelectorAll('[tabindex]')].filter((one) => one.tabIndex > 0).map((one) => one.outerHTML)"
    )
    found["too wide"] = page.evaluate(TOO_WIDE)
    return {name: wrong for name, wrong in found.items() if wrong}


def problems_by_keyboard(page: Page) -> list[str]:
    """Returns what is wrong with the skip link and with the order in which the first Tabs go."""
    wrong = []
    # The next Tab starts from what had the focus or was pressed last: here from the top.
    page.evaluate(
        "document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute('tabindex'), scrollTo(0, 0)"
    )
    page.keyboard.press("Tab")
    first = page.evaluate(FOCUSED)
    if page.evaluate("document.activeElement.getAttribute('href')") != "#main":
        return [f"the first Tab goes to {first}, not to the skip link"]
    last = first
    for _ in range(TABS):
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if now is None:
            break
        if now["at"] <= last["at"]:
            wrong.append(f"after {last['what']} comes {now['what']}, which stands before it")
        last = now
        wrong += [f"not {name}: {now['what']}" for name in ("outlined", "uncovered") if not now[name]]
    wrong += [f"skip link not {name}" for name in ("outlined", "uncovered") if not first[name]]
    page.evaluate("document.querySelector(\"a[href='#main']\").focus()")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = "document.querySelector('#main').contains(document.activeElement)"
    if page.locator("#main a, #main button, #main textarea, #main summary").count() and not page.evaluate(inside):
        wrong.append(f"the skip link leads to {page.evaluate(FOCUSED)}, not into the page")
    return wrong


def check(browser: Browser, stage: Stage, axe: str, state: State, width: int, scheme: Any, lang: str) -> None:
    with shown(browser, stage, state, width=width, scheme=scheme, lang=lang, scripted=True) as seen:
        page = seen.page
        found = problems_of(page, axe)
        if page.locator("html").get_attribute("lang") != {"zh": "zh-Hans"}.get(lang, lang):
            found["language"] = [page.locator("html").get_attribute("lang")]
        if by_keyboard := problems_by_keyboard(page):
            found["keyboard"] = by_keyboard
        page.set_viewport_size({"width": 320, "height": HEIGHTS[320]})
        if wide := page.evaluate(TOO_WIDE):
            found["too wide at 320"] = wide
        said = [line for line in seen.said if not (state.status >= 400 and f"status of {state.status}" in line)]
        if said:
            found["console"] = said
    if found:
        pytest.fail("\n".join(f"{name}: {one}" for name, all_of in found.items() for one in all_of), pytrace=False)


CHECKED = [state for state in STATES if not state.twin]


def test_axe_is_the_one_that_is_recorded() -> None:
    actual = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != "VERSIONS.md"
    }
    assert actual == listed()


@pytest.mark.parametrize(("number", "state"), list(enumerate(CHECKED)), ids=[state.name for state in CHECKED])
def test_a_state_has_no_barrier(browser: Browser, stage: Stage, axe: str, number: int, state: State) -> None:
    check(browser, stage, axe, state, *COMBINATIONS[number * STEP % len(COMBINATIONS)])


@pytest.mark.long
@pytest.mark.parametrize("combination", COMBINATIONS, ids=["-".join(map(str, one)) for one in COMBINATIONS])
@pytest.mark.parametrize("state", STATES, ids=[state.name for state in STATES])
def test_a_state_has_no_barrier_in_any_form(
    browser: Browser, stage: Stage, axe: str, state: State, combination: tuple[int, Any, str]
) -> None:
    check(browser, stage, axe, state, *combination)
