"""A disk that fails in the middle of a run: a clear error, one end for each run, nothing acknowledged is lost."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.protocol.cancel import CancelToken
from app.protocol.events import AgentEnd, Event, MessageUpdate
from app.protocol.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage, text_of
from app.protocol.model import ModelEvent, ModelRequest, events_of_message
from app.protocol.tools import Effect, ToolResult
from app.runs import log as log_module
from app.runs.active import ActiveRun
from app.runs.errors import NotStored
from app.runs.live import LiveSession
from app.runs.log import EventFile
from app.runs.supervisor import Supervisor
from app.runs.worker import Worker
from app.sessions.files import Files
from app.sessions.lines import parse
from tests.running import (
    InlineExecutor,
    assert_valid,
    ends_of,
    entries_of,
    events_of,
    lasting,
    runs_of,
    started,
    supervisor_in,
)
from tests.support import call, say, tool

APPENDS, LOG_APPENDS = 10, 30
"""How often a whole run of ``Teacher`` writes to the session file and to the log; a test counts them."""


@dataclass
class Disk:
    """A disk whose call number ``at`` fails, and with ``lasts`` all later ones, until it is mended."""

    kind: str = ""
    at: int = 0
    lasts: bool = True
    calls: int = 0
    failed: int = 0

    def is_failing(self) -> bool:
        self.calls += 1
        fails = self.at > 0 and (self.calls == self.at or (self.lasts and self.calls > self.at))
        self.failed += fails
        return fails

    def mend(self) -> None:
        self.at = 0

    def write(self, descriptor: int, data: bytes) -> int:
        if self.kind != "sync" and self.is_failing():
            if self.kind == "short":
                return os.write(descriptor, data[: len(data) // 2])
            number = getattr(errno, self.kind)
            raise OSError(number, os.strerror(number))
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        if self.kind == "sync" and self.is_failing():
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class DiskOfLog:
    """The module os for the log, with a disk's write."""

    def __init__(self, disk: Disk) -> None:
        self.write = disk.write

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@dataclass
class Teacher:
    """A model that answers from what stands last in the context; in its first words a follow-up is sent to it."""

    name = id = provider = api = "teacher"
    context_window = 32_000
    send: Callable[[], None] = lambda: None
    requests: list[ModelRequest] = field(default_factory=list)

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        self.requests.append(request)
        last = request.messages[-1]
        if isinstance(last, ToolResultMessage):
            return events_of_message(say(f"so {text_of(last.content)}"))
        assert isinstance(last, UserMessage)
        if text_of(last.content) != "first":
            return events_of_message(say(f"to {text_of(last.content)}"))
        self.send()
        return events_of_message(call(("", "W", {}), ("", "unknown", {})))


def write(parameters: Any, context: Any) -> ToolResult:
    context.before_effect(Effect("note", "", "hash"))
    return ToolResult.of_text("written")


@dataclass
class Bench:
    """A supervisor on a disk that can fail, and what it has acknowledged."""

    folder: Path
    disk: Disk
    acknowledged: list[str] = field(default_factory=list)
    teacher: Teacher = field(default_factory=Teacher)

    def open(self) -> tuple[Supervisor, LiveSession]:
        files = Files(write=self.disk.write, fsync=self.disk.fsync)
        supervisor = supervisor_in(
            self.folder, self.teacher, [tool("W", write)], files=files, executor=InlineExecutor()
        )
        return supervisor, supervisor.resolve(None)

    def prompt(self, supervisor: Supervisor, text: str = "first") -> Any:
        """Sends a prompt, and a follow-up while it runs; returns its run, or the error when it was refused."""

        def follow_up() -> None:
            try:
                supervisor.prompt(None, "follow-up", queue=True)
                self.acknowledged.append("follow-up")
            except NotStored:
                pass

        self.teacher.send = follow_up
        try:
            run = started(supervisor.prompt(None, text)).run
        except NotStored as problem:
            return problem
        self.acknowledged.insert(0, text)
        assert run.settled.is_set()
        return run

    @property
    def session_file(self) -> Path:
        (path,) = (self.folder / "sessions").glob("*.jsonl")
        return path

    @property
    def log_file(self) -> Path:
        return self.folder / "runs" / self.session_file.name


def users(live: LiveSession) -> list[str]:
    return [text_of(m.content) for m in live.snapshot().messages if isinstance(m, UserMessage)]


def assert_whole(bench: Bench, live: LiveSession) -> None:
    """Session and log tell of finished runs only, each with one end, in whole lines."""
    parsed = parse(bench.session_file.read_bytes(), live.id)
    assert parsed.skipped == [] and parsed.ends_with_newline
    assert_valid(live.snapshot().messages)
    runs = runs_of(entries_of(live))
    assert all(run.outcome for run in runs)
    logged = EventFile(bench.log_file).scan()
    assert len(logged.records) == len(bench.log_file.read_bytes().splitlines())
    for run in runs:
        assert len(ends_of(live, run.run_id)) == 1
        ended = [event for event in events_of(live, run.run_id) if isinstance(event, AgentEnd)]
        assert [event.messages for event in ended] == [run.messages]
    assert lasting(events_of(live)) == [record.event for record in logged.records]


