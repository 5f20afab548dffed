"""kill -9 at every step of a run: what was acknowledged is there, effects happen once, clients miss nothing."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.protocol.codec import decode_as
from app.protocol.entries import Entry, MessageEntry
from app.protocol.events import (
    AgentEnd,
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueChanged,
    RunDone,
    TurnEnd,
    TurnStart,
)
from app.protocol.messages import ToolResultMessage
from app.runs.log import EventFile
from app.sessions.context import build_context
from app.sessions.lines import parse
from tests.crash_driver import FOLLOW_UP, NOTE, PROMPT
from tests.plain_tree import index_of, leaf_of, path_to
from tests.running import assert_valid, queue_of, runs_of, said

WHOLE = [
    f"user: {PROMPT}",
    "assistant: I look around.[script-1-1]",
    "result script-1-1",
    "assistant: [script-2-1][script-2-2]",
    "result script-2-1",
    "result script-2-2",
    "assistant: The note is written.",
]
FOLLOWED = [f"user: {FOLLOW_UP}", "assistant: It holds one sentence."]
SIGKILL = 9
SAME_AS_NEXT = (("after an event", ["before an event"]), ("before an event", ["half a log line"]))
"""Pairs of steps between which nothing happens: the second kill is enough."""

Play = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Does a job in a process of its own and returns how that ended."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.crash_driver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert driver.stdin is not None and driver.stdout is not None
    stdin, stdout = driver.stdin, driver.stdout

    def one(folder: Path, at: int | None, chunk: int) -> dict[str, Any]:
        print(json.dumps({"folder": str(folder), "at": at, "chunk": chunk}), file=stdin, flush=True)
        answer: dict[str, Any] = json.loads(stdout.readline())
        assert answer["exit"] == 0, f"the driver failed in {folder}"
        return answer

    with driver:
        yield one
        stdin.close()


@dataclass
class Left:
    """What is on disk in the end, and what the client was told on the way."""

    entries: list[Entry]
    skipped: int
    logged: list[Event]
    told: list[Event]
    acknowledged: dict[str, str]
    effects: list[str]
    notes: dict[str, str]


def left_in(folder: Path) -> Left:
    (session,) = (folder / "sessions").glob("*.jsonl")
    parsed = parse(session.read_bytes(), session.stem)
    told: list[Event] = []
    acknowledged = {}
    lines = (folder / "told.jsonl").read_bytes().splitlines() if (folder / "told.jsonl").exists() else []
    for line in lines:
        if line.startswith(b'{"acknowledged"'):
            plain = json.loads(line)
            acknowledged[plain["acknowledged"]] = plain["runId"]
        else:
            told.append(decode_as(line, Event))  # type: ignore[arg-type]
    effects = folder / "effects.log"
    notes = folder / "workspace" / "notes"
    return Left(
        [stored.entry for stored in parsed.entries],
        len(parsed.skipped),
        [record.event for record in EventFile(folder / "runs" / f"{session.stem}.jsonl").scan().records],
        told,
        acknowledged,
        effects.read_text().splitlines() if effects.exists() else [],
        {path.name: path.read_text() for path in notes.iterdir()} if notes.exists() else {},
    )


def rises(numbers: list[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def check(left: Left, torn: int = 0) -> None:
    """All that must hold once a killed run has been taken up and has come to its end."""
    assert left.skipped <= torn
    runs = runs_of(left.entries)
    assert len(runs) <= 1
    path = path_to(index_of(left.entries), leaf_of(left.entries))
    messages = build_context(path).messages
    words = said(messages)
    followed = FOLLOWED[0] in words
    if "prompt" in left.acknowledged or words:
        assert words == WHOLE + (FOLLOWED if followed else [])
        assert runs[0].outcome == "done" and runs[0].messages == [entry.id for entry in path]
        assert (left.effects, left.notes) == (["lesson.md"], {"lesson.md": NOTE})
    assert set(left.acknowledged.values()) <= {run.run_id for run in runs}
    assert followed or "follow-up" not in left.acknowledged
    assert_valid(messages)
    assert queue_of(left.entries) == []
    check_events(left, [run.run_id for run in runs])


def check_events(left: Left, run_ids: list[str]) -> None:
    logged, told = left.logged, left.told
    assert rises([event.n for event in told]) and rises([event.n for event in logged])
    assert [event for event in told if not isinstance(event, MessageUpdate)] == logged
    assert {event.run_id for event in logged} <= {*run_ids, None}
    of_run = [event for event in logged if event.run_id is not None]
    assert rises([event.seq or 0 for event in told if event.run_id is not None])
    kinds = [type(event) for event in of_run]
    if run_ids:
        assert kinds[0] is AgentStart and kinds[-2:] == [AgentEnd, RunDone]
        assert [kinds.count(kind) for kind in (AgentStart, AgentEnd, RunDone)] == [1, 1, 1]
    turns = [kind for kind in kinds if kind in (TurnStart, TurnEnd)]
    assert turns == [TurnStart, TurnEnd] * (len(turns) // 2)
    ends = [event for event in of_run if isinstance(event, MessageEnd)]
    starts = [event.entry_id for event in of_run if isinstance(event, MessageStart)]
    assert starts == [event.entry_id for event in ends]
    kept = [event for event in ends if not event.discarded]
    made = runs_of(left.entries)[0].messages if run_ids else []
    said_by = {entry.id: entry.message for entry in left.entries if isinstance(entry, MessageEntry)}
    assert [(event.entry_id, event.message) for event in kept] == [(name, said_by[name]) for name in made]
    results = [event.message.tool_call_id for event in kept if isinstance(event.message, ToolResultMessage)]
    assert len(results) == len(set(results))
    queues = [event.queue for event in logged if isinstance(event, QueueChanged)]
    assert not queues or queues[-1] == []


def dry_run(folder: Path, play: Play, chunk: int) -> list[str]:
    """Plays a run that nobody kills and returns the names of its steps."""
    folder.mkdir()
    assert play(folder, None, chunk)["signal"] == 0
    steps: list[str] = json.loads((folder / "steps.json").read_text())
    return steps


def test_a_run_that_nobody_kills_passes_every_kind_of_step(play: Play, tmp_path: Path) -> None:
    steps = dry_run(tmp_path / "whole", play, 8)
    left = left_in(tmp_path / "whole")
    check(left)
    assert set(left.acknowledged) == {"prompt", "follow-up"}
    assert set(steps) >= {
        "the model is asked",
        "before an entry",
        "half an entry",
        "after an entry",
        "before an event",
        "half a log line",
        "event stored, not shown",
        "after an event",
        "in list_files, at its start",
        "in write_note, before tool-started",
        "before the effect",
        "after the effect",
        "in write_note, at its end",
    }


@pytest.mark.timeout(240)  # a process for each step: half a minute alone, more beside other work
def test_a_run_survives_a_kill_at_every_step(play: Play, tmp_path: Path) -> None:
    steps = dry_run(tmp_path / "whole", play, 1_000)
    for at, name in enumerate(steps, 1):
        if (name, steps[at : at + 1]) in SAME_AS_NEXT:
            continue
        folder = tmp_path / str(at)
        folder.mkdir()
        assert play(folder, at, 1_000)["signal"] == SIGKILL
        assert play(folder, None, 1_000)["signal"] == 0
        try:
            check(left_in(folder), torn=name == "half an entry")
        except AssertionError as problem:
            raise AssertionError(f"killed at step {at} of {len(steps)}: {name}; see {folder}") from problem
        shutil.rmtree(folder)


@pytest.mark.long
def test_two_hundred_runs_survive_kills_at_random_steps_also_while_they_are_mended(play: Play, tmp_path: Path) -> None:
    chunks = {chunk: len(dry_run(tmp_path / f"whole{chunk}", play, chunk)) for chunk in (1, 3, 8, 40)}
    total = 0
    for number in range(200):
        chance = random.Random(number)
        folder = tmp_path / str(number)
        folder.mkdir()
        kills = 0
        for _ in range(chance.randint(1, 4)):
            chunk = chance.choice(list(chunks))
            # What is left of a killed run has fewer steps, and the first of them mend it.
            at = chance.randint(1, chunks[chunk]) if kills == 0 else int(chance.triangular(1, chunks[chunk], 10))
            kills += play(folder, at, chunk)["signal"] == SIGKILL
        assert play(folder, None, 8)["signal"] == 0
        try:
            check(left_in(folder), torn=kills)
        except AssertionError as problem:
            raise AssertionError(f"round {number}; see {folder}") from problem
        shutil.rmtree(folder)
        total += kills
    assert total > 250
