"""What the pages cost a browser: bytes and requests, time to a usable composer, layout shift and work while streaming.

Measured with Debian's chromium. Compared, in the same run, with a bare Flask page under the same server that appends
the same pieces with EventSource and textContent. Budget: a first page of at most 60 KB in at most 8 requests, nothing
from another host; while 2,000 pieces of an answer stream in, nothing moves but the text that grows.
"""

import base64
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright
from servers import Server, hornbook, started

KB = 1000
BUDGET_KB, BUDGET_REQUESTS = 60, 8
PUBLISHED = "what people use instead: 400 to 2,700 KB in 15 to 244 requests"
PIECES, PIECE, DELAY_MS = 2_000, 4, 5
ROUNDS = 7

PROSE = (
    "Think of the columns of a matrix as arrows. Two arrows that point the same way reach only a line, so the rank is "
    "one; two that point different ways reach the plane.\n\n"
    "- The **first** arrow is `(1, 2)`.\n- The second one is *twice* as long.\n- Together they span a line.\n\n"
    "```python\ndef rank(rows):\n    return sum(any(row) for row in eliminate(rows))\n```\n\n"
    "| step | what is done |\n| --- | --- |\n| 1 | divide by the pivot |\n| 2 | take it from the rows below |\n\n"
)
ANSWER = (PROSE * (PIECES * PIECE // len(PROSE) + 1))[: PIECES * PIECE]

BARE_PAGE = """
import json, sys, time, waitress
from flask import Flask, Response
app = Flask("bare")
text = json.load(open(sys.argv[1]))
PAGE = '''<!doctype html><html lang=en><meta charset=utf-8><title>Bare</title><p id=out></p>
<form id=composer><textarea id=text></textarea><button>Send</button></form><script>
const out = document.getElementById("out");
document.getElementById("text").onkeydown = (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  const source = new EventSource("/stream");
  source.onmessage = ({data}) => (out.textContent += JSON.parse(data), scrollTo(0, document.body.scrollHeight));
  source.addEventListener("end", () => (source.close(), document.body.dataset.done = 1));
};
</script>'''

@app.get("/")
def page():
    return PAGE

@app.get("/stream")
def stream():
    def pieces():
        size, delay = int(sys.argv[2]), int(sys.argv[3]) / 1000
        for at in range(0, len(text), size):
            time.sleep(delay)
            yield f"data: {json.dumps(text[at : at + size])}\\n\\n"
        yield "event: end\\ndata: x\\n\\n"
    return Response(pieces(), mimetype="text/event-stream")

server = waitress.create_server(app, host="127.0.0.1", port=0, threads=8)
print(f"open at http://127.0.0.1:{server.effective_port}/", flush=True)
server.run()
"""

# When the composer can be typed into, and every shift of the layout with what moved.
WATCH = """
window.seen = { usable: null, shifts: [] };
(function look() {
  const field = document.getElementById("text");
  if (field && !field.disabled && field.checkVisibility()) window.seen.usable = performance.now();
  else requestAnimationFrame(look);
})();
window.measuring = false;
new PerformanceObserver((list) => {
  if (!window.measuring) return;
  const growing = document.querySelector("#transcript > article:last-of-type") || document.getElementById("out");
  for (const shift of list.getEntries()) {
    const moved = shift.sources.map(({ node, previousRect: from, currentRect: to }) => {
      const element = node && (node.nodeType === 1 ? node : node.parentElement);
      const name = !element ? "gone" : element.id ? "#" + element.id : element.tagName + "." + element.className;
      const by = `${Math.round(to.x - from.x)},${Math.round(to.y - from.y)}`;
      return { name, by, inside: !element || !element.isConnected || growing.contains(element) };
    });
    window.seen.shifts.push({ value: shift.value, typed: shift.hadRecentInput, moved });
  }
}).observe({ type: "layout-shift", buffered: true });
"""


@dataclass
class Wire:
    """What one page took over the wire, by address: bytes with headers, and those of the decoded bodies."""

    sizes: dict[str, float] = field(default_factory=dict)
    decoded: dict[str, float] = field(default_factory=dict)

    @property
    def kilobytes(self) -> float:
        return sum(self.sizes.values()) / KB

    @property
    def decoded_kilobytes(self) -> float:
        return sum(self.decoded.values()) / KB


@dataclass
class Streamed:
    """What 2,000 pieces did to a page. Times in milliseconds.

    ``shift`` is the sum of the layout shifts but those ``after_input``, within 500 ms of typing and pressing, which
    browsers do not count either. ``outside`` names what moved beside the growing text, and how often.
    """

    shift: float
    shift_outside: float
    after_input: float
    outside: dict[str, int]
    longest_task: float
    busy: float
    nodes: int
    heap_megabytes: float


def main() -> None:
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        script = place / "script.json"
        long_answer = {"text": ANSWER, "chunk": PIECE, "delayMs": DELAY_MS}
        turns = [{"text": PROSE}, long_answer]
        script.write_text(json.dumps({"name": "Bench", "turns": turns, "after": {"text": r"Then $\frac{1}{2}$."}}))
        with hornbook(place / "data", f"script:{script}") as server:
            report_pages(browser, server)
            for show in ("lesson", "workings"):
                report_streaming(f"Hornbook, {show}", stream_in_hornbook(browser, server, show))
        text = place / "text.json"
        text.write_text(json.dumps(ANSWER))
        with started([sys.executable, "-c", BARE_PAGE, str(text), str(PIECE), str(DELAY_MS)]) as server:
            report_usable("bare Flask page", [usable(browser, server, "") for _ in range(ROUNDS)])
            report_streaming("bare Flask page", stream_in_bare_page(browser, server))
    load = os.getloadavg()[0]
    print(f"load of this machine at the end: {load:.1f} on {os.cpu_count()} cores; times grow with it, bytes do not")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    found = shutil.which("chromium")
    if found is None:
        raise SystemExit("chromium was not found. On Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@contextlib.contextmanager
def visit(browser: Browser, server: Server) -> Iterator[tuple[BrowserContext, Page]]:
    """A new browser context, without anything in its cache, that holds the cookie of one who came by the link."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    if server.token:
        name = f"hornbook-{urlsplit(server.address).port}"
        context.add_cookies([{"name": name, "value": server.token, "url": server.address}])
    try:
        yield context, context.new_page()
    finally:
        context.close()


def report_pages(browser: Browser, server: Server) -> None:
    report_wire("first visit", load(browser, server, ""), BUDGET_KB)
    session = new_session(browser, server)
    report_wire("session, empty", load(browser, server, session), BUDGET_KB)
    say(browser, server, session, "Begin.")
    report_wire("session, one answer", load(browser, server, session), BUDGET_KB)
    report_wire("session, one answer, Workings", load(browser, server, f"{session}?show=workings"), None)
    report_wire("first page, one session", load(browser, server, ""), BUDGET_KB)
    with_math = new_session(browser, server)
    for text in ("Begin.", "Go on.", "And a formula."):
        say(browser, server, with_math, text)
    report_wire("session with mathematics", load(browser, server, with_math), None)
    print(PUBLISHED)
    report_usable("session, empty", [usable(browser, server, new_session(browser, server)) for _ in range(ROUNDS)])


def new_session(browser: Browser, server: Server) -> str:
    with visit(browser, server) as (_context, page):
        page.goto(server.address)
        page.locator("#main form[action='/sessions'] button").first.click()
        page.wait_for_url("**/sessions/*")
        return urlsplit(page.url).path[1:]


def say(browser: Browser, server: Server, session: str, text: str) -> None:
    with visit(browser, server) as (_context, page):
        page.goto(server.address + session)
        send(page, text)


def send(page: Page, text: str) -> None:
    """Sends a message and waits until the answer to it is complete."""
    messages = page.locator("#transcript > article").count()
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")
    complete = """(before) => document.querySelectorAll("#transcript > article").length >= before + 2
      && !document.querySelector("#transcript [aria-busy]") && document.querySelector("#status[data-state=idle]")"""
    page.wait_for_function(complete, arg=messages, polling=250, timeout=PIECES * 200)


def load(browser: Browser, server: Server, path: str) -> Wire:
    """Loads a page with an empty cache and returns what came over the wire, the event stream aside."""
    wire = Wire()
    addresses: dict[str, str] = {}
    finished: dict[str, float] = {}
    heads: dict[str, float] = {}
    streams: set[str] = set()
    with visit(browser, server) as (context, page):
        cdp = context.new_cdp_session(page)

        def answered(event: dict[str, Any]) -> None:
            if event["response"]["fromDiskCache"]:
                return  # the icon, which the page shows as a picture too
            addresses[event["requestId"]] = event["response"]["url"]
            heads[event["requestId"]] = event["response"]["encodedDataLength"]
            if event["response"]["mimeType"] == "text/event-stream":
                streams.add(event["requestId"])

        cdp.on("Network.responseReceived", answered)
        cdp.on(
            "Network.loadingFinished", lambda event: finished.update({event["requestId"]: event["encodedDataLength"]})
        )
        cdp.send("Network.enable")
        page.goto(server.address + path, wait_until="load")
        page.evaluate("document.fonts.ready.then(() => true)")
        page.wait_for_timeout(500)  # what a script asks for after the load
        for request_id, address in addresses.items():
            if request_id in streams or request_id not in finished:
                continue
            wire.sizes[address] = max(finished[request_id], heads[request_id])
            wire.decoded[address] = len(body_of(cdp, request_id))
    return wire


def body_of(cdp: CDPSession, request_id: str) -> bytes:
    answer = cdp.send("Network.getResponseBody", {"requestId": request_id})
    body: str = answer["body"]
    return base64.b64decode(body) if answer["base64Encoded"] else body.encode()


def report_wire(name: str, wire: Wire, budget: float | None) -> None:
    hosts = {urlsplit(address).hostname for address in wire.sizes}
    others = "nothing from another host" if len(hosts) == 1 else f"FROM OTHER HOSTS: {sorted(map(str, hosts))}"
    within = f"budget {budget} KB in {BUDGET_REQUESTS} requests" if budget else "no budget"
    print(
        f"{name}: {wire.kilobytes:.1f} KB over the wire ({wire.decoded_kilobytes:.1f} KB decoded), "
        f"{len(wire.sizes)} requests, {others} ({within})"
    )
    for address, size in sorted(wire.sizes.items(), key=lambda item: -item[1]):
        decoded = wire.decoded[address]
        print(f"    {size / KB:7.1f} KB ({decoded / KB:.1f} decoded)  {urlsplit(address).path}")
    if budget and wire.kilobytes > budget:
        print(f"    over the budget by {wire.kilobytes - budget:.1f} KB as it is sent")


def usable(browser: Browser, server: Server, path: str) -> tuple[float, float]:
    """Returns the milliseconds from navigation to a composer that takes text, and to the end of loading."""
    with visit(browser, server) as (context, page):
        context.add_init_script(WATCH)
        page.goto(server.address + path, wait_until="load")
        page.wait_for_function("window.seen.usable !== null")
        page.locator("#text").focus()
        assert page.evaluate("document.activeElement.id") == "text"
        loaded: float = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")
        return page.evaluate("window.seen.usable"), loaded


def report_usable(name: str, rounds: list[tuple[float, float]]) -> None:
    there, loaded = (statistics.median(one[at] for one in rounds) for at in (0, 1))
    print(f"{name}: composer usable after {there:.0f} ms, page loaded after {loaded:.0f} ms (median of {len(rounds)})")


def stream_in_hornbook(browser: Browser, server: Server, show: str) -> Streamed:
    session = new_session(browser, server)
    say(browser, server, session, "Begin.")
    with visit(browser, server) as (context, page):
        context.add_init_script(WATCH)
        page.goto(f"{server.address}{session}?show={show}")

        def stream() -> None:
            send(page, "Go on.")

        return measured(browser, context, page, stream)


def stream_in_bare_page(browser: Browser, server: Server) -> Streamed:
    with visit(browser, server) as (context, page):
        context.add_init_script(WATCH)
        page.goto(server.address)

        def stream() -> None:
            page.locator("#text").press("Enter")
            page.locator("body[data-done]").wait_for(timeout=PIECES * 200)

        return measured(browser, context, page, stream)


def measured(browser: Browser, context: BrowserContext, page: Page, stream: Any) -> Streamed:
    cdp = context.new_cdp_session(page)
    page.evaluate("window.measuring = true")
    browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
    stream()
    page.wait_for_timeout(300)  # observers are told after the frame
    tasks = main_thread_tasks(browser.stop_tracing())
    shifts = page.evaluate("window.seen.shifts")
    cdp.send("HeapProfiler.enable")
    cdp.send("HeapProfiler.collectGarbage")
    cdp.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    counted = [shift for shift in shifts if not shift["typed"]]
    outside: dict[str, int] = {}
    for shift in shifts:
        for moved in shift["moved"]:
            if not moved["inside"]:
                name = f"{moved['name']} by {moved['by']} px{' after input' if shift['typed'] else ''}"
                outside[name] = outside.get(name, 0) + 1
    return Streamed(
        shift=sum(shift["value"] for shift in counted),
        shift_outside=sum(shift["value"] for shift in counted if any(not moved["inside"] for moved in shift["moved"])),
        after_input=sum(shift["value"] for shift in shifts if shift["typed"]),
        outside=outside,
        longest_task=max(tasks, default=0.0),
        busy=sum(tasks),
        nodes=int(metrics["Nodes"]),
        heap_megabytes=metrics["JSHeapUsedSize"] / 1e6,
    )


def main_thread_tasks(trace: bytes) -> list[float]:
    """Returns the lengths, in milliseconds, of the tasks of the busiest page's main thread."""
    events = json.loads(trace)["traceEvents"]
    mains = {(one["pid"], one["tid"]) for one in events if one.get("args", {}).get("name") == "CrRendererMain"}
    tasks: dict[tuple[int, int], list[float]] = {}
    for one in events:
        where = (one["pid"], one["tid"])
        if where in mains and one.get("ph") == "X" and one["name"].endswith("RunTask"):
            tasks.setdefault(where, []).append(one.get("dur", 0) / 1000)
    return max(tasks.values(), key=sum, default=[])


def report_streaming(name: str, streamed: Streamed) -> None:
    print(
        f"{name}, {PIECES:,} pieces {DELAY_MS} ms apart: layout shift {streamed.shift:.4f}, of it where more than "
        f"the growing text moved {streamed.shift_outside:.4f} (must be 0), right after sending "
        f"{streamed.after_input:.4f}; longest task {streamed.longest_task:.0f} ms, "
        f"main thread busy {streamed.busy / 1000:.1f} s; then {streamed.nodes:,} DOM nodes, "
        f"{streamed.heap_megabytes:.1f} MB of JS heap"
    )
    for what, times in sorted(streamed.outside.items(), key=lambda item: -item[1])[:8]:
        print(f"    moved {times} times: {what}")


if __name__ == "__main__":
    main()
