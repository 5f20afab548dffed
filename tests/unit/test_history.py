"""What entries say about runs, queue and effects."""

from collections.abc import Iterable
from typing import Any

from app.protocol.entries import (
    QUEUED,
    RUN,
    TOOL_STARTED,
    CustomEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
)
from app.protocol.messages import AssistantMessage, Message, ToolCall, UserMessage
from app.runs.history import RunRecord
from tests.running import history_of, queue_of, runs_of

STAMP = "2026-01-02T03:04:05.678Z"
HI = UserMessage(content="hi")


def message(entry_id: str, parent_id: str | None = None, content: Message = HI) -> MessageEntry:
    return MessageEntry(id=entry_id, parent_id=parent_id, timestamp=STAMP, message=content)


def custom(kind: str, data: Any, parent_id: str | None = None) -> CustomEntry:
    return CustomEntry(id=f"c{id(data)}", parent_id=parent_id, timestamp=STAMP, custom_type=kind, data=data)


def begun(run_id: str) -> Entry:
    return custom(RUN, {"runId": run_id, "status": "started"})


def ended(run_id: str, reason: str = "done") -> Entry:
    return custom(RUN, {"runId": run_id, "status": "done", "reason": reason})


def queued(queue_id: str, status: str, text: str = "") -> Entry:
    return custom(QUEUED, {"id": queue_id, "status": status, "text": text})


def shape(runs: Iterable[RunRecord]) -> list[tuple[str, list[str], str | None]]:
    return [(run.run_id, run.messages, run.outcome) for run in runs]


def test_a_run_has_the_messages_between_its_start_and_its_end() -> None:
    entries = [
        message("before"),
        begun("a"),
        message("1"),
        custom("hint", {}),
        message("2"),
        ended("a"),
        message("between"),
        begun("b"),
        message("3"),
        ended("b", "aborted"),
        begun("c"),
    ]
    assert shape(runs_of(entries)) == [("a", ["1", "2"], "done"), ("b", ["3"], "aborted"), ("c", [], None)]


def test_a_run_without_an_end_loses_nothing_to_the_next_one() -> None:
    entries = [begun("a"), message("1"), begun("b"), message("2"), ended("a", "error"), ended("b")]
    assert shape(runs_of(entries)) == [("a", ["1"], "error"), ("b", ["2"], "done")]


def test_odd_run_entries_are_passed_over() -> None:
    odd = [custom(RUN, None), custom(RUN, {"runId": 3, "status": "started"}), custom(RUN, {"runId": "a"}), ended("x")]
    assert shape(runs_of([*odd, begun("a"), message("1"), custom(RUN, {"runId": "a", "status": "done"})])) == [
        ("a", ["1"], "done")
    ]


def test_the_newest_run_of_a_branch_made_its_newest_message() -> None:
    first, second = [message("1"), message("2", "1")], [message("3", "1"), message("foreign", "3")]
    settings = ModelChangeEntry(id="m", parent_id="2", timestamp=STAMP, provider="p", model_id="x")
    entries = [message("0"), begun("a"), *first, ended("a"), settings, begun("b"), *second[:1], ended("b"), second[1]]
    history = history_of(entries)
    assert [history.newest_run_at(name) for name in ("1", "2", "m")] == ["a", "a", "a"]
    assert [history.newest_run_at(name) for name in ("3", "foreign")] == ["b", "b"], "also below what no run made"
    assert [history.newest_run_at(name) for name in ("0", "nowhere", None)] == [None, None, None]


def test_the_queue_is_what_was_added_and_neither_taken_removed_nor_returned() -> None:
    entries = [queued(name, "added", f"text {name}") for name in "abcde"]
    entries += [queued("b", "taken"), queued("d", "removed"), queued("e", "returned"), queued("z", "taken")]
    entries += [custom(QUEUED, {"id": 1}), custom(QUEUED, {"id": "y", "status": "lost"})]
    assert [(waiting.id, waiting.text) for waiting in queue_of(entries)] == [("a", "text a"), ("c", "text c")]


def test_a_queued_message_was_taken_only_if_its_own_entry_is_there_too() -> None:
    taken = custom(QUEUED, {"id": "a", "status": "taken", "entryId": "1"})
    assert queue_of([queued("a", "added"), taken, message("1")]) == []
    assert [waiting.id for waiting in queue_of([queued("a", "added"), taken])] == ["a"]


def test_an_effect_counts_only_on_the_branch_of_its_call() -> None:
    asked = AssistantMessage(content=[ToolCall(id="t", name="write_note", arguments={})])
    here, there = message("here", None, asked), message("there", None, asked)
    begun_here = custom(TOOL_STARTED, {"toolCallId": "t", "target": "n", "before": "", "after": "h1"}, "here")
    begun_there = custom(TOOL_STARTED, {"toolCallId": "t", "target": "n", "before": "", "after": "h2"}, "there")
    entries: list[Entry] = [here, begun_here, there, begun_there]
    found = history_of(entries).effect_begun(lambda entry_id: entry_id == "here", "t")
    assert found is not None and found.after == "h1"
    assert history_of(entries).effect_begun(lambda entry_id: True, "other") is None
    assert history_of(entries).effect_begun(lambda entry_id: False, "t") is None
    incomplete = history_of([here, custom(TOOL_STARTED, {"toolCallId": "t"}, "here")])
    assert incomplete.effect_begun(lambda entry_id: True, "t") is None
