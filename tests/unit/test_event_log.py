"""The event log: every reader gets the same events, whatever it missed; numbers rise over restarts."""

import errno
import json
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.protocol.codec import decode_as
from app.protocol.events import AgentStart, Event, MessageEnd, MessageUpdate, QueueChanged, RunDone, TurnStart
from app.protocol.model import TextDelta
from app.runs import log as log_module
from app.runs.buffer import EventBuffer, Record
from app.runs.eventlog import JsonlEventLog
from app.runs.log import NUMBER_STEP, EventFile, LogError

RUNS = ("run_a", "run_b", "run_c")
DAMAGE = (b"", b"\n", b'{"type":"turn_start","n":7', b"?\n")


def delta(text: str = "x", entry_id: str = "e") -> MessageUpdate:
    return MessageUpdate(entry_id=entry_id, assistant_message_event=TextDelta(content_index=0, delta=text))


def event_of(kind: str) -> Event:
    match kind:
        case "delta":
            return delta()
        case "end":
            return MessageEnd(entry_id="e")
        case "done":
            return RunDone(session_id="s", status="done", leaf_id=None, last_seq=0)
        case "queue":
            return QueueChanged(queue=[])
    return TurnStart()


def is_stored(event: Event) -> bool:
    return not isinstance(event, MessageUpdate)


def numbers(records: list[Record]) -> list[int]:
    return [record.n for record in records]


def open_log(path: Path) -> JsonlEventLog:
    log = JsonlEventLog(path)
    log.open()
    return log


@dataclass
class Reader:
    """A client that remembers how far it has read, and what it got since it joined."""

    run_id: str | None
    cursor: int = 0
    joined_at: int = 0
    got: list[Event] = field(default_factory=list)

    def take(self, records: list[Record]) -> None:
        for record in records:
            assert record.n > self.cursor, "a number did not rise"
            assert decode_as(record.data, Event) == record.event  # type: ignore[arg-type]
            self.cursor = record.n
            self.got.append(record.event)

    def reconnect(self, after: int) -> None:
        self.cursor = self.joined_at = after
        self.got = []

    def check(self, history: list[Event]) -> None:
        """It got all that is stored of what came since it joined, and deltas only where there were some."""
        meant = [e for e in history if e.n > self.joined_at and self.run_id in (None, e.run_id)]
        assert [e for e in self.got if is_stored(e)] == [e for e in meant if is_stored(e)]
        assert {e.n for e in self.got} <= {e.n for e in meant}


