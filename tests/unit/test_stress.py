"""Many people at one session at the same time: no deadlock, one end for each run, nothing sent is lost."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.protocol.cancel import CancelToken
from app.protocol.events import Event, MessageUpdate, RunDone, SessionRenamed
from app.protocol.messages import UserMessage, text_of
from app.protocol.model import ModelEvent, ModelRequest, events_of_message
from app.runs.errors import Conflict
from app.runs.live import LiveSession
from app.runs.supervisor import Queued, Started, Supervisor
from tests.running import PATIENCE, abort, assert_valid, ends_of, entries_of, events_of, runs_of, supervisor_in
from tests.support import call, say, tool

PROMPTS = 12
ROUNDS = 40


class Answering:
    """Asks for two tools after each message of a person, then answers; its call ids are always the same."""

    name = id = provider = api = "answering"
    context_window = 32_000

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        if isinstance(request.messages[-1], UserMessage):
            return events_of_message(call(("1", "A", {}), ("2", "A", {}), text="let me see"))
        return events_of_message(say("well"))


class Round:
    """Twelve prompts, half of them content to wait, and one who presses stop after ``patience`` events."""

    def __init__(self, supervisor: Supervisor, patience: int) -> None:
        self.supervisor = supervisor
        self.patience = patience
        self.live: LiveSession = supervisor.create()
        self.together = threading.Barrier(PROMPTS + 2)
        self.begun: list[Started] = []
        self.queued: list[Queued] = []
        self.refused = 0
        self.stopped: list[str] = []
        self.read: list[Event] = []
        self.problems: list[BaseException] = []

    def threads(self) -> list[threading.Thread]:
        works: list[Any] = [lambda number=number: self.prompt(number) for number in range(PROMPTS)]
        works += [self.stop, self.follow]
        return [threading.Thread(target=self.guarded, args=(work,), daemon=True) for work in works]

    def guarded(self, work: Any) -> None:
        try:
            self.together.wait(PATIENCE)
            work()
        except BaseException as problem:
            self.problems.append(problem)

    def prompt(self, number: int) -> None:
        try:
            begun = self.supervisor.prompt(self.live.id, f"message {number}", queue=number % 2 == 0)
        except Conflict as problem:
            assert problem.reason == "running" and number % 2 == 1
            self.refused += 1
            return
        if isinstance(begun, Started):
            self.begun.append(begun)
        else:
            self.queued.append(begun)
        assert begun.run.settled.wait(PATIENCE), "a run never ended"

    def stop(self) -> None:
        seen: list[Event] = []
        while len(seen) < self.patience:
            found = self.live.log.wait(seen[-1].n if seen else 0, PATIENCE)
            assert found, "nothing happens"
            seen += [record.event for record in found]
        run_id = next(event.run_id for event in reversed(seen) if event.run_id is not None)
        _, run = abort(self.supervisor, run_id)
        self.stopped.append(run_id)
        assert run is None or run.settled.wait(PATIENCE)

    def follow(self) -> None:
        """Reads along until the name is told that the session gets when all runs are over."""
        while not (self.read and isinstance(self.read[-1], SessionRenamed)):
            found = self.live.log.wait(self.read[-1].n if self.read else 0, PATIENCE)
            self.read += [record.event for record in found]

    def finish(self) -> None:
        threads = self.threads()
        for thread in threads:
            thread.start()
        *others, follower = threads
        for thread in others:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread hangs"
        self.live.rename("over")
        follower.join(PATIENCE)
        assert not follower.is_alive() and self.problems == []


def check(round_: Round) -> None:
    live = round_.live
    assert len(round_.begun) + len(round_.queued) + round_.refused == PROMPTS and round_.begun
    assert (live.state, live.queue, live.interrupted) == ("idle", [], None)
    picture = live.snapshot()
    assert_valid(picture.messages)
    texts = [text_of(message.content) for message in picture.messages if isinstance(message, UserMessage)]
    assert len(texts) == len(set(texts))
    for begun in round_.begun:
        (end,) = ends_of(live, begun.run.run_id)
        assert end.status == begun.run.status in (("aborted", "done") if end.run_id in round_.stopped else ("done",))
    runs = {run.run_id: run.outcome for run in runs_of(entries_of(live))}
    assert runs == {begun.run.run_id: begun.run.status for begun in round_.begun}
    sent = {f"message {number}" for number in range(PROMPTS)}
    given_back = {queued.message.text for queued in round_.queued if queued.run.status == "aborted"}
    taken = {queued.message.text for queued in round_.queued if queued.run.status == "done"}
    assert taken <= set(texts) <= sent
    assert len(set(texts) | given_back) == len(round_.begun) + len(round_.queued)
    check_events(round_.read, live)


def check_events(read: list[Event], live: LiveSession) -> None:
    numbers = [event.n for event in read]
    assert numbers == sorted(set(numbers))
    assert [event for event in read if not isinstance(event, MessageUpdate)] == [
        event for event in events_of(live) if not isinstance(event, MessageUpdate)
    ]
    open_run = None
    for event in read:
        if event.run_id is not None:
            assert open_run in (None, event.run_id), "two runs of one session overlap"
            open_run = None if isinstance(event, RunDone) else event.run_id


def test_twelve_prompts_and_a_stop_at_once_leave_a_sound_session(tmp_path: Path) -> None:
    supervisor = supervisor_in(tmp_path, Answering(), [tool("A")], max_finished_runs=10)
    queued = aborted = 0
    for number in range(ROUNDS):
        round_ = Round(supervisor, 1 + number % 20)
        try:
            round_.finish()
            check(round_)
        except AssertionError as problem:
            raise AssertionError(f"round {number}") from problem
        queued += len(round_.queued)
        aborted += sum(begun.run.status == "aborted" for begun in round_.begun)
    assert queued and aborted
    supervisor.close()
