"""A writer is killed at any moment: all that it acknowledged is there, the file loads, and appending goes on."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.protocol.entries import MessageEntry
from app.protocol.messages import UserMessage
from app.sessions.jsonl import JsonlSessionStore
from tests.plain_tree import leaf_of
from tests.unit.test_outline import STAMP

ROOT = Path(__file__).parents[2]
OLD = {"type": "session", "id": "s", "timestamp": STAMP, "cwd": "/"}
SAID = {"type": "message", "timestamp": STAMP, "message": {"role": "user", "content": "old"}}


def begin(folder: Path, *, old: bool) -> None:
    """A session file: of the present format, or an old one that the first append brings into it."""
    (folder / "sessions").mkdir(parents=True)
    header = OLD if old else {**OLD, "version": 3}
    lines = [header, *([SAID, SAID] if old else [])]
    (folder / "sessions" / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def acknowledged_before_a_kill(folder: Path, seed: int, prefix: str) -> list[str]:
    """Runs the writer and kills it after some acknowledged lines, while it goes on; returns all that it told."""
    chance = random.Random(seed)
    arguments = [sys.executable, str(ROOT / "tests" / "kill_driver.py"), str(folder), str(seed), prefix]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(chance.randint(0, 25))]
        writer.send_signal(signal.SIGKILL)
        # What it still told before it died counts too; a last line may be torn.
        rest = writer.stdout.read()
    lines = [*told, *rest.splitlines(keepends=True)]
    return [name for line in lines if line.endswith("\n") for name in line.split()]


def check(folder: Path, acknowledged: list[str]) -> None:
    store = JsonlSessionStore(folder / "sessions", folder / "trash")
    session = store.open("s")
    assert not session.read_only
    assert set(acknowledged) <= set(session.outline.ids)
    # A torn line is closed by the next append, and is then no JSON.
    assert all(line.reason.startswith(("torn", "not JSON")) for line in session.skipped)
    entries = [stored.entry for stored in session.entries]
    assert session.leaf_id == leaf_of(entries)
    added = MessageEntry(
        id=session.new_id(), parent_id=session.leaf_id, timestamp=STAMP, message=UserMessage(content="on")
    )
    session.append(added, durable=True)
    store.close()
    again = JsonlSessionStore(folder / "sessions", folder / "trash")
    assert again.open("s").leaf_id == added.id
    assert set(acknowledged) <= set(again.open("s").outline.ids)
    again.close()


def rounds(folder: Path, first: int, count: int) -> None:
    for seed in range(first, first + count):
        place = folder / str(seed)
        begin(place, old=seed % 4 == 0)
        told: list[str] = []
        for again in range(1 + seed % 3 // 2):  # now and then killed twice in a row
            told += acknowledged_before_a_kill(place, seed * 10 + again, f"r{again}-")
            check(place, told)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("part", range(4))
def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path, part: int) -> None:
    rounds(tmp_path, part * 5, 5)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("part", range(20))
def test_a_thousand_kills_lose_nothing(tmp_path: Path, part: int) -> None:
    rounds(tmp_path, 1_000 + part * 50, 50)
