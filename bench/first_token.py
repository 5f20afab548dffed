"""How soon the first text of an answer is there, and what a streamed answer costs the server.

A scripted model says 300 pieces, 20 ms apart. Compared, in the same run, with a bare Flask generator that sends 300
events 20 ms apart under the same server. Aim: at most 0.1 s of the server's CPU for the 300 pieces.
"""

import json
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from servers import ROOT, bare_flask, hornbook

sys.path.insert(0, str(ROOT))

from app.protocol.cancel import CancelToken

PIECES, DELAY_MS = 300, 20


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        turn = {"text": "abcdefgh" * PIECES, "chunk": 8, "delayMs": DELAY_MS}
        script.write_text(json.dumps({"name": "Bench", "turns": [], "after": turn}))
        with hornbook(Path(folder) / "data", f"script:{script}") as server:
            _run(server)  # warms imports and files
            before = server.cpu_seconds()
            first, done, pieces = _run(server)
            ours = server.cpu_seconds() - before
        quick = {"text": "one two three", "chunk": 4}
        script.write_text(json.dumps({"name": "Bench", "turns": [], "after": quick}))
        with hornbook(Path(folder) / "data2", f"script:{script}") as server:
            runs = [_run(server) for _ in range(20)]
    with bare_flask() as server:
        urllib.request.urlopen(server.request("stream/3/1")).read()
        before = server.cpu_seconds()
        urllib.request.urlopen(server.request(f"stream/{PIECES}/{DELAY_MS}")).read()
        bare = server.cpu_seconds() - before
    print(
        f"POST to first delta, median of 20: {statistics.median(run[0] for run in runs) * 1000:.1f} ms; "
        f"to run_done: {statistics.median(run[1] for run in runs) * 1000:.1f} ms (a model that answers at once)"
    )
    print(
        f"{pieces} deltas at {DELAY_MS} ms: first after {first * 1000:.0f} ms, done after {done:.2f} s "
        f"(the script alone takes {PIECES * DELAY_MS / 1000:.2f} s)"
    )
    print(
        f"server CPU for them: {ours:.2f} s (aim: at most 0.10); a bare Flask generator {bare:.2f} s, "
        f"ratio {ours / bare:.1f}; {PIECES} waits of {DELAY_MS} ms that do nothing cost {_waits():.2f} s here"
    )


def _waits() -> float:
    """CPU seconds of a thread that only waits as often as the script does."""
    token = CancelToken()
    began = time.process_time()
    for _ in range(PIECES):
        token.wait(DELAY_MS / 1000)
    return time.process_time() - began


def _run(server: object) -> tuple[float, float, int]:
    """Starts a run and reads its events: seconds to the first delta, to run_done, and the number of deltas."""
    began = time.perf_counter()
    body = json.dumps({"text": "go"}).encode()
    with urllib.request.urlopen(server.request("api/runs", body)) as answer:  # type: ignore[attr-defined]
        run_id = json.load(answer)["runId"]
    first, pieces = 0.0, 0
    with urllib.request.urlopen(server.request(f"api/runs/{run_id}/events")) as stream:  # type: ignore[attr-defined]
        for line in stream:
            if b'"text_delta"' in line:
                first = first or time.perf_counter() - began
                pieces += 1
    return first, time.perf_counter() - began, pieces


if __name__ == "__main__":
    main()