def test_a_run_on_a_sound_disk_writes_as_often_as_these_tests_think(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, log_disk = Bench(tmp_path, Disk("ENOSPC")), Disk("ENOSPC")
    monkeypatch.setattr(log_module, "os", DiskOfLog(log_disk))
    supervisor, live = bench.open()
    bench.disk.calls = 0
    assert bench.prompt(supervisor).status == "done"
    assert (bench.disk.calls, log_disk.calls) == (APPENDS, LOG_APPENDS)
    assert users(live) == ["first", "follow-up"] == bench.acknowledged
    assert_whole(bench, live)
    supervisor.close()


@pytest.mark.parametrize("lasts", [True, False], ids=["until-mended", "once"])
@pytest.mark.parametrize("kind", ["ENOSPC", "EROFS", "EACCES", "short", "sync"])
def test_a_session_file_that_cannot_be_written_costs_nothing_that_was_acknowledged(
    kind: str, lasts: bool, tmp_path: Path
) -> None:
    for at in range(1, APPENDS + 1):
        bench = Bench(tmp_path / str(at), Disk(kind, lasts=lasts))
        supervisor, live = bench.open()
        with closing(supervisor):
            bench.disk.calls, bench.disk.at = 0, at
            fail_and_go_on(bench, supervisor, live)


def fail_and_go_on(bench: Bench, supervisor: Supervisor, live: LiveSession) -> None:
    before = bench.session_file.read_bytes()
    outcome = bench.prompt(supervisor)
    if bench.disk.failed:
        assert live.state == "idle"
        if isinstance(outcome, NotStored):
            assert "Nothing was saved" in str(outcome)
            assert bench.session_file.read_bytes() == before and events_of(live) == []
        elif outcome.status == "error":
            assert "Nothing was saved" in outcome.error
            assert [event.error for event in ends_of(live, outcome.run_id)] == [outcome.error]
        else:
            # Only a queued message or an effect was refused: the sender or the tool was told so, and the run went on.
            assert outcome.status == "done" and (bench.disk.kind == "sync" or not bench.disk.lasts)
    assert live.interrupted is None
    waiting = [queued.text for queued in live.queue]
    bench.disk.mend()
    again = bench.prompt(supervisor, "second")
    assert again.status == "done"
    assert set(users(live)) == set(bench.acknowledged)
    assert len(users(live)) == len(bench.acknowledged)
    assert all(users(live).index(text) > users(live).index("second") for text in waiting)
    assert_whole(bench, live)
    picture = live.snapshot()
    supervisor.close()
    reopened, live = bench.open()
    with closing(reopened):
        assert live.interrupted is None and live.queue == []
        assert (live.snapshot().messages, live.session.leaf_id) == (picture.messages, picture.leaf_id)
        assert_whole(bench, live)


@pytest.mark.parametrize("at", [2, 4, 6, 9, 10])
def test_a_process_that_ends_while_the_disk_still_fails_can_be_followed_by_another(at: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path, Disk("ENOSPC"))
    supervisor, live = bench.open()
    bench.disk.calls, bench.disk.at = 0, at
    run = bench.prompt(supervisor)
    assert run.status == "error"
    told = events_of(live)
    supervisor.close()
    bench.disk.mend()
    reopened, live = bench.open()
    with closing(reopened):
        assert live.interrupted is None, "this run was told to be over"
        assert bench.prompt(reopened, "second").status == "done"
        assert set(users(live)) == set(bench.acknowledged)
        assert_whole(bench, live)
        assert lasting(events_of(live))[: len(lasting(told))] == lasting(told)


def test_a_file_that_cannot_even_be_cut_back_is_closed_for_writing_and_mended_on_opening(tmp_path: Path) -> None:
    def stuck(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = Disk("short")
    bench = Bench(tmp_path, disk)
    supervisor = supervisor_in(
        tmp_path, Teacher(), files=Files(write=disk.write, fsync=disk.fsync, ftruncate=stuck), executor=InlineExecutor()
    )
    live = supervisor.resolve(None)
    assert bench.prompt(supervisor, "before").status == "done"
    disk.at = disk.calls + 2
    run = bench.prompt(supervisor, "torn")
    assert run.status == "error" and len(ends_of(live, run.run_id)) == 1
    assert live.snapshot().read_only
    supervisor.close()
    disk.mend()
    reopened, live = bench.open()
    with closing(reopened):
        assert len(live.session.skipped) == 1
        assert bench.prompt(reopened, "after").status == "done"
        assert users(live) == ["before", "torn", "after"]


@pytest.mark.parametrize("act", ["rename", "move"])
def test_what_a_person_changes_is_not_changed_when_it_cannot_be_stored(act: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, Disk("ENOSPC"))
    supervisor, live = bench.open()
    with closing(supervisor):
        bench.prompt(supervisor, "before")
        supervisor.rename(live.id, "old")
        picture, last = live.snapshot(), live.log.buffer.last
        bench.disk.at = bench.disk.calls + 1
        with pytest.raises(NotStored, match="Nothing was saved"):
            supervisor.rename(live.id, "new") if act == "rename" else live.move(None)
        assert live.snapshot() == picture and live.log.buffer.last == last


def test_a_queued_message_that_cannot_be_taken_back_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Disk("ENOSPC"))
    supervisor, live = bench.open()

    def change_of_mind() -> None:
        supervisor.prompt(None, "kept", queue=True)
        bench.disk.at = bench.disk.calls + 1
        with pytest.raises(NotStored):
            live.unqueue(live.queue[0].id)
        bench.disk.mend()

    with closing(supervisor):
        bench.teacher.send = change_of_mind
        assert started(supervisor.prompt(None, "first")).run.status == "done"
        assert users(live) == ["first", "kept"]


def test_what_a_person_does_is_on_the_disk_before_it_is_acknowledged(tmp_path: Path) -> None:
    disk = Disk()
    synced: list[int] = []

    def sync(descriptor: int) -> None:
        synced.append(disk.calls)

    teacher = Teacher()
    files = Files(write=disk.write, fsync=sync)
    supervisor = supervisor_in(tmp_path, teacher, [tool("W", write)], files=files, executor=InlineExecutor())
    live = supervisor.resolve(None)
    acts: dict[str, Callable[[], Any]] = {
        "prompt": lambda: live.begin("x", "run_x"),
        "queue": lambda: live.enqueue("x"),
        "unqueue": lambda: live.unqueue(live.queue[0].id),
        "effect": lambda: Worker(live, ActiveRun("r")).before_effect(
            ToolCall(id="1", name="W", arguments={}), Effect("t", "a", "b")
        ),
        "rename": lambda: live.rename("x"),
    }
    with closing(supervisor):
        for name, act in acts.items():
            act()
            assert synced[-1] == disk.calls, name
        assert live.run is not None
        Worker(live, live.run).next_or_finish("done")
        live.move(None)
        assert synced[-1] == disk.calls


def test_a_session_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Disk("ENOSPC", at=1))
    with pytest.raises(NotStored):
        bench.open()
    assert list((tmp_path / "sessions").glob("*.jsonl")) == []
    bench.disk.mend()
    supervisor, _ = bench.open()
    supervisor.close()


