"""What is known of each step: times, decisions, durations, and that what is unknown stays so."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.events import (
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunDone,
    ToolDecisionMade,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from app.protocol.messages import AssistantMessage, ToolCall, UserMessage
from app.protocol.model import TextDelta, TextStart, ThinkingStart
from app.protocol.tools import Block, Rewrite, ToolContext, ToolResult
from app.runs.log import LogError
from app.runs.supervisor import Supervisor
from app.runs.workings import PARTIAL_CHARACTERS, Workings
from tests.running import PATIENCE, ask, entries_of, events_of, settle, started
from tests.support import call, say, tool

Make = Callable[..., Supervisor]


class Told:
    """Numbers events as a log does: n and seq rise by one, the time by ten milliseconds, from 1000 on."""

    def __init__(self) -> None:
        self.workings = Workings()
        self.n = 0

    def __call__(self, *events: Event, run_id: str = "r") -> Workings:
        for event in events:
            self.n += 1
            self.workings.add(
                msgspec.structs.replace(event, n=self.n, seq=self.n, run_id=run_id, ts=1000 + 10 * self.n)
            )
        return self.workings


def asks(*call_ids: str) -> AssistantMessage:
    return AssistantMessage(content=[ToolCall(id=call_id, name="look", arguments={}) for call_id in call_ids])


def message(entry_id: str, said: AssistantMessage) -> list[Event]:
    return [MessageStart(entry_id=entry_id, message=said), MessageEnd(entry_id=entry_id, message=said)]


def begin(call_id: str) -> ToolExecutionStart:
    return ToolExecutionStart(tool_call_id=call_id, tool_name="look", args={})


def end(call_id: str, **more: Any) -> ToolExecutionEnd:
    return ToolExecutionEnd(tool_call_id=call_id, tool_name="look", result={"content": []}, is_error=False, **more)


def decided(call_id: str, before: dict[str, Any], after: dict[str, Any]) -> ToolDecisionMade:
    return ToolDecisionMade(
        tool_call_id=call_id, tool_name="look", decision="rewrite", args_before=before, args_after=after, rule="r"
    )


def done(status: Any = "done", **more: Any) -> RunDone:
    return RunDone(session_id="s", status=status, leaf_id=None, last_seq=0, **more)


def test_a_message_knows_when_it_was_asked_for_begun_first_heard_and_ended() -> None:
    told = Told()
    told(AgentStart(), TurnStart(), *[MessageEnd(entry_id="u", message=UserMessage(content="q"))])
    told(MessageStart(entry_id="a", message=say("")))
    told(MessageUpdate(entry_id="a", assistant_message_event=TextStart(content_index=0)))
    told(MessageUpdate(entry_id="a", assistant_message_event=TextDelta(content_index=0, delta="x")))
    told(MessageUpdate(entry_id="a", assistant_message_event=TextDelta(content_index=0, delta="y")))
    facts = told(MessageEnd(entry_id="a", message=say("xy"))).messages["a"]
    assert (facts.asked, facts.started, facts.first, facts.ended) == (1030, 1040, 1060, 1080)
    assert (facts.first_kind, facts.run_id) == ("text", "r")
    assert (facts.n, facts.seq, facts.end_n, facts.end_seq) == (4, 4, 8, 8)
    assert told.workings.runs["r"].last_entry == "a"


def test_what_comes_first_may_be_a_thought() -> None:
    told = Told()
    told(MessageStart(entry_id="a", message=say("")))
    facts = told(MessageUpdate(entry_id="a", assistant_message_event=ThinkingStart(content_index=0))).messages["a"]
    assert (facts.first_kind, facts.first) == ("thinking", 1020)


def test_a_later_turn_is_asked_for_when_it_begins() -> None:
    told = Told()
    told(TurnStart(), *message("a", asks("c")), TurnStart(), *message("b", say("x")))
    assert told.workings.messages["b"].asked == 1040


def test_a_message_that_was_discarded_is_forgotten() -> None:
    told = Told()
    told(MessageStart(entry_id="a", message=say("")), MessageEnd(entry_id="a", discarded=True))
    assert told.workings.messages == {} and told.workings.runs == {}


def test_changed_arguments_are_kept_and_unchanged_ones_are_not() -> None:
    told = Told()
    told(*message("a", asks("c", "d")), begin("c"), decided("c", {}, {"path": "."}))
    told(end("c", duration_ms=7), begin("d"), decided("d", {"x": 1}, {"x": 1}))
    c, d = told.workings.calls["a", "c"], told.workings.calls["a", "d"]
    assert (c.args_before, c.args_after, c.decision, c.rule, c.duration_ms) == ({}, {"path": "."}, "rewrite", "r", 7)
    assert (d.args_before, d.args_after, d.duration_ms, d.running, d.answered) == (None, None, None, True, False)
    assert (c.started, c.n, c.seq, c.running, c.answered) == (1030, 3, 3, False, True)


def test_partial_output_is_kept_only_while_the_call_runs_and_only_its_end() -> None:
    def update(text: str) -> ToolExecutionUpdate:
        return ToolExecutionUpdate(tool_call_id="c", tool_name="look", partial_result=text)

    told = Told()
    told(*message("a", asks("c")), update("early"))
    assert told.workings.call("a", "c") is None
    told(begin("c"), update("x" * PARTIAL_CHARACTERS + "y"))
    facts = told.workings.calls["a", "c"]
    assert len(facts.partial) == PARTIAL_CHARACTERS and facts.partial.endswith("xy")
    told(end("c"), update("late"))
    assert told.workings.calls["a", "c"].partial == ""


def test_calls_of_one_id_on_two_branches_are_kept_apart() -> None:
    told = Told()
    told(*message("a", asks("c")), begin("c"), end("c", duration_ms=1), done(), run_id="r1")
    told(*message("b", asks("c")), begin("c"), end("c", duration_ms=2), done(), run_id="r2")
    first, second = told.workings.call("a", "c"), told.workings.call("b", "c")
    assert first is not None and second is not None
    assert (first.duration_ms, second.duration_ms) == (1, 2)
    assert (first.run_id, second.run_id) == ("r1", "r2")


def test_a_call_that_is_done_again_after_a_crash_is_one_call() -> None:
    told = Told()
    told(*message("a", asks("c")), begin("c"), end("c", duration_ms=5))
    told.workings.nothing_runs()
    told(begin("c"))
    assert told.workings.calls["a", "c"].running and not told.workings.calls["a", "c"].answered
    told(end("c", duration_ms=9))
    assert list(told.workings.calls) == [("a", "c")] and told.workings.calls["a", "c"].duration_ms == 9


def test_a_call_that_a_later_run_answers_has_no_duration() -> None:
    told = Told()
    told(*message("a", asks("c")), begin("c"), run_id="r1")
    told(*message("other", asks("c")), begin("c"), end("c", duration_ms=3), run_id="r2")
    told(end("c"), run_id="r3")
    facts = told.workings.calls["a", "c"]
    assert (facts.answered, facts.running, facts.duration_ms) == (True, False, None)
    assert told.workings.calls["other", "c"].duration_ms == 3


def test_a_call_that_no_message_is_known_for_is_found_all_the_same() -> None:
    facts = Told()(end("c")).call("a", "c")
    assert facts is not None and (facts.entry_id, facts.started, facts.duration_ms) == ("", 0, None)


def test_recovered_events_have_no_times() -> None:
    told = Told()
    recovered: list[Event] = [AgentStart(), TurnStart(), *message("a", asks("c")), begin("c"), end("c"), done()]
    told(*[msgspec.structs.replace(event, recovered=True) for event in recovered])
    facts, made, run = told.workings.messages["a"], told.workings.calls["a", "c"], told.workings.runs["r"]
    assert (facts.asked, facts.started, facts.first, facts.ended) == (0, 0, 0, 0)
    assert (made.started, made.duration_ms, made.running, made.answered) == (0, None, False, True)
    assert (run.started, run.ended, run.status) == (0, 0, "done")


@pytest.mark.parametrize("how", ["run over", "process gone"])
def test_a_call_without_a_result_does_not_run_for_ever(how: str) -> None:
    told = Told()
    told(*message("a", asks("c")), begin("c"))
    if how == "run over":
        told(done("error", error="lost"))
    else:
        told.workings.nothing_runs()
    facts = told.workings.calls["a", "c"]
    assert (facts.running, facts.answered) == (False, False)


def test_a_copy_stays_as_it_was() -> None:
    told = Told()
    copy = told(AgentStart(), *message("a", asks("c")), begin("c")).copy()
    told(end("c"), done(), *message("b", say("x")))
    assert copy.calls["a", "c"].running and copy.runs["r"].status == "" and "b" not in copy.messages


EVENTS = st.sampled_from(
    [
        AgentStart(),
        TurnStart(),
        *message("a", asks("c", "d")),
        *message("b", asks("c")),
        MessageEnd(entry_id="a", discarded=True),
        begin("c"),
        begin("d"),
        decided("c", {}, {"x": 1}),
        ToolExecutionUpdate(tool_call_id="c", tool_name="look", partial_result="so far"),
        end("c"),
        end("d"),
        done("error", error="x"),
    ]
)


@given(st.lists(st.tuples(EVENTS, st.sampled_from(["r1", "r2"]), st.booleans()), max_size=25))
def test_any_order_of_events_is_taken_and_what_is_answered_does_not_run(
    events: list[tuple[Event, str, bool]],
) -> None:
    told = Told()
    for event, run_id, recovered in events:
        told(msgspec.structs.replace(event, recovered=recovered), run_id=run_id)
        for key, facts in told.workings.calls.items():
            assert key == (facts.entry_id, facts.call_id)
            assert not (facts.running and facts.answered)
            assert facts.running or not facts.partial
    told.workings.nothing_runs()
    assert not any(facts.running or facts.partial for facts in told.workings.calls.values())


def block_d(made: ToolCall) -> Any:
    if made.id == "d":
        return Block("not this one", rule="no-d")
    return Rewrite({"x": 5}, "better", "five")


def test_a_whole_run_is_known_and_still_known_after_a_restart(make: Make) -> None:
    supervisor = make(call(("c", "look", {}), ("d", "look", {})), say("ok"), tools=[tool("look")])
    supervisor.equipment = replace(supervisor.equipment, hooks=[block_d])
    live = ask(supervisor).live
    first, second = [
        entry.id for entry in entries_of(live) if isinstance(getattr(entry, "message", None), AssistantMessage)
    ]
    before = live.workings()
    assert live.snapshot().workings.calls == before.calls
    c, d = before.calls[first, "c"], before.calls[first, "d"]
    assert (c.decision, c.rule, c.reason, c.args_after) == ("rewrite", "five", "better", {"x": 5})
    assert (d.decision, d.rule, d.args_after, d.answered) == ("block", "no-d", None, True)
    assert c.duration_ms is not None and c.started
    run = before.runs[c.run_id]
    assert (run.status, run.last_entry, run.kind) == ("done", second, "prompt")
    assert 0 < before.messages[first].asked <= before.messages[first].started <= before.messages[first].ended
    supervisor.close()
    after = make().open(live.id).workings()
    assert (after.calls, after.runs) == (before.calls, before.runs)
    # The first word is not on disk: it is unknown now, and not replaced by another time.
    assert [facts.first for facts in after.messages.values()] == [0, 0]
    assert [facts.ended for facts in after.messages.values()] == [facts.ended for facts in before.messages.values()]


def test_a_call_is_seen_running_with_its_output_so_far(make: Make) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def slow(parameters: Any, context: ToolContext) -> ToolResult:
        context.update("half of it")
        reached.set()
        assert go_on.wait(PATIENCE)
        return ToolResult.of_text("all")

    supervisor = make(call(("c", "look", {})), say("ok"), tools=[tool("look", slow)])
    begun = started(supervisor.prompt(None, "q"))
    assert reached.wait(PATIENCE)
    seen = begun.live.workings()
    go_on.set()
    settle(begun.run)
    (facts,) = seen.calls.values()
    assert (facts.running, facts.partial, facts.decision) == (True, "half of it", "allow")
    (facts,) = begun.live.workings().calls.values()
    assert (facts.running, facts.partial, facts.answered) == (False, "", True)


def test_events_that_could_not_be_written_count_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = make(say("ok"))
    live = supervisor.create()

    def full(lines: Iterable[bytes]) -> None:
        raise LogError("the disk is full")

    monkeypatch.setattr(live.log._file, "append", full)  # type: ignore[attr-defined]
    begun = ask(supervisor, session_id=live.id)
    run = live.workings().runs[begun.run.run_id]
    assert run.status == "done" and run.end_n == events_of(live)[-1].n


def test_after_the_process_is_gone_no_call_runs_and_the_run_has_no_end(make: Make) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def slow(parameters: Any, context: ToolContext) -> ToolResult:
        reached.set()
        assert go_on.wait(PATIENCE)
        return ToolResult.of_text("all")

    first = make(call(("c", "look", {})), tools=[tool("look", slow)])
    begun = started(first.prompt(None, "q"))
    assert reached.wait(PATIENCE)
    first.close()
    go_on.set()
    settle(begun.run)
    live = make().open(begun.live.id)
    assert live.interrupted == begun.run.run_id
    (facts,) = live.workings().calls.values()
    assert (facts.running, facts.answered, facts.decision) == (False, False, "allow") and facts.started
    run = live.workings().runs[begun.run.run_id]
    assert (run.status, run.last_entry) == ("", facts.entry_id)


def test_a_session_that_another_process_writes_has_its_workings_too(make: Make) -> None:
    writer = make(call(("c", "look", {})), say("ok"), tools=[tool("look")])
    live = ask(writer).live
    read = make().open(live.id)
    assert read.session.read_only
    assert read.workings().calls == live.workings().calls != {}