class ReadersAndWriter(RuleBasedStateMachine):
    """One log with its writer; readers that join, leave and come back; eviction, folding, restarts, damage."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "s.jsonl"
        self.log = self.opened()
        self.history: list[Event] = []
        self.readers: list[Reader] = []
        self.begun: set[str | None] = set()
        self.base = 0
        self.seq_base: dict[str, int] = {}

    def opened(self, keep: str | None = None) -> JsonlEventLog:
        log = JsonlEventLog(self.path)
        log.buffer = EventBuffer(fold_events=12)
        scan = log.open()
        if keep is not None:
            log.keep_in_memory(scan, keep)
        return log

    @initialize()
    def first_reader(self) -> None:
        self.readers.append(Reader(None))

    @rule(
        run_id=st.sampled_from((*RUNS, None)),
        kinds=st.lists(st.sampled_from(["start", "delta", "delta", "end", "done"]), min_size=1, max_size=6),
    )
    def append(self, run_id: str | None, kinds: list[str]) -> None:
        if run_id not in self.begun:
            # As in a run: a delta needs its message's start before it.
            self.begun.add(run_id)
            kinds = ["start", *kinds]
        events = [event_of("queue" if run_id is None else kind) for kind in kinds]
        made = self.log.emit(events, run_id)
        last = max(self.base, self.history[-1].n if self.history else 0)
        assert [event.n for event in made] == list(range(last + 1, last + 1 + len(made)))
        if run_id is not None:
            known = [event.seq or 0 for event in self.history if event.run_id == run_id]
            seq = max([self.seq_base.get(run_id, 0), *known])
            assert [event.seq for event in made] == list(range(seq + 1, seq + 1 + len(made)))
            assert self.log.last_seq(run_id) == made[-1].seq
        self.history += made
        assert self.log.buffer.last == made[-1].n

    @rule(run_id=st.sampled_from((*RUNS, None)))
    def join_late(self, run_id: str | None) -> None:
        self.readers.append(Reader(run_id))

    @rule(data=st.data(), waits=st.booleans())
    def read(self, data: st.DataObject, waits: bool) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        if waits:
            reader.take(self.log.wait(reader.cursor, 0, reader.run_id))
        else:
            reader.take(self.log.after(reader.cursor, reader.run_id))
        reader.check(self.history)

    @rule(data=st.data())
    def reconnect(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        reader.reconnect(data.draw(st.integers(0, self.history[-1].n if self.history else 0)))

    @rule(run_id=st.sampled_from(RUNS))
    def evict(self, run_id: str) -> None:
        self.log.evict_run(run_id)

    @precondition(lambda self: self.history)
    @rule(keep=st.sampled_from((*RUNS, None)), damage=st.sampled_from(DAMAGE))
    def reopen_from_disk(self, keep: str | None, damage: bytes) -> None:
        self.log.close()
        with self.path.open("ab") as file:
            file.write(damage)
        self.log = self.opened(keep)
        self.begun.clear()
        stored = [event for event in self.history if is_stored(event)]
        self.base = (stored[-1].n // NUMBER_STEP + 1) * NUMBER_STEP
        for event in stored:
            if event.run_id is not None:
                self.seq_base[event.run_id] = ((event.seq or 0) // NUMBER_STEP + 1) * NUMBER_STEP

    @invariant()
    def a_new_reader_gets_everything(self) -> None:
        reader = Reader(None)
        reader.take(self.log.after(0))
        reader.check(self.history)

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.folder)


ReadersAndWriter.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
test_every_reader_gets_the_same_events = ReadersAndWriter.TestCase


def test_eight_readers_of_a_busy_writer_all_get_the_same(tmp_path: Path) -> None:
    total, runs = 3_000, 30
    log = open_log(tmp_path / "s.jsonl")
    emitted: list[Event] = []
    got: dict[int, list[Event]] = {}

    def write() -> None:
        for number in range(total):
            run_id = f"run_{number * runs // total}"
            kind = "delta" if number % 3 else "end"
            emitted.extend(log.emit([event_of(kind)], run_id))
            if number % (total // runs) == 0 and number:
                log.evict_run(f"run_{number * runs // total - 1}")
        emitted.extend(log.emit([event_of("done")], "last"))

    def read(which: int) -> None:
        chance = random.Random(which)
        if which:
            joins_at = which * total // 10
            cursor = 0
            while cursor < joins_at:
                cursor = max([cursor, *numbers(log.wait(cursor, 20))])
        seen: list[Event] = []
        while not (seen and isinstance(seen[-1], RunDone)):
            found = log.wait(seen[-1].n if seen else 0, 20)
            assert found, "nothing came for 20 s"
            seen += [record.event for record in found]
            if chance.random() < 0.01:
                after = chance.randint(0, seen[-1].n)
                seen = [event for event in seen if event.n <= after]
        got[which] = seen

    threads = [threading.Thread(target=read, args=(which,), daemon=True) for which in range(8)]
    threads.append(threading.Thread(target=write, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not any(thread.is_alive() for thread in threads)
    stored = [event for event in emitted if is_stored(event)]
    assert len(stored) == len(range(0, total, 3)) + 1 and len(got) == 8
    for seen in got.values():
        assert [event.n for event in seen] == sorted({event.n for event in seen})
        assert [event for event in seen if is_stored(event)] == stored
    assert [record.event for record in open_log(tmp_path / "s.jsonl").after(0)] == stored
    log.close()


@pytest.mark.parametrize("by", ["after", "wait"])
def test_an_eviction_between_two_looks_hides_nothing(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "s.jsonl")
    log.emit([TurnStart(), TurnStart()], "run_a")
    log.emit([TurnStart()], "run_b")
    look = getattr(log.buffer, by)

    def evicted_just_before(*args: Any, **more: Any) -> list[Record]:
        monkeypatch.undo()
        log.evict_run("run_a")
        return look(*args, **more)

    monkeypatch.setattr(log.buffer, by, evicted_just_before)
    found = log.after(0) if by == "after" else log.wait(0, 20)
    assert numbers(found) == [1, 2, 3]
    log.close()


def test_numbers_go_on_at_the_next_million_after_each_restart(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = open_log(path)
    assert [event.n for event in log.emit([AgentStart(), delta(), TurnStart(), delta()], "run_a")] == [1, 2, 3, 4]
    log.close()
    log = open_log(path)
    assert log.last_seq("run_a") == NUMBER_STEP and log.last_seq("run_b") == 0
    assert [(e.n, e.seq) for e in log.emit([TurnStart()], "run_b")] == [(NUMBER_STEP + 1, 1)]
    assert [(e.n, e.seq) for e in log.emit([TurnStart()], "run_a")] == [(NUMBER_STEP + 2, NUMBER_STEP + 1)]
    log.close()
    log = open_log(path)
    assert [(e.n, e.seq) for e in log.emit([TurnStart()], "run_a")] == [(2 * NUMBER_STEP + 1, 2 * NUMBER_STEP + 1)]
    assert [(e.n, e.seq) for e in log.emit([TurnStart()], "run_b")] == [(2 * NUMBER_STEP + 2, NUMBER_STEP + 1)]
    log.close()


def test_deltas_are_shown_but_never_stored(tmp_path: Path) -> None:
    log = open_log(tmp_path / "s.jsonl")
    log.emit([TurnStart(), delta("secret"), TurnStart()], "run_a")
    assert numbers(log.after(0)) == [1, 2, 3]
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["n"] for line in lines] == [1, 3]
    log.close()


def test_an_event_is_on_the_disk_before_a_reader_can_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "s.jsonl")
    on_disk: list[int] = []
    show = log.buffer.append

    def looking(records: list[Record]) -> None:
        on_disk.append(len(EventFile(tmp_path / "s.jsonl").scan().records))
        show(records)

    monkeypatch.setattr(log.buffer, "append", looking)
    log.emit([TurnStart()], "run_a")
    log.emit([TurnStart()], "run_a")
    assert on_disk == [1, 2]
    log.close()


def test_torn_and_foreign_lines_are_skipped_and_the_next_line_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = open_log(path)
    log.emit([AgentStart(), TurnStart()], "run_a")
    log.close()
    good = path.read_bytes()
    first, second = good.splitlines(keepends=True)
    foreign = [
        b"\n",
        b"null\n",
        b"[]\n",
        b'{"type":"no_such_event","n":3}\n',
        b'{"type":"turn_start","n":"four"}\n',
        b"\xff\xfe\x00\n",
        b"[" * 3_000 + b"\n",
        first,  # an old number again
    ]
    path.write_bytes(first + b"".join(foreign) + second + second[: len(second) // 2])
    log = JsonlEventLog(path)
    scan = log.open()
    assert (numbers(scan.records), scan.highest_n, scan.highest_seq) == ([1, 2], 2, {"run_a": 2})
    log.emit([TurnStart()], "run_a")
    log.close()
    assert numbers(EventFile(path).scan().records) == [1, 2, NUMBER_STEP + 1]


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path / "not" / "yet" / "s.jsonl")
    assert log.after(0) == [] and not (tmp_path / "not").exists()
    assert log.emit([TurnStart()], "run_a")[0].n == 1
    log.close()
    assert numbers(open_log(tmp_path / "not" / "yet" / "s.jsonl").after(0)) == [1]


def test_a_log_is_for_its_owner_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path / "s.jsonl")
    log.emit([TurnStart()], "run_a")
    assert (tmp_path / "s.jsonl").stat().st_mode & 0o077 == 0


class FaultyOs:
    """The module os for the log, with one call that fails until it is mended."""

    def __init__(self, name: str, fault: Callable[..., Any]) -> None:
        self._name = name
        self._fault = fault
        self.mended = False

    def __getattr__(self, name: str) -> Any:
        return self._fault if name == self._name and not self.mended else getattr(os, name)


def raising(number: int) -> Callable[..., Any]:
    def fail(*args: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def half(descriptor: int, data: bytes) -> int:
    return os.write(descriptor, data[: len(data) // 2])


FAULTS = {
    "full": ("write", raising(errno.ENOSPC)),
    "read-only": ("open", raising(errno.EROFS)),
    "forbidden": ("open", raising(errno.EACCES)),
    "short": ("write", half),
    "broken": ("fstat", raising(errno.EIO)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_written_is_shown_kept_back_and_written_later(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    log = open_log(path)
    if FAULTS[fault][0] != "open":
        log.emit([AgentStart()], "run_a")
    faulty = FaultyOs(*FAULTS[fault])
    monkeypatch.setattr(log_module, "os", faulty)
    for _ in range(3):
        with pytest.raises(LogError, match=r"s\.jsonl"):
            log.emit([TurnStart(), delta()], "run_a")
    log.emit([delta()], "run_a")
    shown = numbers(log.after(0))
    assert shown == list(range(1, len(shown) + 1)) and len(shown) >= 7
    faulty.mended = True
    log.emit([TurnStart()], "run_a")
    stored = [record.n for record in log.after(0) if is_stored(record.event)]
    log.close()
    assert numbers(EventFile(path).scan().records) == stored
    assert all(json.loads(line) for line in path.read_bytes().splitlines()), "a half line was left"


def test_nothing_that_the_disk_lacks_is_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "s.jsonl")
    faulty = FaultyOs(*FAULTS["full"])
    monkeypatch.setattr(log_module, "os", faulty)
    with pytest.raises(LogError):
        log.emit([TurnStart()], "run_a")
    log.evict_run("run_a")
    assert numbers(log.after(0)) == [1]
    faulty.mended = True
    log.emit([TurnStart()], "run_b")
    log.evict_run("run_a")
    assert log.buffer.floor == 1 and numbers(log.after(0)) == [1, 2]
    log.close()


def test_a_closed_log_takes_nothing_more_and_ends_its_readers(tmp_path: Path) -> None:
    log = open_log(tmp_path / "s.jsonl")
    log.close()
    with pytest.raises(LogError, match="closed"):
        log.emit([TurnStart()], "run_a")
    assert not (tmp_path / "s.jsonl").exists()
    assert log.wait(1, 60) == []


def test_a_wait_for_what_was_evicted_reads_the_disk_once_and_then_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "s.jsonl")
    log.emit([TurnStart()], "run_a")
    log.evict_run("run_a")
    scans: list[int] = []
    scan = EventFile.scan

    def counted(file: EventFile) -> Any:
        scans.append(1)
        return scan(file)

    monkeypatch.setattr(EventFile, "scan", counted)
    assert numbers(log.wait(0, 60)) == [1]
    assert len(scans) == 1
    assert log.wait(0, 0.1, "run_b") == []
    assert len(scans) <= 3
    log.close()


def test_only_the_last_run_is_kept_in_memory_on_opening(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = open_log(path)
    log.emit([AgentStart()], "run_a")
    log.emit([AgentStart(), TurnStart()], "run_b")
    log.emit([QueueChanged(queue=[])])
    log.close()
    log = JsonlEventLog(path)
    log.keep_in_memory(log.open(), "run_b")
    assert numbers(log.buffer.after(0)) == [2, 3, 4] and log.buffer.floor == 1
    assert numbers(log.after(0)) == [1, 2, 3, 4]
    log.close()