# The log


@pytest.mark.parametrize("lasts", [True, False], ids=["until-mended", "once"])
@pytest.mark.parametrize("kind", ["ENOSPC", "EROFS", "EACCES", "short"])
def test_a_log_that_cannot_be_written_stops_no_run_and_is_caught_up_later(
    kind: str, lasts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, LOG_APPENDS + 1, 2):
        bench = Bench(tmp_path / str(at), Disk())
        log_disk = Disk(kind, at, lasts)
        with monkeypatch.context() as patch:
            patch.setattr(log_module, "os", DiskOfLog(log_disk))
            supervisor, live = bench.open()
            assert bench.prompt(supervisor).status == "done"
            shown = events_of(live)
            assert [event.n for event in shown] == list(range(1, len(shown) + 1))
            assert log_disk.failed
            if lasts:
                assert any("event log" in problem for problem in live.snapshot().problems)
            log_disk.mend()
            assert bench.prompt(supervisor, "second").status == "done"
            assert live.snapshot().problems == []
            assert_whole(bench, live)
            supervisor.close()


@pytest.mark.parametrize("at", range(1, LOG_APPENDS + 6, 5))
def test_what_the_log_never_got_is_told_again_by_the_next_process(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, Disk())
    log_disk = Disk("ENOSPC", at)
    monkeypatch.setattr(log_module, "os", DiskOfLog(log_disk))
    supervisor, live = bench.open()
    bench.prompt(supervisor)
    bench.prompt(supervisor, "second")
    kinds = told_of(events_of(live))
    supervisor.close()
    log_disk.mend()
    reopened, live = bench.open()
    with closing(reopened):
        assert told_of(events_of(live)) == kinds
        assert_whole(bench, live)


def told_of(events: list[Event]) -> list[tuple[str, str, str | None]]:
    """What was told of each run, without deltas and decisions, which no entry implies."""
    passed_over = ("message_update", "tool_decision")
    names = [(event.run_id, str(type(event).__struct_config__.tag), event.entry_id) for event in events]
    return sorted((str(run_id), name, entry) for run_id, name, entry in names if run_id and name not in passed_over)


def test_both_disks_failing_at_once_still_end_the_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, Disk("ENOSPC"))
    log_disk = Disk("ENOSPC")
    monkeypatch.setattr(log_module, "os", DiskOfLog(log_disk))
    supervisor, live = bench.open()
    with closing(supervisor):
        bench.disk.at, log_disk.at = bench.disk.calls + 4, log_disk.calls + 12
        run = bench.prompt(supervisor)
        assert run.status == "error" and len(ends_of(live, run.run_id)) == 1
        assert any(isinstance(event, MessageUpdate) for event in events_of(live))
        bench.disk.mend()
        log_disk.mend()
        assert bench.prompt(supervisor, "second").status == "done"
        assert set(users(live)) == set(bench.acknowledged)
        assert isinstance(live.snapshot().messages[-1], AssistantMessage)
        assert_whole(bench, live)
