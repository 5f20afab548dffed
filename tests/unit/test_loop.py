"""The loop: order of events, one result per call, what ends it, how it is taken up again."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.guards import nobody_to_ask
from app.agent.hooks import compose
from app.agent.loop import run_agent_loop
from app.agent.run import MAX_TURNS_EXCEEDED, RunContext, RunResult
from app.protocol.cancel import CancelToken
from app.protocol.events import MessageEnd, MessageUpdate, ToolDecisionMade, ToolExecutionStart
from app.protocol.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.protocol.model import StreamDone, StreamStart, TextDelta, TextStart, ToolCallEnd, ToolCallStart
from app.protocol.tools import Allow, Block, Confirm, Effect, Park, Rewrite, Settlement, ToolError, ToolResult
from tests.support import FakeModel, call, say, tool, trace

USER = UserMessage(content="q")


def run(model: Any, *, messages: list[Message] | None = None, tools: Any = (), **more: Any) -> RunResult:
    context = RunContext(system_prompt="s", messages=messages or [USER], tools=list(tools), model=model, **more)
    seen: list[Any] = []
    result = run_agent_loop(context, seen.append)
    assert seen == result.events
    return result


def results(result: RunResult) -> list[ToolResultMessage]:
    return [message for message in result.new_messages if isinstance(message, ToolResultMessage)]


def test_plain_answer_has_the_order_of_the_reference() -> None:
    result = run(FakeModel(say("hello")))
    assert trace(result.events) == [
        "turn_start",
        "message_start:assistant",
        "upd:text_start",
        "upd:text_delta",
        "upd:text_end",
        "message_end:assistant[stop]",
        "turn_end(0)",
    ]
    assert result.status == "done"
    assert [text_of(message.content) for message in result.new_messages] == ["hello"]  # type: ignore[union-attr]


def test_two_calls_run_one_after_another_and_end_in_source_order() -> None:
    model = FakeModel(call(("1", "A", {}), ("2", "B", {})), say("done"))
    result = run(model, tools=[tool("A"), tool("B")])
    assert trace(result.events)[:18] == [
        "turn_start",
        "message_start:assistant",
        "upd:toolcall_start",
        "upd:toolcall_end",
        "upd:toolcall_start",
        "upd:toolcall_end",
        "message_end:assistant[toolUse]",
        "tool_execution_start#1",
        "tool_decision#1:allow",
        "tool_execution_end#1",
        "message_start:toolResult#1",
        "message_end:toolResult#1[A ok]",
        "tool_execution_start#2",
        "tool_decision#2:allow",
        "tool_execution_end#2",
        "message_start:toolResult#2",
        "message_end:toolResult#2[B ok]",
        "turn_end(2)",
    ]
    assert [type(message).__name__ for message in model.requests[1].messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResultMessage",
        "ToolResultMessage",
    ]


def test_every_kind_of_failing_call_gets_its_result_in_source_order() -> None:
    def boom(parameters: Any, context: Any) -> ToolResult:
        raise RuntimeError("boom")

    def refuse(parameters: Any, context: Any) -> ToolResult:
        raise ToolError("not this way")

    model = FakeModel(
        call(
            ("1", "Z", {}),
            ("2", "A", {"x": "abc"}),
            ("3", "blocked", {}),
            ("4", "boom", {}),
            ("5", "refuse", {}),
            ("6", "A", {}),
        ),
        say("well"),
    )

    def hook(asked: ToolCall) -> Any:
        return Block("no", rule="r") if asked.name == "blocked" else Allow()

    tools = [tool("A"), tool("blocked"), tool("boom", boom), tool("refuse", refuse)]
    found = results(run(model, tools=tools, before_tool_call=hook))
    assert [message.tool_call_id for message in found] == ["1", "2", "3", "4", "5", "6"]
    assert [message.is_error for message in found] == [True] * 5 + [False]
    texts = [text_of(message.content) for message in found]
    assert "no tool named 'Z'" in texts[0] and "A, blocked, boom, refuse" in texts[0]
    assert "x" in texts[1] and '"abc"' in texts[1]
    assert texts[2] == "Blocked: no"
    assert "RuntimeError: boom" in texts[3]
    assert texts[4] == "not this way"


@pytest.mark.parametrize(
    "returned",
    [
        None,
        "text",
        ToolResult.of_text("t", object()),
        ToolResult(["text"]),  # type: ignore[list-item]
        ToolResult(None),  # type: ignore[arg-type]
        ToolResult([], is_error="no"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_storable_result_becomes_an_error_result(returned: Any) -> None:
    odd = tool("A", lambda parameters, context: returned)
    found = results(run(FakeModel(call(("1", "A", {})), say("x")), tools=[odd]))
    assert len(found) == 1 and found[0].is_error and "The tool A failed" in text_of(found[0].content)


def test_a_hook_that_raises_blocks_the_call() -> None:
    ran: list[int] = []

    def hook(asked: ToolCall) -> Any:
        raise KeyError("lost")

    noisy = tool("A", lambda parameters, context: ran.append(1) or ToolResult.of_text("ran"))
    found = results(run(FakeModel(call(("1", "A", {})), say("x")), tools=[noisy], before_tool_call=hook))
    assert not ran
    assert found[0].is_error and "KeyError" in text_of(found[0].content)


@pytest.mark.parametrize("nonsense", [None, False, "block", Block, object(), Rewrite(None, "r"), Confirm("?", args=3)])  # type: ignore[arg-type]
def test_a_hook_that_gives_no_decision_blocks(nonsense: Any) -> None:
    for hook in (lambda asked: nonsense, compose([lambda asked: nonsense])):
        result = run(FakeModel(call(("1", "A", {})), say("x")), tools=[tool("A")], before_tool_call=hook)
        assert results(result)[0].is_error and "gave no decision" in text_of(results(result)[0].content)


def test_a_hook_cannot_change_a_call_behind_the_back_of_the_events() -> None:
    def sly(asked: ToolCall) -> Any:
        asked.arguments["x"] = 666
        return Allow()

    got: list[int] = []
    keeps = tool("A", lambda parameters, context: got.append(parameters.x) or ToolResult.of_text("ok"))
    run(FakeModel(call(("1", "A", {"x": 1})), say("x")), tools=[keeps], before_tool_call=compose([sly]))
    assert got == [1]


@pytest.mark.parametrize(
    "raised",
    [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), type("Odd", (Exception,), {"__str__": lambda self: 1 / 0})()],
)
def test_whatever_a_tool_or_a_hook_raises_every_call_has_its_result(raised: BaseException) -> None:
    def fail(*anything: Any) -> Any:
        raise raised

    model = FakeModel(call(("1", "A", {}), ("2", "B", {})), say("x"))
    result = run(model, tools=[tool("A", fail), tool("B")])
    assert [found.is_error for found in results(result)] == [True, False] and result.status == "done"
    hooked = run(FakeModel(call(("1", "B", {})), say("x")), tools=[tool("B")], before_tool_call=fail)
    assert results(hooked)[0].is_error and hooked.status == "done"


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta(content_index=0, delta="kept"), ToolCallEnd(content_index=1, tool_call=None)],  # type: ignore[arg-type]
        [TextDelta(content_index=0, delta="kept"), TextDelta(content_index=0, delta=None)],  # type: ignore[arg-type]
        [
            TextDelta(content_index=0, delta="kept"),
            ToolCallEnd(content_index=1, tool_call=ToolCall(id="1", name=None, arguments="x")),  # type: ignore[arg-type]
            StreamDone(reason="stop"),
        ],
        [TextDelta(content_index=0, delta="kept"), StreamDone(reason="because")],  # type: ignore[arg-type]
    ],
)
def test_a_message_that_does_not_fit_ends_as_an_error_that_keeps_the_text(events: list[Any]) -> None:
    result = run(FakeModel(lambda request, cancel: iter(events)), tools=[tool("A")])
    message = result.new_messages[0]
    assert isinstance(message, AssistantMessage)
    assert (message.stop_reason, text_of(message.content), result.status) == ("error", "kept", "error")
    assert "does not fit" in (message.error_message or "")


def test_a_rewrite_is_shown_and_its_arguments_are_validated_again() -> None:
    got: list[int] = []

    def keep(parameters: Any, context: Any) -> ToolResult:
        got.append(parameters.x)
        return ToolResult.of_text("kept")

    model = FakeModel(call(("1", "A", {"x": 1}), ("2", "A", {"x": 9})), say("x"))

    def hook(asked: ToolCall) -> Any:
        return Rewrite({"x": 5} if asked.arguments["x"] == 1 else {"x": "bad"}, "because", "rule-1")

    result = run(model, tools=[tool("A", keep)], before_tool_call=hook)
    assert got == [5]
    decisions = [event for event in result.events if isinstance(event, ToolDecisionMade)]
    assert (decisions[0].args_before, decisions[0].args_after, decisions[0].reason, decisions[0].rule) == (
        {"x": 1},
        {"x": 5},
        "because",
        "rule-1",
    )
    assert [message.is_error for message in results(result)] == [False, True]


def test_start_events_carry_raw_arguments() -> None:
    result = run(FakeModel(call(("1", "A", {"x": "7"})), say("x")), tools=[tool("A")])
    starts = [event for event in result.events if isinstance(event, ToolExecutionStart)]
    assert starts[0].args == {"x": "7"}
    assert not results(result)[0].is_error


def test_a_length_stop_with_a_call_still_runs_it() -> None:
    asked = AssistantMessage(content=[ToolCall(id="1", name="A", arguments={})], stop_reason="length")
    result = run(FakeModel(asked, say("x")), tools=[tool("A")])
    assert text_of(results(result)[0].content) == "A ok" and result.status == "done"


def test_an_error_of_the_model_ends_the_run_and_keeps_partial_text() -> None:
    def breaks(request: Any, cancel: Any) -> Any:
        yield StreamStart()
        yield TextStart(content_index=0)
        yield TextDelta(content_index=0, delta="half")
        raise ConnectionError("cut")

    result = run(FakeModel(breaks))
    message = result.new_messages[0]
    assert isinstance(message, AssistantMessage)
    assert (text_of(message.content), message.stop_reason) == ("half", "error")
    assert "cut" in (message.error_message or "")
    assert result.status == "error" and trace(result.events)[-1] == "turn_end(0)"


def test_an_error_before_the_first_event_is_still_a_message() -> None:
    result = run(FakeModel(RuntimeError("500")))
    assert trace(result.events) == [
        "turn_start",
        "message_start:assistant",
        "message_end:assistant[error]",
        "turn_end(0)",
    ]


def test_a_stream_without_an_end_is_an_error() -> None:
    def cut(request: Any, cancel: Any) -> Any:
        yield StreamStart()
        yield TextDelta(content_index=0, delta="looks finished")

    message = run(FakeModel(cut)).new_messages[0]
    assert isinstance(message, AssistantMessage)
    assert message.stop_reason == "error" and "end marker" in (message.error_message or "")


def test_a_model_that_only_completes_works_too() -> None:
    class Completing:
        name = id = provider = api = "c"
        context_window = 1000

        def complete(self, request: Any, cancel: Any) -> AssistantMessage:
            return say("whole")

    result = run(Completing())
    assert result.status == "done"
    assert any(isinstance(event, MessageUpdate) for event in result.events)


def test_max_turns_ends_in_a_message_that_says_so() -> None:
    model = FakeModel(*[call((str(number), "A", {})) for number in range(9)])
    result = run(model, tools=[tool("A")], max_turns=3)
    assert len(model.requests) == 3 and result.status == "error"
    last = result.new_messages[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.stop_reason, last.error_message) == ("error", MAX_TURNS_EXCEEDED)
    assert len(results(result)) == 3


def test_turns_before_a_resume_count() -> None:
    before = [USER, call(("1", "A", {})), ToolResultMessage(tool_call_id="1", content="ok")]
    result = run(FakeModel(call(("2", "A", {}))), messages=before, tools=[tool("A")], max_turns=2)
    assert result.new_messages[-1].error_message == MAX_TURNS_EXCEEDED  # type: ignore[union-attr]


def test_cancel_while_streaming_keeps_text_and_answers_complete_calls() -> None:
    cancel = CancelToken()

    def turn(request: Any, token: CancelToken) -> Any:
        yield StreamStart()
        yield TextStart(content_index=0)
        yield TextDelta(content_index=0, delta="kept")
        yield from list(_call_events(1, "1"))
        yield ToolCallStart(content_index=2, id="2", name="A")
        token.cancel("enough")
        yield TextDelta(content_index=0, delta="lost")

    result = run(FakeModel(turn), tools=[tool("A")], cancel=cancel)
    message = result.new_messages[0]
    assert isinstance(message, AssistantMessage)
    assert (message.stop_reason, text_of(message.content), message.error_message) == (
        "aborted",
        "kept",
        "enough",
    )
    assert [made.id for made in tool_calls_of(message)] == ["1"]
    assert [text_of(found.content) for found in results(result)] == ["Not run: enough."]
    assert result.status == "aborted"


def _call_events(index: int, call_id: str) -> Any:
    yield ToolCallStart(content_index=index, id=call_id, name="A")
    yield ToolCallEnd(content_index=index, tool_call=ToolCall(id=call_id, name="A", arguments={}))


def test_cancel_in_a_tool_stops_the_rest_and_asks_no_model() -> None:
    cancel = CancelToken()

    def stop(parameters: Any, context: Any) -> ToolResult:
        cancel.cancel("stop it")
        context.cancel.check()
        raise AssertionError

    ran: list[str] = []
    later = tool("B", lambda parameters, context: ran.append("B") or ToolResult.of_text("ran"))
    model = FakeModel(call(("1", "A", {}), ("2", "B", {})), say("never"))
    result = run(model, tools=[tool("A", stop), later], cancel=cancel)
    assert [text_of(found.content) for found in results(result)] == ["Stopped: stop it", "Not run: stop it."]
    assert not ran and len(model.requests) == 1 and result.status == "aborted"


def test_cancelled_before_it_began_asks_nothing() -> None:
    cancel = CancelToken()
    cancel.cancel("no")
    model = FakeModel(say("never"))
    result = run(model, cancel=cancel, turn_open=True)
    assert (result.status, trace(result.events), model.requests) == ("aborted", ["turn_end(0)"], [])


def test_unanswered_calls_are_answered_first_without_a_new_turn_start() -> None:
    before = [
        USER,
        call(("1", "A", {}), ("2", "B", {})),
        ToolResultMessage(tool_call_id="1", content="ok"),
    ]
    result = run(FakeModel(say("after")), messages=before, tools=[tool("A"), tool("B")])
    words = trace(result.events)
    assert words[0] == "tool_execution_start#2"
    assert words[words.index("turn_end(2)") + 1] == "turn_start"
    assert [found.tool_call_id for found in results(result)] == ["2"]


def test_calls_of_a_broken_off_message_are_not_run_on_resume() -> None:
    broken = AssistantMessage(content=[ToolCall(id="1", name="A", arguments={})], stop_reason="aborted")
    result = run(FakeModel(say("after")), messages=[USER, broken], tools=[tool("A")])
    assert results(result)[0].is_error and "broken off" in text_of(results(result)[0].content)


def test_a_finished_conversation_needs_nothing() -> None:
    model = FakeModel()
    result = run(model, messages=[USER, say("done")])
    assert (result.status, result.events, model.requests) == ("done", [], [])


def test_park_returns_waiting_and_leaves_later_calls_unanswered() -> None:
    asks = tool("ask", lambda parameters, context: Park("interaction", {"q": 1}))
    result = run(FakeModel(call(("1", "A", {}), ("2", "ask", {}), ("3", "A", {}))), tools=[tool("A"), asks])
    assert result.status == "waiting"
    assert [found.tool_call_id for found in results(result)] == ["1"]
    assert result.parked == Park("interaction", {"q": 1}) and result.parked_call
    assert result.parked_call.id == "2"
    assert trace(result.events)[-1] == "tool_decision#2:allow"


def test_a_settlement_gives_the_parked_call_its_result_then_the_rest_runs() -> None:
    asks = tool(
        "ask",
        lambda parameters, context: Park("interaction", {}),
        settle=lambda parameters, settlement, context: ToolResult.of_text(f"said {settlement.data}"),
    )
    before = [USER, call(("2", "ask", {}), ("3", "A", {}))]
    result = run(
        FakeModel(say("thanks")),
        messages=before,
        tools=[tool("A"), asks],
        settlements={"2": Settlement("answered", "yes")},
    )
    words = trace(result.events)
    assert words.count("turn_start") == 1 and "tool_execution_start#2" not in words
    assert [text_of(found.content) for found in results(result)] == ["said yes", "A ok"]
    assert result.status == "done"


def test_confirm_parks_and_an_approval_runs_the_call_but_block_still_wins() -> None:
    def confirm(asked: ToolCall) -> Any:
        return Confirm("May I?", "r")

    before = [USER, call(("1", "A", {}))]
    waiting = run(FakeModel(), messages=before, tools=[tool("A")], before_tool_call=confirm)
    assert waiting.status == "waiting" and waiting.parked and waiting.parked.kind == "approval"
    approved = {"1": Settlement("approved")}
    ran = run(
        FakeModel(say("x")),
        messages=before,
        tools=[tool("A")],
        before_tool_call=confirm,
        settlements=approved,
    )
    assert text_of(results(ran)[0].content) == "A ok"
    blocked = run(
        FakeModel(say("x")),
        messages=before,
        tools=[tool("A")],
        before_tool_call=lambda asked: Block("now forbidden"),
        settlements=approved,
    )
    assert text_of(results(blocked)[0].content) == "Blocked: now forbidden"
    denied = run(
        FakeModel(say("x")),
        messages=before,
        tools=[tool("A")],
        before_tool_call=confirm,
        settlements={"1": Settlement("denied", "rather not")},
    )
    assert results(denied)[0].is_error and "rather not" in text_of(results(denied)[0].content)


def test_where_nobody_can_be_asked_confirm_blocks() -> None:
    hook = nobody_to_ask(lambda asked: Confirm("Overwrite it?"))
    result = run(FakeModel(call(("1", "A", {})), say("x")), tools=[tool("A")], before_tool_call=hook)
    assert results(result)[0].is_error and "Overwrite it?" in text_of(results(result)[0].content)


def test_of_two_hooks_that_want_a_person_asked_the_first_is_kept() -> None:
    hook = compose([lambda call: Confirm("A?"), lambda call: Confirm("B?")])
    decision = hook(ToolCall(id="1", name="A", arguments={}))
    assert isinstance(decision, Confirm) and decision.prompt == "A?"


@pytest.mark.parametrize("bad_id", ["", "  ", "taken", "twice"])
def test_a_call_id_that_is_empty_or_taken_is_replaced_before_the_message_is_stored(bad_id: str) -> None:
    numbers = count(1)
    calls = [(bad_id, "A", {}), ("twice", "A", {}), ("twice", "A", {})]
    result = run(
        FakeModel(call(*calls), say("x")),
        tools=[tool("A")],
        used_call_ids={"taken"},
        new_call_id=lambda: f"new{next(numbers)}",
    )
    stored = next(event.message for event in result.events if isinstance(event, MessageEnd))
    assert isinstance(stored, AssistantMessage)
    ids = [made.id for made in tool_calls_of(stored)]
    assert len(set(ids)) == 3 and "taken" not in ids and all(made.strip() for made in ids)
    assert [found.tool_call_id for found in results(result)] == ids
    streamed = [
        event.assistant_message_event.tool_call.id
        for event in result.events
        if isinstance(event, MessageUpdate) and hasattr(event.assistant_message_event, "tool_call")
    ]
    assert streamed == ids


def test_updates_and_effects_reach_the_context() -> None:
    effects: list[tuple[str, Effect]] = []

    def work(parameters: Any, context: Any) -> ToolResult:
        context.update("half")
        assert context.before_effect(Effect("t", "", "h")) is True
        return ToolResult.of_text("ok", {"k": 1})

    result = run(
        FakeModel(call(("1", "A", {})), say("x")),
        tools=[tool("A", work)],
        before_effect=lambda asked, effect: not effects.append((asked.id, effect)),
    )
    assert effects == [("1", Effect("t", "", "h"))]
    assert "tool_execution_update#1" in trace(result.events)
    assert results(result)[0].details == {"k": 1}


def test_what_on_event_raises_goes_to_the_caller() -> None:
    def full(event: Any) -> None:
        if isinstance(event, MessageEnd):
            raise OSError("disk full")

    context = RunContext(system_prompt="", messages=[USER], tools=[], model=FakeModel(say("x")))
    with pytest.raises(OSError, match="disk full"):
        run_agent_loop(context, full)


@given(st.lists(st.sampled_from(["ok", "unknown", "bad", "block", "raise", "hook"]), max_size=6), st.booleans())
def test_every_call_has_exactly_one_result_in_source_order(kinds: list[str], stop: bool) -> None:
    cancel = CancelToken()

    def work(parameters: Any, context: Any) -> ToolResult:
        if stop:
            cancel.cancel("mid")
        return ToolResult.of_text("fine")

    def fail(parameters: Any, context: Any) -> ToolResult:
        raise ValueError("no")

    def hook(asked: ToolCall) -> Any:
        if asked.name == "hook":
            raise RuntimeError
        return Block("b") if asked.name == "block" else Allow()

    names = {"ok": "ok", "unknown": "nope", "bad": "ok", "block": "block", "raise": "raise", "hook": "hook"}
    calls = [(str(number), names[kind], {"x": [] if kind == "bad" else 1}) for number, kind in enumerate(kinds)]
    asked = call(*calls) if calls else AssistantMessage(content=[TextContent(text="t")], stop_reason="stop")
    tools = [tool("ok", work), tool("block"), tool("raise", fail), tool("hook")]
    result = run(FakeModel(asked, say("end")), tools=tools, before_tool_call=hook, cancel=cancel)
    assert [found.tool_call_id for found in results(result)] == [str(number) for number in range(len(kinds))]
    words = trace(result.events)
    assert words.count("turn_start") == sum(word.startswith("turn_end") for word in words)
