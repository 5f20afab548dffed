"""The scripted model: which turn it plays, how it times and breaks it, and what a bad script is told."""

import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.models.catalogue import ModelUnavailable, open_model
from app.models.offline import OfflineModel
from app.models.script import ScriptedFault
from app.protocol.cancel import CancelToken
from app.protocol.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.protocol.model import (
    Model,
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    complete,
)


def request(answers: int = 0) -> ModelRequest:
    """A request in which the model has answered so many times."""
    messages: list[Message] = [UserMessage(content="hello")]
    for number in range(answers):
        messages.append(AssistantMessage(content=f"answer {number}"))
        messages.append(ToolResultMessage(tool_call_id=str(number), content="ok"))
    return ModelRequest(system_prompt="", messages=messages, tools=[])


class WatchedToken(CancelToken):
    """A token that writes down the waits instead of waiting, and may be cancelled by the n-th."""

    def __init__(self, cancel_at: int | None = None) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._cancel_at = cancel_at

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if len(self.waits) == self._cancel_at:
            self.cancel("enough")
        return self.cancelled


class Script:
    """Writes scripts into a folder and opens them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "play.json"

    def open(self, *turns: dict[str, Any], **rest: Any) -> Model:
        self.path.write_text(json.dumps({"turns": list(turns), **rest}), encoding="utf-8")
        return open_model(f"script:{self.path}")

    def problem(self, content: str) -> str:
        self.path.write_text(content, encoding="utf-8")
        with pytest.raises(ModelUnavailable) as caught:
            open_model(f"script:{self.path}")
        assert str(self.path) in str(caught.value)
        return str(caught.value)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def events(model: Model, answers: int = 0, cancel: CancelToken | None = None) -> list[ModelEvent]:
    return list(model.stream(request(answers), cancel or CancelToken()))


def test_offline_is_the_offline_tutor() -> None:
    assert isinstance(open_model("offline"), OfflineModel)


@pytest.mark.parametrize("name", ["", "gpt", "Offline", "script:", "script", "scripts:x"])
def test_another_name_is_refused_with_the_right_forms(name: str) -> None:
    with pytest.raises(ValueError, match="script:FILE") as caught:
        open_model(name)
    assert isinstance(caught.value, ModelUnavailable)
    assert repr(name) in str(caught.value) and "offline" in str(caught.value)


def test_name_and_window_are_the_scripts(script: Script) -> None:
    model = script.open(name="A demonstration", contextWindow=1000)
    assert isinstance(model, Model)
    assert (model.name, model.context_window) == ("A demonstration", 1000)


def test_the_turn_is_chosen_by_the_answers_in_the_conversation(script: Script) -> None:
    model = script.open({"text": "one"}, {"text": "two"}, after={"text": "the end"})
    for _ in range(2):
        texts = [text_of(complete(model, request(answers), CancelToken(), 0).content) for answers in range(4)]
        assert texts == ["one", "two", "the end", "the end"]


def test_without_a_turn_for_after_it_says_that_the_script_has_ended(script: Script) -> None:
    reply = complete(script.open(), request(), CancelToken(), 0)
    assert "no more turns" in text_of(reply.content) and reply.stop_reason == "stop"


def test_a_turn_has_thinking_text_and_calls_in_this_order(script: Script) -> None:
    model = script.open(
        {
            "toolCalls": [{"name": "list_files"}, {"name": "read_file", "arguments": {"path": "循环"}, "id": "mine"}],
            "text": "Let us see.",
            "thinking": "Which file?",
        }
    )
    reply = complete(model, request(), CancelToken(), 0)
    assert reply.content == [
        ThinkingContent(thinking="Which file?"),
        TextContent(text="Let us see."),
        ToolCall(id="script-1-1", name="list_files", arguments={}),
        ToolCall(id="mine", name="read_file", arguments={"path": "循环"}),
    ]
    assert reply.stop_reason == "toolUse"
    assert reply.usage is not None and reply.usage.output > 0


def test_ids_that_are_not_given_differ_from_turn_to_turn(script: Script) -> None:
    model = script.open(after={"toolCalls": [{"name": "a"}, {"name": "a"}]})
    ids = [call.id for n in range(3) for call in tool_calls_of(complete(model, request(n), CancelToken(), 0))]
    assert len(set(ids)) == 6


def test_an_empty_id_is_kept_as_it_is_given(script: Script) -> None:
    model = script.open({"toolCalls": [{"name": "a", "id": ""}]})
    assert tool_calls_of(complete(model, request(), CancelToken(), 0))[0].id == ""


def test_a_stop_reason_can_be_set(script: Script) -> None:
    model = script.open({"text": "cut sho", "stopReason": "length"})
    assert complete(model, request(), CancelToken(), 0).stop_reason == "length"


def asked_for_a_summary(answers: int = 0) -> ModelRequest:
    return msgspec.structs.replace(request(answers), purpose="summary")


@pytest.mark.parametrize("answers", [0, 1, 5])
def test_a_summary_is_played_whatever_turn_it_is(script: Script, answers: int) -> None:
    model = script.open({"text": "one"}, {"text": "two"}, summary={"text": "in short"})
    told = complete(model, asked_for_a_summary(answers), CancelToken(), 0)
    assert text_of(told.content) == "in short" and told.stop_reason == "stop"
    assert "summary" in text_of(complete(script.open(), asked_for_a_summary(), CancelToken(), 0).content)
    empty = script.open(summary={})
    assert complete(empty, asked_for_a_summary(answers), CancelToken(), 0).content == []


@pytest.mark.parametrize(("kind", "reason"), [("error", "error"), ("cut", "error"), ("hang", "aborted")])
def test_a_summary_may_fail_as_a_turn_may(script: Script, kind: str, reason: str) -> None:
    model = script.open(summary={"text": "abcdef", "chunk": 2, "fault": {"kind": kind, "afterDeltas": 2}})
    told = complete(model, asked_for_a_summary(), WatchedToken(cancel_at=3), 0)
    assert (text_of(told.content), told.stop_reason) == ("abcd", reason)


def test_deltas_have_the_size_that_the_turn_says(script: Script) -> None:
    model = script.open({"text": "abcdefgh", "thinking": "xyz", "chunk": 3})
    made = events(model)
    assert [event.delta for event in made if isinstance(event, TextDelta)] == ["abc", "def", "gh"]
    assert [event.delta for event in made if isinstance(event, ThinkingDelta)] == ["xyz"]


def test_every_delta_waits_on_the_cancel_token(script: Script) -> None:
    cancel = WatchedToken()
    events(script.open({"text": "abcdef", "chunk": 2, "delayMs": 20}), cancel=cancel)
    assert cancel.waits == [0.02] * 3


def test_a_stop_during_a_wait_ends_the_stream_at_once(script: Script) -> None:
    model = script.open({"text": "abcdef", "chunk": 2, "delayMs": 1000})
    made = events(model, cancel=WatchedToken(cancel_at=2))
    assert [event.delta for event in made if isinstance(event, TextDelta)] == ["ab"]
    assert isinstance(made[-1], StreamError)
    assert (made[-1].reason, made[-1].error_message) == ("aborted", "enough")


def test_a_stop_before_the_first_event_is_an_abort(script: Script) -> None:
    cancel = CancelToken()
    cancel.cancel()
    for turn in ({"text": "abc"}, {}):
        made = events(script.open(turn), cancel=cancel)
        assert isinstance(made[0], StreamStart) and isinstance(made[-1], StreamError) and len(made) == 2


def faulty(script: Script, kind: str, **rest: Any) -> Model:
    return script.open({"text": "abcdef", "chunk": 2, "fault": {"kind": kind, "afterDeltas": 2, **rest}})


def test_an_error_comes_after_so_many_deltas(script: Script) -> None:
    made = events(faulty(script, "error", message="overloaded"))
    assert [event.delta for event in made if isinstance(event, TextDelta)] == ["ab", "cd"]
    assert isinstance(made[-1], StreamError)
    assert (made[-1].reason, made[-1].error_message) == ("error", "overloaded")


def test_a_cut_ends_the_stream_without_an_end(script: Script) -> None:
    made = events(faulty(script, "cut"))
    assert [event.delta for event in made if isinstance(event, TextDelta)] == ["ab", "cd"]
    assert not isinstance(made[-1], StreamError | StreamDone)


def test_a_raise_raises(script: Script) -> None:
    made: list[ModelEvent] = []
    with pytest.raises(ScriptedFault, match="boom"):
        made.extend(faulty(script, "raise", message="boom").stream(request(), CancelToken()))
    stream = faulty(script, "raise").stream(request(), CancelToken())
    assert isinstance(next(stream), StreamStart)


def test_a_hang_is_silent_until_it_is_cancelled(script: Script) -> None:
    model = faulty(script, "hang")
    cancel = CancelToken()
    made: list[ModelEvent] = []
    silent = threading.Event()

    class Noted(CancelToken):
        def wait(self, seconds: float) -> bool:
            if seconds > 60:
                silent.set()
            return cancel.wait(seconds)

        @property
        def cancelled(self) -> bool:
            return cancel.cancelled

    worker = threading.Thread(target=lambda: made.extend(model.stream(request(), Noted())))
    worker.start()
    assert silent.wait(10) and worker.is_alive()
    cancel.cancel()
    worker.join(10)
    assert not worker.is_alive()
    assert [event.delta for event in made if isinstance(event, TextDelta)] == ["ab", "cd"]
    assert isinstance(made[-1], StreamError) and made[-1].reason == "aborted"


def test_a_fault_beyond_the_last_delta_comes_at_the_end(script: Script) -> None:
    model = script.open({"text": "abc", "fault": {"kind": "error", "afterDeltas": 99}})
    made = events(model)
    assert [event.delta for event in made if isinstance(event, TextDelta)] == ["abc"]
    assert isinstance(made[-1], StreamError)


def test_a_fault_may_break_the_arguments_of_a_call(script: Script) -> None:
    call = {"name": "read_file", "arguments": {"path": "README.md"}}
    model = script.open({"toolCalls": [call], "chunk": 4, "fault": {"kind": "cut", "afterDeltas": 2}})
    made = events(model)
    assert len([event for event in made if isinstance(event, ToolCallDelta)]) == 2
    reply = complete(model, request(), CancelToken(), 0)
    assert tool_calls_of(reply) == [] and reply.stop_reason == "error"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"turns": [{"chunk": 0}]}', "$.turns[0].chunk"),
        ('{"turns": [{}, {"delayMs": "long"}]}', "$.turns[1].delayMs"),
        ('{"turns": [{"fault": {"kind": "explode"}}]}', "$.turns[0].fault.kind"),
        ('{"turns": [{"toolCalls": [{"arguments": {}}]}]}', "$.turns[0].toolCalls[0]"),
        ('{"turns": [{"stopReason": "error"}]}', "$.turns[0].stopReason"),
        ('{"turns": [{"txet": "hello"}]}', "txet"),
        ('{"turns": [], "after": 3}', "$.after"),
        ("{}", "turns"),
        ("[]", "object"),
        ("{", "JSON"),
        ("", "JSON"),
        ('{"turns": [{"toolCalls": [{"name": "a", "arguments": {"x": ' + "[" * 100_000, "JSON"),
    ],
)
def test_a_bad_script_is_refused_with_file_and_place(script: Script, content: str, words: str) -> None:
    assert words in script.problem(content)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"missing\.json.*No such file"):
        open_model(f"script:{tmp_path / 'missing.json'}")
    with pytest.raises(ModelUnavailable, match="directory"):
        open_model(f"script:{tmp_path}")
    with pytest.raises(ModelUnavailable):
        open_model("script:a\0b")


def test_a_script_may_begin_with_a_byte_order_mark_and_hold_lone_surrogates(script: Script) -> None:
    script.path.write_bytes(b'\xef\xbb\xbf{"turns": [{"text": "a\\ud83db"}]}')
    reply = complete(open_model(f"script:{script.path}"), request(), CancelToken(), 0)
    assert text_of(reply.content) == "a\ufffdb"
