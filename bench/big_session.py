"""How a long session opens, shows and grows, beside one of 100 entries.

    python bench/big_session.py

For each length, in a process of its own: the time to open the file, then the best of some rounds of the lesson's first
page (and its bytes), the page in Workings, the page of the tree and one appended entry; resident memory at the end. The
last lines say how the longest compares with the shortest. Noise only adds, so the best of the rounds is compared.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

LENGTHS = (100, 1_000, 10_000, 100_000)
ROUNDS = 15


def measure(length: int) -> dict[str, float]:
    """Returns the figures of one length: seconds, bytes and MiB."""
    from app import create_app
    from app.settings import Settings
    from bench.make_session import lines

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        (data / "sessions").mkdir()
        with (data / "sessions" / "long.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines(length))
        app = create_app(Settings(workspace=ROOT / "workspace", data=data))
        client, supervisor = app.test_client(), app.extensions["hornbook"].supervisor
        empty = resident()
        started = time.perf_counter()
        live = supervisor.open("long")
        figures = {"open": time.perf_counter() - started}

        def page(address: str) -> Callable[[], int]:
            def get() -> int:
                answer = client.get(address)
                assert answer.status_code == 200, address
                return len(answer.data)

            return get

        address = "/sessions/long"
        figures["lesson"], figures["bytes"] = best(page(f"{address}?show=lesson"))
        figures["workings"], _ = best(page(f"{address}?show=workings"))
        figures["tree"], figures["tree bytes"] = best(page(f"{address}/tree?show=lesson"))
        leaf = live.session.leaf_id
        figures["append"], _ = best(lambda: (live.label(leaf, "again"), 0)[1])
        figures["memory"] = resident() - empty
        supervisor.close()
        return figures


def best(work: Callable[[], int]) -> tuple[float, int]:
    """Returns the shortest time of some rounds after a first one, and what the last one gave."""
    times, given = [], work()
    for _ in range(ROUNDS):
        started = time.perf_counter()
        given = work()
        times.append(time.perf_counter() - started)
    return min(times), given


def resident() -> float:
    """Returns the memory that this process holds now, in MiB; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 1_048_576


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, help="measure one length and print its figures as JSON")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given.only)))
        return
    found: dict[int, dict[str, float]] = {}
    print(
        f"{'entries':>8} {'open s':>8} {'lesson ms':>10} {'bytes':>8} {'workings ms':>12} {'tree ms':>9} "
        f"{'tree bytes':>11} {'append ms':>10} {'MiB':>7}"
    )
    for length in LENGTHS:
        answer = subprocess.run(
            [sys.executable, __file__, "--only", str(length)], capture_output=True, text=True, check=True
        )
        one = found[length] = json.loads(answer.stdout)
        print(
            f"{length:>8} {one['open']:>8.3f} {one['lesson'] * 1e3:>10.1f} {one['bytes']:>8.0f} "
            f"{one['workings'] * 1e3:>12.1f} {one['tree'] * 1e3:>9.1f} {one['tree bytes']:>11.0f} "
            f"{one['append'] * 1e3:>10.2f} {one['memory']:>7.1f}"
        )
    short, long = found[LENGTHS[0]], found[LENGTHS[-1]]
    for name in ("lesson", "bytes", "workings", "tree", "append"):
        print(f"{name}: {LENGTHS[-1]} entries / {LENGTHS[0]} entries = {long[name] / short[name]:.2f}")


if __name__ == "__main__":
    main()
