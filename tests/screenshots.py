"""Photographs every state of the pages: `make screenshots`, or with a selection
`make screenshots ARGS="--state lesson --width 390 --lang zh"`.

Writes screenshots/<lang>/<theme>/<width>/<state>.png. With ``--readme`` it renews the picture in README instead.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.server import ROOT, running_server
from tests.stage import built_stage
from tests.states import LANGUAGES, SCHEMES, STATES, WIDTHS, shown

README_PICTURE = ROOT / "static" / "screenshot.png"
README_LESSON = (
    "list files",
    "read how-an-agent-works/en/1-the-loop.md",
    "write a note named secret-plan: the loop ends after twelve turns",
)


def main() -> int:
    asked = arguments()
    if asked.readme:
        with browser() as chromium, tempfile.TemporaryDirectory() as folder:
            photograph_for_readme(chromium, Path(folder))
        return 0
    chosen = [state for state in STATES if not asked.state or state.name in asked.state]
    combinations = [(lang, scheme, width) for lang in asked.lang for scheme in asked.theme for width in asked.width]
    if "zh" in asked.lang and not has_chinese_font():
        print("No font with Chinese characters was found, so they will show as boxes (Debian: fonts-noto-cjk).")
    began = time.monotonic()
    failed = 0
    with browser() as chromium, tempfile.TemporaryDirectory() as folder, built_stage(Path(folder)) as stage:
        for lang, scheme, width in combinations:
            for state in chosen:
                place = asked.to / lang / scheme / str(width) / f"{state.name}.png"
                try:
                    with shown(chromium, stage, state, width=width, scheme=scheme, lang=lang) as seen:
                        photograph(seen.page, place)
                except Exception as problem:  # one state that cannot be reached must not cost the others
                    failed += 1
                    print(f"not photographed: {place.relative_to(asked.to)}: {problem}", file=sys.stderr)
    taken = len(chosen) * len(combinations) - failed
    print(f"{taken} pictures in {asked.to}, {failed} states not reached, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    names = [state.name for state in STATES]
    parser = argparse.ArgumentParser(prog="make screenshots", description="Photographs the states of the pages.")
    parser.add_argument("--state", nargs="+", choices=names, metavar="STATE", help=f"of these: {', '.join(names)}")
    parser.add_argument("--width", nargs="+", type=int, default=WIDTHS, metavar="PIXELS")
    parser.add_argument("--theme", nargs="+", choices=SCHEMES, default=SCHEMES)
    parser.add_argument("--lang", nargs="+", choices=LANGUAGES, default=LANGUAGES)
    parser.add_argument("--to", type=Path, default=ROOT / "screenshots", metavar="FOLDER")
    parser.add_argument("--readme", action="store_true", help="renew static/screenshot.png")
    return parser.parse_args()


@contextmanager
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium was not found. On Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def has_chinese_font() -> bool:
    """Says whether fontconfig knows a font for Chinese; True where there is no fontconfig to ask."""
    if shutil.which("fc-list") is None:
        return True
    listed = subprocess.run(["fc-list", ":lang=zh-cn", "family"], capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip())


def photograph(page: Page, place: Path) -> None:
    """Takes the whole page, and replaces an older picture only by a whole one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_suffix(".new.png")
    page.evaluate("scrollTo(0, 0)")  # what sticks to the top stands there in the picture too
    page.screenshot(path=new, full_page=True, animations="disabled")
    os.replace(new, place)


def photograph_for_readme(chromium: Browser, folder: Path) -> None:
    """A short lesson with the tutor that is built in, in the Workings dial, as wide as a page gets."""
    workspace = folder / "workspace"
    shutil.copytree(ROOT / "workspace", workspace, ignore=shutil.ignore_patterns("notes"))
    with running_server(data=folder / "data", workspace=workspace) as server:
        session = server.post("/api/sessions", {"name": "The loop"}).json["sessionId"]
        for text in README_LESSON:
            server.post("/api/prompt", {"sessionId": session, "text": text})
        page = chromium.new_page(viewport={"width": 1280, "height": 960}, color_scheme="light", locale="en-GB")
        page.goto(server.link)
        page.goto(f"{server.link.partition('?')[0]}sessions/{session}?show=workings&panel=timeline")
        page.locator("#transcript .blocked").wait_for()
        page.evaluate("document.fonts.ready.then(() => true)")
        page.screenshot(path=README_PICTURE, animations="disabled")
    print(f"{README_PICTURE.relative_to(ROOT)}: {README_PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
