"""Whole runs in one process: states, queue, branches, stops, deletion, and sessions that cannot be written."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.protocol.cancel import CancelToken
from app.protocol.entries import LabelEntry, MessageEntry, UnknownEntry
from app.protocol.events import (
    AgentEnd,
    AgentStart,
    LeafMoved,
    MessageEnd,
    MessageUpdate,
    QueueChanged,
    RunDone,
    SessionDeleted,
    SessionRenamed,
)
from app.protocol.messages import AssistantMessage, UserMessage, text_of, tool_calls_of
from app.protocol.model import ModelRequest, StreamStart, TextDelta, TextStart
from app.protocol.tools import Effect, ToolResult
from app.runs.errors import Conflict, NotFound, NotStored
from app.runs.live import LiveSession
from app.runs.supervisor import Queued, Supervisor
from app.runs.worker import Worker
from tests.running import (
    PATIENCE,
    Gate,
    InlineExecutor,
    abort,
    ask,
    ends_of,
    entries_of,
    events_of,
    lasting,
    other_process,
    resume,
    runs_of,
    said,
    settle,
    started,
)
from tests.support import call, say, tool

Make = Callable[..., Supervisor]


def queue_texts(live: LiveSession) -> list[list[str]]:
    return [[q.text for q in event.queue] for event in events_of(live) if isinstance(event, QueueChanged)]


def until_stopped(request: ModelRequest, cancel: CancelToken) -> Any:
    """A turn that speaks a little and goes on until it is cancelled."""
    yield StreamStart()
    yield TextStart(content_index=0)
    yield TextDelta(content_index=0, delta="half")
    assert cancel.wait(PATIENCE), "nobody stopped the model"
    yield TextDelta(content_index=0, delta="never")


def reads_half(live: LiveSession, run_id: str) -> None:
    """Waits until the run has said something."""
    seen = 0
    while not any(getattr(e, "assistant_message_event", None) for e in events_of(live, run_id)):
        found = live.log.wait(seen, PATIENCE, run_id)
        assert found, "the run said nothing"
        seen = found[-1].n


# Prompts


def test_a_prompt_runs_to_its_end_and_tells_it_once(make: Make) -> None:
    supervisor = make(call(("1", "A", {})), say("done"), tools=[tool("A")])
    begun = ask(supervisor, "hello")
    live, run = begun.live, begun.run
    assert (run.status, run.error, live.state) == ("done", "", "idle")
    snapshot = live.snapshot()
    assert said(snapshot.messages) == ["user: hello", "assistant: [1]", "result 1", "assistant: done"]
    events = events_of(live, run.run_id)
    assert isinstance(events[0], AgentStart) and isinstance(events[-1], RunDone)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    end = events[-1]
    assert (end.status, end.leaf_id, end.last_seq, end.session_id) == ("done", live.session.leaf_id, end.seq, live.id)
    made = next(event for event in events if isinstance(event, AgentEnd)).messages
    assert made == [entry.id for entry in snapshot.session.path()]
    assert [event.entry_id for event in events if isinstance(event, MessageEnd)] == made
    assert (snapshot.newest_run, snapshot.run_id, snapshot.interrupted) == (run.run_id, None, None)
    assert [(r.run_id, r.outcome) for r in runs_of(entries_of(live))] == [(run.run_id, "done")]


def test_the_next_prompt_continues_the_conversation_with_numbers_of_its_own(make: Make) -> None:
    supervisor = make(say("one"), say("two"))
    first, second = ask(supervisor, "a"), ask(supervisor, "b")
    assert first.live is second.live
    assert said(first.live.snapshot().messages) == ["user: a", "assistant: one", "user: b", "assistant: two"]
    assert events_of(first.live, second.run.run_id)[0].seq == 1
    assert [event.n for event in events_of(first.live)] == list(range(1, len(events_of(first.live)) + 1))


def test_without_a_session_the_one_used_last_is_meant(make: Make) -> None:
    supervisor = make(say("x"), say("y"))
    one, two = supervisor.create(), supervisor.create("named")
    assert supervisor.resolve(None) is two
    ask(supervisor, "q", one.id)
    assert supervisor.resolve(None) is one
    supervisor.close()
    again = make()
    assert again.resolve(None).id == one.id


def test_first_requests_at_the_same_time_share_one_session(make: Make) -> None:
    supervisor = make()
    together = threading.Barrier(8)
    found: list[str] = []

    def first() -> None:
        together.wait(PATIENCE)
        found.append(supervisor.resolve(None).id)

    threads = [threading.Thread(target=first, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == 8 and len(set(found)) == 1 and len(supervisor.list()) == 1


def test_a_second_prompt_while_one_runs_is_refused_and_changes_nothing(make: Make) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("x")))
    begun = started(supervisor.prompt(None, "first"))
    assert gate.reached.wait(PATIENCE)
    size = len(begun.live.session.entries)
    for refused in (
        lambda: supervisor.prompt(None, "second"),
        lambda: begun.live.move(None),
        lambda: resume(supervisor, begun.run.run_id),
    ):
        with pytest.raises(Conflict) as problem:
            refused()
        assert problem.value.reason == "running"
    assert (len(begun.live.session.entries), begun.live.state) == (size, "running")
    gate.opened.set()
    assert settle(begun.run).status == "done"


def test_two_sessions_run_side_by_side(make: Make) -> None:
    gates = [Gate(), Gate()]
    supervisor = make(*(gate.turn(say("x")) for gate in gates))
    runs = [started(supervisor.prompt(supervisor.create().id, "q")) for _ in gates]
    assert all(gate.reached.wait(PATIENCE) for gate in gates)
    assert [begun.live.state for begun in runs] == ["running", "running"]
    for gate in gates:
        gate.opened.set()
    assert [settle(begun.run).status for begun in runs] == ["done", "done"]
    for begun in runs:
        assert {event.run_id for event in events_of(begun.live)} == {begun.run.run_id}


def test_a_page_sees_the_message_that_is_being_written(make: Make) -> None:
    supervisor = make(until_stopped)
    begun = started(supervisor.prompt(None, "q"))
    reads_half(begun.live, begun.run.run_id)
    picture = begun.live.snapshot()
    assert (picture.state, picture.run_id) == ("running", begun.run.run_id)
    assert picture.partial_id is not None and {event.entry_id for event in picture.partial} == {picture.partial_id}
    assert "half" in str(picture.partial) and picture.n == events_of(begun.live)[-1].n
    abort(supervisor, begun.run.run_id)
    settle(begun.run)
    assert begun.live.snapshot().partial == []


# The queue


def test_queued_messages_are_taken_into_the_same_run_in_order(make: Make) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")), say("two"), say("three"))
    begun = started(supervisor.prompt(None, "a"))
    assert gate.reached.wait(PATIENCE)
    queued = [supervisor.prompt(None, text, queue=True) for text in ("b", "c")]
    assert all(isinstance(waiting, Queued) and waiting.run is begun.run for waiting in queued)
    gate.opened.set()
    assert settle(begun.run).status == "done"
    live = begun.live
    assert said(live.snapshot().messages) == [
        "user: a",
        "assistant: one",
        "user: b",
        "assistant: two",
        "user: c",
        "assistant: three",
    ]
    assert queue_texts(live) == [["b"], ["b", "c"], ["c"], []]
    assert {event.run_id for event in events_of(live)} == {begun.run.run_id, None}
    assert len(ends_of(live, begun.run.run_id)) == 1 and live.queue == []


def test_a_message_to_be_queued_starts_a_run_where_none_works(make: Make) -> None:
    supervisor = make(say("x"))
    settle(started(supervisor.prompt(None, "q", queue=True)).run)


def test_a_queued_message_can_be_taken_back(make: Make) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")), say("two"))
    begun = started(supervisor.prompt(None, "a"))
    assert gate.reached.wait(PATIENCE)
    kept, dropped = (supervisor.prompt(None, text, queue=True) for text in ("keep", "drop"))
    assert isinstance(kept, Queued) and isinstance(dropped, Queued)
    assert begun.live.unqueue(dropped.message.id).text == "drop"
    with pytest.raises(NotFound):
        begun.live.unqueue(dropped.message.id)
    gate.opened.set()
    settle(begun.run)
    with pytest.raises(NotFound):
        begun.live.unqueue(kept.message.id)
    assert "drop" not in str(said(begun.live.snapshot().messages))
    assert queue_texts(begun.live) == [["keep"], ["keep", "drop"], ["keep"], []]


def test_a_stop_gives_what_waits_back_and_keeps_partial_text(make: Make) -> None:
    supervisor = make(until_stopped)
    begun = started(supervisor.prompt(None, "a"))
    reads_half(begun.live, begun.run.run_id)
    supervisor.prompt(None, "later", queue=True)
    assert abort(supervisor, begun.run.run_id) == (begun.live, begun.run)
    assert settle(begun.run).status == "aborted"
    assert said(begun.live.snapshot().messages) == ["user: a", "assistant: half"]
    assert queue_texts(begun.live) == [["later"], []] and begun.live.queue == []
    supervisor.close()
    assert make().open(begun.live.id).queue == []


def test_a_stop_in_the_last_moment_takes_no_queued_message(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")))
    begun = started(supervisor.prompt(None, "a"))
    assert gate.reached.wait(PATIENCE)
    supervisor.prompt(None, "later", queue=True)
    finish = Worker.next_or_finish
    monkeypatch.setattr(Worker, "next_or_finish", lambda *args: begun.run.cancel.cancel() or finish(*args))
    gate.opened.set()
    assert settle(begun.run).status == "aborted"
    assert said(begun.live.snapshot().messages) == ["user: a", "assistant: one"] and begun.live.queue == []


def test_what_waits_outlives_an_error_and_is_taken_by_the_next_run(make: Make) -> None:
    gate = Gate()

    def fails(request: Any, cancel: Any) -> Any:
        list(gate.turn(say("x"))(request, cancel))
        raise RuntimeError("away")

    supervisor = make(fails, say("one"), say("two"))
    begun = started(supervisor.prompt(None, "a"))
    assert gate.reached.wait(PATIENCE)
    supervisor.prompt(None, "later", queue=True)
    gate.opened.set()
    assert settle(begun.run).status == "error"
    assert [waiting.text for waiting in begun.live.queue] == ["later"]
    ask(supervisor, "b")
    words = said(begun.live.snapshot().messages)
    assert words[2:] == ["user: b", "assistant: one", "user: later", "assistant: two"]


def test_nothing_can_be_queued_where_nothing_runs(make: Make) -> None:
    with pytest.raises(Conflict) as problem:
        make().create().enqueue("x")
    assert problem.value.reason == "idle"


# Branches


def test_the_next_message_is_the_child_of_the_entry_that_was_chosen(make: Make) -> None:
    supervisor = make(say("one"), say("two"), say("three"))
    live = ask(supervisor, "a").live
    ask(supervisor, "b")
    first, answer = live.session.path()[:2]
    live.move(answer.id)
    assert live.session.leaf_id == answer.id
    moved = [event for event in events_of(live) if isinstance(event, LeafMoved)]
    assert [event.leaf_id for event in moved] == [answer.id]
    ask(supervisor, "c")
    path = live.session.path()
    assert [entry.parent_id for entry in path] == [None, first.id, answer.id, path[2].id]
    assert said(live.snapshot().messages) == ["user: a", "assistant: one", "user: c", "assistant: three"]
    supervisor.close()
    assert make().open(live.id).session.leaf_id == path[-1].id


def test_a_move_outlives_a_restart_and_moving_to_the_leaf_does_nothing(make: Make) -> None:
    supervisor = make(say("one"), say("two"))
    live = ask(supervisor, "a").live
    first = live.session.path()[0].id
    live.move(first)
    size = len(live.session.entries)
    live.move(first)
    assert len(live.session.entries) == size
    supervisor.close()
    again = make(say("again"))
    assert again.open(live.id).session.leaf_id == first
    again.open(live.id).move(None)
    ask(again, "fresh")
    path = again.open(live.id).session.path()
    assert path[0].parent_id is None and said(again.open(live.id).snapshot().messages)[0] == "user: fresh"


def test_a_move_to_a_side_entry_goes_to_the_entry_that_it_hangs_on(make: Make) -> None:
    supervisor = make(say("one"), say("two"))
    live = ask(supervisor, "a").live
    first, last = live.session.path()
    live.rename("named")
    run_end = next(entry.id for entry in reversed(entries_of(live)) if entry.parent_id == last.id)
    live.move(first.id)
    leaf = entries_of(live)[-1].id
    label = LabelEntry(id=live.session.new_id(), parent_id=leaf, timestamp="", target_id=first.id, label="x")
    live.session.append(label)
    live.move(run_end)
    assert live.session.leaf_id == last.id
    live.move(label.id)
    assert live.session.leaf_id == first.id


def test_a_move_to_nowhere_is_refused(make: Make) -> None:
    live = make().create()
    with pytest.raises(NotFound):
        live.move("deadbeef")
    assert entries_of(live) == []


def test_calls_without_result_at_the_leaf_get_an_error_before_the_next_message(make: Make) -> None:
    supervisor = make(call(("1", "A", {}), ("2", "A", {})), say("one"), say("two"), tools=[tool("A")])
    live = ask(supervisor, "a").live
    asking, result = live.session.path()[1:3]
    live.move(asking.id)
    begun = ask(supervisor, "b")
    expected = ["user: a", "assistant: [1][2]", "result 1!", "result 2!", "user: b", "assistant: two"]
    assert said(live.snapshot().messages) == expected
    assert len(ends_of(live, begun.run.run_id)) == 1
    live.move(result.id)
    supervisor.equipment.model.turns.append(say("three"))  # type: ignore[union-attr]
    ask(supervisor, "c")
    assert said(live.snapshot().messages)[2:] == ["result 1", "result 2!", "user: c", "assistant: three"]


def test_a_call_that_was_begun_and_lost_its_result_is_not_said_to_be_unbegun(make: Make) -> None:
    def write(parameters: Any, context: Any) -> ToolResult:
        context.before_effect(Effect("note", "", "hash"))
        return ToolResult.of_text("written")

    supervisor = make(call(("1", "W", {})), say("one"), say("two"), tools=[tool("W", write)])
    live = ask(supervisor, "a").live
    live.move(live.session.path()[1].id)
    ask(supervisor, "b")
    result = live.snapshot().messages[2]
    assert result.is_error and "unknown" in text_of(result.content)  # type: ignore[union-attr]


@pytest.mark.parametrize(("found", "answer"), [("old", "done again"), ("new", "done before"), ("other", "unknown")])
def test_an_effect_that_was_begun_before_a_crash_is_done_once_or_left_alone(
    found: str, answer: str, make: Make
) -> None:
    gate = Gate()

    def begin_and_die(parameters: Any, context: Any) -> ToolResult:
        assert context.before_effect(Effect("note", "old", "new"))
        gate.reached.set()
        assert gate.opened.wait(PATIENCE)
        return ToolResult.of_text("too late")

    supervisor = make(call(("1", "W", {})), tools=[tool("W", begin_and_die)])
    begun = started(supervisor.prompt(None, "a"))
    assert gate.reached.wait(PATIENCE)
    supervisor.close()
    gate.opened.set()
    settle(begun.run)

    def take_up(parameters: Any, context: Any) -> ToolResult:
        again = context.before_effect(Effect("note", found, "new"))
        return ToolResult.of_text("done again" if again else "done before")

    resumed = resume(make(say("so"), tools=[tool("W", take_up)]), begun.run.run_id)
    assert settle(resumed.run).status == "done"
    result = resumed.live.snapshot().messages[2]
    assert answer in text_of(result.content) and result.is_error == (answer == "unknown")  # type: ignore[union-attr]


# Names, deletion


def test_a_name_is_stored_and_told(make: Make) -> None:
    supervisor = make()
    live = supervisor.create("first")
    supervisor.rename(live.id, "second")
    assert live.snapshot().name == "second"
    assert [event.name for event in events_of(live) if isinstance(event, SessionRenamed)] == ["first", "second"]
    supervisor.close()
    assert make().open(live.id).snapshot().name == "second"


def test_a_deleted_session_is_gone_until_it_is_restored(make: Make) -> None:
    supervisor = make(say("one"), say("two"))
    begun = ask(supervisor, "a")
    live, run_id = begun.live, begun.run.run_id
    last = live.log.buffer.last
    ends: list[Any] = []
    reader = threading.Thread(target=lambda: ends.extend(live.log.wait(last, PATIENCE)), daemon=True)
    reader.start()
    supervisor.delete(live.id)
    reader.join(PATIENCE)
    assert isinstance(ends[-1].event, SessionDeleted) and live.log.buffer.closed
    for gone in (lambda: supervisor.open(live.id), lambda: supervisor.session_of(run_id)):
        with pytest.raises(NotFound):
            gone()
    assert supervisor.list() == []
    with pytest.raises(NotFound):
        supervisor.restore("no-such-session")
    back = supervisor.restore(live.id)
    assert back is not live and supervisor.session_of(run_id) is back
    assert said(back.snapshot().messages) == ["user: a", "assistant: one"]
    assert len(ends_of(back, run_id)) == 1
    ask(supervisor, "b")
    assert said(back.snapshot().messages)[2:] == ["user: b", "assistant: two"]


def test_deletion_stops_what_works_first(make: Make) -> None:
    supervisor = make(until_stopped)
    begun = started(supervisor.prompt(None, "a"))
    reads_half(begun.live, begun.run.run_id)
    supervisor.delete(begun.live.id)
    assert begun.run.settled.is_set() and begun.run.status == "aborted"
    back = supervisor.restore(begun.live.id)
    assert said(back.snapshot().messages) == ["user: a", "assistant: half"]
    assert len(ends_of(back, begun.run.run_id)) == 1


def test_a_deletion_that_fails_is_told_as_such_and_loses_nothing(make: Make, tmp_path: Path) -> None:
    supervisor = make(say("one"), say("two"))
    live = ask(supervisor, "a").live
    (tmp_path / "trash").write_text("in the way")
    with pytest.raises(NotStored):
        supervisor.delete(live.id)
    assert not any(isinstance(event, SessionDeleted) for event in events_of(live))
    ask(supervisor, "b", live.id)
    assert said(supervisor.open(live.id).snapshot().messages)[-1] == "assistant: two"


def test_a_session_that_is_being_deleted_takes_nothing(make: Make) -> None:
    live = make().create()
    live.start_deleting()
    with pytest.raises(Conflict) as problem:
        live.begin("x", "run_x")
    assert problem.value.reason == "deleting"


# Stopping


def test_stopping_a_finished_run_changes_nothing(make: Make) -> None:
    supervisor = make(say("one"))
    begun = ask(supervisor)
    size = len(entries_of(begun.live))
    assert abort(supervisor, begun.run.run_id) == (begun.live, None)
    assert len(entries_of(begun.live)) == size and len(ends_of(begun.live, begun.run.run_id)) == 1


def interrupted_session(make: Make) -> tuple[str, str]:
    """A session whose process ended in the middle of a run with a message in the queue; returns it and the run."""
    supervisor = make(until_stopped)
    begun = started(supervisor.prompt(None, "a"))
    reads_half(begun.live, begun.run.run_id)
    supervisor.prompt(None, "later", queue=True)
    supervisor.close()
    begun.run.cancel.cancel()
    settle(begun.run)
    return begun.live.id, begun.run.run_id


def test_stopping_an_interrupted_run_ends_it_once(make: Make) -> None:
    session_id, run_id = interrupted_session(make)
    supervisor = make()
    live = supervisor.open(session_id)
    assert (live.snapshot().interrupted, live.state, ends_of(live, run_id)) == (run_id, "idle", [])
    assert abort(supervisor, run_id) == (live, None)
    assert abort(supervisor, run_id) == (live, None)
    assert [event.status for event in ends_of(live, run_id)] == ["aborted"] and live.interrupted is None
    with pytest.raises(Conflict) as problem:
        resume(supervisor, run_id)
    assert problem.value.reason == "not_interrupted"
    supervisor.close()
    again = make().open(session_id)
    assert again.interrupted is None and len(ends_of(again, run_id)) == 1


@pytest.mark.parametrize("how", ["abort", "move"])
def test_what_waited_behind_an_interrupted_run_is_given_back(make: Make, how: str) -> None:
    session_id, run_id = interrupted_session(make)
    supervisor = make()
    live = supervisor.open(session_id)
    if how == "abort":
        abort(supervisor, run_id)
    else:
        live.move(None)
    assert ([queued.text for queued in live.status().returned], live.queue) == (["later"], [])


def test_a_call_id_that_an_earlier_run_has_used_is_replaced(make: Make) -> None:
    asks = call(("1", "nothing", {}))
    supervisor = make(asks, say("one"), asks, say("two"))
    live = ask(supervisor).live
    ask(supervisor)
    made = [
        found.id
        for message in live.snapshot().messages
        if isinstance(message, AssistantMessage)
        for found in tool_calls_of(message)
    ]
    assert len(made) == len(set(made)) == 2


def test_an_interrupted_run_is_continued_under_its_own_id(make: Make) -> None:
    session_id, run_id = interrupted_session(make)
    supervisor = make(say("whole"), say("second"))
    begun = resume(supervisor, run_id)
    settle(begun.run)
    live = begun.live
    assert (live.id, begun.run.run_id, begun.run.status) == (session_id, run_id, "done")
    expected = ["user: a", "assistant: whole", "user: later", "assistant: second"]
    assert said(live.snapshot().messages) == expected
    events = events_of(live, run_id)
    assert [event.seq for event in events] == sorted({event.seq or 0 for event in events})
    discarded = [event for event in events if isinstance(event, MessageEnd) and event.discarded]
    assert len(discarded) == 1 and discarded[0].recovered
    assert len(ends_of(live, run_id)) == 1
    assert next(event for event in events if isinstance(event, AgentEnd)).messages == [
        entry.id for entry in live.session.path()
    ]


@pytest.mark.parametrize("goes_on", ["prompt", "move"])
def test_an_interrupted_run_ends_when_the_conversation_goes_on_without_it(make: Make, goes_on: str) -> None:
    session_id, run_id = interrupted_session(make)
    supervisor = make(say("other"), say("second"))
    live = supervisor.open(session_id)
    if goes_on == "prompt":
        ask(supervisor, "b", session_id)
    else:
        live.move(None)
    assert [event.status for event in ends_of(live, run_id)] == ["interrupted"] and live.interrupted is None
    supervisor.close()
    again = make().open(session_id)
    assert len(ends_of(again, run_id)) == 1 and again.interrupted is None


def test_a_run_that_had_only_to_end_is_ended_on_opening(make: Make, tmp_path: Path) -> None:
    supervisor = make(say("one"))
    begun = ask(supervisor)
    supervisor.close()
    session = tmp_path / "sessions" / f"{begun.live.id}.jsonl"
    lines = session.read_bytes().splitlines(keepends=True)
    assert b'"done"' in lines[-1]
    session.write_bytes(b"".join(lines[:-1]))
    log = tmp_path / "runs" / f"{begun.live.id}.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    live = make().open(begun.live.id)
    assert live.interrupted is None and runs_of(entries_of(live))[0].outcome == "done"
    ends = [event for event in events_of(live) if isinstance(event, AgentEnd | RunDone)]
    assert [type(event) for event in ends] == [AgentEnd, RunDone]
    assert ends[-1].recovered and ends[-1].last_seq == ends[-1].seq  # type: ignore[union-attr]


def test_every_run_of_a_session_whose_log_is_lost_is_told_again(make: Make, tmp_path: Path) -> None:
    supervisor = make(say("one"), say("two"))
    runs = [ask(supervisor, text) for text in ("a", "b")]
    live = runs[0].live
    told = [[type(event) for event in lasting(events_of(live, begun.run.run_id))] for begun in runs]
    supervisor.close()
    (tmp_path / "runs" / f"{live.id}.jsonl").unlink()
    again = make().open(live.id)
    for begun, types in zip(runs, told, strict=True):
        events = events_of(again, begun.run.run_id)
        assert [type(event) for event in events] == types
        assert all(event.recovered for event in events)
        made = [event.entry_id for event in events if isinstance(event, MessageEnd)]
        assert events[-1].leaf_id == made[-1]  # type: ignore[union-attr]
    assert again.interrupted is None


def test_readers_are_told_on_opening_what_the_log_missed_of_queue_leaf_and_name(make: Make, tmp_path: Path) -> None:
    supervisor = make(say("one"))
    live = ask(supervisor).live
    log = tmp_path / "runs" / f"{live.id}.jsonl"
    before = log.read_bytes()
    first = live.session.path()[0].id
    live.rename("named")
    live.move(first)
    supervisor.close()
    log.write_bytes(before)
    for _ in range(2):
        again = make()
        news = [event for event in events_of(again.open(live.id)) if event.run_id is None]
        assert [type(event) for event in news] == [LeafMoved, SessionRenamed]
        assert news[0].leaf_id == first and all(event.recovered for event in news)  # type: ignore[union-attr]
        again.close()


# Failures


def leave(*args: Any) -> Any:
    sys.exit("out")


@pytest.mark.parametrize("where", ["context", "record"])
def test_whatever_a_worker_raises_ends_in_one_run_done(where: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = make(call(("1", "A", {})), say("after"), tools=[tool("A")])
    live = supervisor.create()
    monkeypatch.setattr(Worker, where, leave)
    begun = ask(supervisor, "a", live.id)
    assert (begun.run.status, begun.run.error) == ("error", "out")
    assert [(event.status, event.error) for event in ends_of(live, begun.run.run_id)] == [("error", "out")]
    monkeypatch.undo()
    supervisor.equipment.model.turns[:] = [say("after")]  # type: ignore[union-attr]
    ask(supervisor, "b", live.id)
    assert said(live.snapshot().messages) == ["user: a", "user: b", "assistant: after"]


def test_a_tool_that_wants_to_end_the_process_ends_at_most_its_run(make: Make) -> None:
    supervisor = make(call(("1", "A", {})), say("after"), tools=[tool("A", leave)])
    begun = ask(supervisor, "a")
    assert len(ends_of(begun.live, begun.run.run_id)) == 1 and begun.live.state == "idle"


def test_a_failure_while_a_message_is_written_discards_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = make(say("x"))
    live = supervisor.create()
    record = Worker.record

    def fails(worker: Worker, event: Any, *more: Any) -> None:
        if isinstance(event, MessageUpdate):
            raise RuntimeError("lost")
        record(worker, event, *more)

    monkeypatch.setattr(Worker, "record", fails)
    begun = ask(supervisor, "q", live.id)
    assert begun.run.status == "error"
    ends = [event for event in events_of(live) if isinstance(event, MessageEnd)]
    assert [event.discarded for event in ends] == [False, True]
    assert said(live.snapshot().messages) == ["user: q"]


def test_a_worker_that_cannot_be_started_ends_its_run(make: Make) -> None:
    class NoThreads:
        def start(self, work: Any, name: str) -> None:
            raise RuntimeError("can't start new thread")

    begun = ask(make(executor=NoThreads()))
    assert begun.run.status == "error" and "can't start new thread" in begun.run.error
    assert begun.live.state == "idle" and len(ends_of(begun.live, begun.run.run_id)) == 1


def test_a_log_that_cannot_be_read_is_a_clear_error(make: Make, tmp_path: Path) -> None:
    supervisor = make()
    live = supervisor.create()
    supervisor.close()
    (tmp_path / "runs" / f"{live.id}.jsonl").mkdir(parents=True)
    again = make()
    with pytest.raises(NotStored, match="log"):
        again.open(live.id)
    (tmp_path / "runs" / f"{live.id}.jsonl").rmdir()
    assert again.open(live.id).session.read_only == ""


# Read-only


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_session_that_another_process_has_open_is_read_but_never_written(make: Make, tmp_path: Path) -> None:
    session_id, run_id = interrupted_session(make)
    with other_process(tmp_path / "sessions", tmp_path / "trash", session_id) as (says, other):
        assert says == "writable" and other.stdin is not None
        before = contents(tmp_path)
        supervisor = make(say("x"))
        live = supervisor.open(session_id)
        assert live.snapshot().read_only and said(live.snapshot().messages)[0] == "user: a"
        assert supervisor.session_of(run_id) is live and events_of(live, run_id)
        refused: list[Callable[[], Any]] = [
            lambda: supervisor.prompt(session_id, "b"),
            lambda: supervisor.prompt(session_id, "b", queue=True),
            lambda: live.move(None),
            lambda: supervisor.rename(session_id, "n"),
            lambda: live.unqueue("q"),
            lambda: supervisor.delete(session_id),
            lambda: resume(supervisor, run_id),
        ]
        for act in refused:
            with pytest.raises(Conflict) as problem:
                act()
            assert problem.value.reason == "read_only"
        abort(supervisor, run_id)
        supervisor.close()
        assert contents(tmp_path) == before
        other.stdin.close()
        assert other.wait(PATIENCE) == 0
    assert make().open(session_id).interrupted == run_id


# Runs by id


def test_a_hundred_finished_runs_stay_in_memory_and_older_ones_on_disk(make: Make) -> None:
    supervisor = make(executor=InlineExecutor(), max_finished_runs=3)
    supervisor.equipment.model.turns = [say(f"{number}") for number in range(8)]  # type: ignore[union-attr]
    one, two = supervisor.create(), supervisor.create()
    runs = [started(supervisor.prompt((one, two)[number % 2].id, "q")) for number in range(8)]
    in_memory = {r.event.run_id for live in (one, two) for r in live.log.buffer.after(0)}
    assert in_memory == {begun.run.run_id for begun in runs[-3:]}
    for begun in runs:
        types = [type(event) for event in lasting(events_of(begun.live, begun.run.run_id))]
        assert types[0] is AgentStart and types[-1] is RunDone and types.count(MessageEnd) == 2
        assert supervisor.session_of(begun.run.run_id) is begun.live
    assert Supervisor.__init__.__kwdefaults__["max_finished_runs"] == 100


def test_a_run_is_found_by_its_id_in_a_session_that_is_not_open(make: Make) -> None:
    supervisor = make(say("one"), say("two"))
    begun = ask(supervisor, "a", supervisor.create().id)
    ask(supervisor, begun.run.run_id, supervisor.create().id)
    supervisor.close()
    again = make()
    assert again.session_of(begun.run.run_id).id == begun.live.id
    assert said(again.session_of(begun.run.run_id).snapshot().messages) == ["user: a", "assistant: one"]


@pytest.mark.parametrize("run_id", ["run_0000", "", "../x", '"', "*", "a" * 100, "agent_start"])
def test_an_unknown_run_is_not_found(make: Make, run_id: str) -> None:
    supervisor = make(say("one"))
    ask(supervisor)
    for look in (supervisor.session_of, partial(abort, supervisor), partial(resume, supervisor)):
        with pytest.raises(NotFound) as problem:
            look(run_id)
        assert problem.value.reason == "unknown_run"


def test_an_unknown_session_is_not_found(make: Make) -> None:
    supervisor = make()
    for session_id in ("nope", "../x", ".", "a/b"):
        with pytest.raises(NotFound):
            supervisor.prompt(session_id, "x")


def test_what_a_person_says_with_lone_surrogates_is_stored_and_told(make: Make) -> None:
    begun = ask(make(say("one")), "half \ud83d")
    entry = begun.live.session.path()[0]
    assert isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage)
    assert text_of(entry.message.content) == "half \ufffd"
    assert not any(isinstance(found, UnknownEntry) for found in entries_of(begun.live))
    assert isinstance(begun.live.snapshot().messages[1], AssistantMessage)
