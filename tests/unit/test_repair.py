"""Repair: whatever part of a run's log a crash has swallowed, entries and log together tell the same story."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.protocol.entries import Entry, MessageEntry
from app.protocol.events import (
    AgentEnd,
    AgentStart,
    Event,
    LeafMoved,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueChanged,
    QueuedMessage,
    RunDone,
    SessionRenamed,
    ToolDecisionMade,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from app.protocol.messages import AssistantMessage, TextContent, ToolResultMessage, UserMessage
from app.protocol.model import events_of_message
from app.protocol.tools import ToolError
from app.runs.history import RunRecord
from app.runs.live import LiveSession
from app.runs.log import EventFile
from app.runs.repair import logged_as_done, missing_events, missing_session_events
from tests.running import InlineExecutor, entries_of, runs_of, started, supervisor_in
from tests.support import FakeModel, call, say, tool

Key = tuple[str, str | None, bool]


@dataclass
class Recorded:
    """All events of a session in order, and how many entries were stored when each was emitted."""

    entries: list[Entry]
    events: list[Event]
    stored: list[int]
    leaf_id: str | None


def recorded(folder: Path) -> Recorded:
    """A session of three runs: calls of every kind and a follow-up; an error; a branch at unanswered calls."""

    def refuse(parameters: Any, context: Any) -> Any:
        raise ToolError("not this way")

    def with_follow_up(request: Any, cancel: Any) -> Any:
        live.enqueue("and then?")
        return events_of_message(say("first answer"))

    model = FakeModel(
        call(("1", "good", {}), ("2", "bad", {}), text="looking"),
        call(("3", "unknown", {})),
        with_follow_up,
        say("second answer"),
        RuntimeError("the model is away"),
        say("third answer"),
    )
    supervisor = supervisor_in(folder, model, [tool("good"), tool("bad", refuse)], executor=InlineExecutor())
    live = supervisor.create()
    events: list[Event] = []
    stored: list[int] = []
    emit = live.log.emit

    def noting(batch: Any, run_id: str | None = None, **more: Any) -> Any:
        stored.extend(len(live.session.entries) for _ in batch)
        events.extend(emit(batch, run_id, **more))
        return events[-len(batch) :]

    live.log.emit = noting  # type: ignore[method-assign]
    started(supervisor.prompt(live.id, "start"))
    started(supervisor.prompt(live.id, "fail"))
    live.move(asking_entry(live))
    started(supervisor.prompt(live.id, "go on from here"))
    entries, leaf_id = entries_of(live), live.session.leaf_id
    supervisor.close()
    return Recorded(entries, events, stored, leaf_id)


def asking_entry(live: LiveSession) -> str:
    messages = messages_of(runs_of(entries_of(live))[0], entries_of(live))
    return next(entry.id for entry in messages if isinstance(entry.message, AssistantMessage))


def keys(events: list[Event]) -> list[Key]:
    """What is compared: type, entry or call, and whether a message was given up."""
    return [
        (
            str(type(event).__struct_config__.tag),
            getattr(event, "tool_call_id", None) or event.entry_id,
            isinstance(event, MessageEnd) and event.discarded,
        )
        for event in events
        if not isinstance(event, MessageUpdate | ToolDecisionMade)
    ]


def common(first: list[Key], second: list[Key]) -> int:
    pairs = zip(first, second, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def test_repair_completes_every_cut_of_a_log(tmp_path: Path) -> None:
    whole = recorded(tmp_path)
    assert len({event.run_id for event in whole.events if event.run_id}) == 3
    for cut in range(len(whole.events) + 1):
        # The entries as they were when the last event of the cut was written, and right before the next one was.
        counts = {whole.stored[cut - 1] if cut else 0, whole.stored[cut] if cut < len(whole.events) else -1}
        for count in counts - {-1}:
            for run in runs_of(whole.entries[:count]):
                logged = [event for event in whole.events[:cut] if event.run_id == run.run_id]
                uncut = [event for event in whole.events if event.run_id == run.run_id]
                check_repair(messages_of(run, whole.entries), logged, uncut)


def messages_of(run: RunRecord, entries: list[Entry]) -> list[MessageEntry]:
    return [entry for entry in entries if isinstance(entry, MessageEntry) and entry.id in run.messages]


def check_repair(messages: list[MessageEntry], logged: list[Event], uncut: list[Event]) -> None:
    made = missing_events(messages, logged)
    assert all(event.recovered for event in made)
    assert missing_events(messages, [*logged, *made]) == []
    told, meant = keys([*logged, *made]), keys(uncut)
    same = common(told, meant)
    stored = {entry.id for entry in messages}
    ended = {key[1] for key in told[:same] if key[0] == "message_end"}
    assert stored <= ended, "a stored message was not told"
    # Behind that only what was open is closed: a message that was never stored, and its turn.
    tail = told[same:]
    if tail and tail[0][0] == "message_end":
        _, entry_id, discarded = tail.pop(0)
        assert discarded and entry_id not in stored
        assert ("message_start", entry_id, False) in keys(logged)
    assert [key[0] for key in tail] in ([], ["turn_end"])
    opened = {event.entry_id for event in [*logged, *made] if isinstance(event, MessageStart)}
    closed = [event.entry_id for event in [*logged, *made] if isinstance(event, MessageEnd)]
    assert sorted(opened, key=str) == sorted(closed, key=str)


def test_opening_completes_every_cut_of_a_log_once(tmp_path: Path) -> None:
    whole = recorded(tmp_path)
    (log,) = (tmp_path / "runs").iterdir()
    lines = log.read_bytes().splitlines(keepends=True)
    meant = {run.run_id: run for run in runs_of(whole.entries)}
    for cut in range(len(lines) + 1):
        log.write_bytes(b"".join(lines[:cut]))
        told = [record.event for record in EventFile(log).scan().records]
        for _ in range(2):
            supervisor = supervisor_in(tmp_path, FakeModel())
            live = supervisor.resolve(None)
            assert live.interrupted is None and len(entries_of(live)) == len(whole.entries)
            supervisor.close()
        after = EventFile(log).scan()
        events = [record.event for record in after.records]
        assert events[:cut] == told and all(event.recovered for event in events[cut:])
        for run_id, of_run in after.by_run().items():
            kinds = [type(event) for event in of_run]
            assert [kinds.count(kind) for kind in (AgentStart, AgentEnd, RunDone)] == [1, 1, 1]
            assert kinds[-2:] == [AgentEnd, RunDone] and of_run[-1].status == meant[run_id].outcome  # type: ignore[union-attr]
        assert after.by_run().keys() == meant.keys()
        assert missing_session_events(events, [], [], whole.leaf_id, "") == []


def test_recovered_messages_are_what_is_stored(tmp_path: Path) -> None:
    whole = recorded(tmp_path)
    for run in runs_of(whole.entries):
        messages = messages_of(run, whole.entries)
        made = missing_events(messages, [])
        ends = [event for event in made if isinstance(event, MessageEnd)]
        assert [(event.entry_id, event.message) for event in ends] == [(e.id, e.message) for e in messages]
        starts = [event.message for event in made if isinstance(event, MessageStart)]
        assert all(m.content == [] for m in starts if isinstance(m, AssistantMessage | ToolResultMessage))


def run_with(*messages: Any) -> list[MessageEntry]:
    """The entries of a run with these messages: e0, e1 and so on."""
    return [
        MessageEntry(id=f"e{at}", parent_id=None, timestamp="", message=message) for at, message in enumerate(messages)
    ]


USER = UserMessage(content=[TextContent(text="q")])
ASKED = call(("1", "A", {"x": 1}), ("2", "A", {}))
RESULT = ToolResultMessage(tool_call_id="1", tool_name="A", content=[TextContent(text="ok")])


def names(events: list[Event]) -> list[str]:
    return [key[0] + ("!" if key[2] else "") for key in keys(events)]


def test_a_turn_stays_open_while_a_call_of_it_has_no_result() -> None:
    made = missing_events(run_with(USER, ASKED, RESULT), [])
    assert names(made) == [
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        "message_end",
    ]
    start = next(event for event in made if isinstance(event, ToolExecutionStart))
    assert (start.tool_call_id, start.args) == ("1", {"x": 1})
    assert next(event for event in made if isinstance(event, ToolExecutionEnd)).result["content"][0]["text"] == "ok"


def test_a_message_that_was_being_written_is_discarded_and_its_turn_ends() -> None:
    logged: list[Event] = [AgentStart(), TurnStart(), MessageStart(entry_id="e0", message=USER)]
    logged += [MessageEnd(entry_id="e0", message=USER), MessageStart(entry_id="lost", message=say(""))]
    made = missing_events(run_with(USER), logged)
    assert names(made) == ["message_end!", "turn_end"]
    assert made[0].entry_id == "lost" and isinstance(made[1], TurnEnd) and made[1].stop_reason == "interrupted"


def test_a_result_whose_call_another_run_made_is_not_told_as_taken_up() -> None:
    made = missing_events(run_with(RESULT, USER), [AgentStart()])
    assert names(made)[:4] == ["tool_execution_end", "message_start", "message_end", "turn_start"]


def test_the_end_of_a_run_is_found_in_its_log() -> None:
    end = RunDone(session_id="s", status="error", leaf_id=None, last_seq=4)
    assert logged_as_done([AgentStart(), AgentEnd(), end]) is end
    assert logged_as_done([AgentStart(), AgentEnd()]) is None


WAITING = QueuedMessage(id="q", text="later")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], []),
        ([QueueChanged(queue=[WAITING]), LeafMoved(leaf_id="x"), SessionRenamed(name="N")], ["queue", "leaf", "name"]),
        ([LeafMoved(leaf_id="x"), MessageEnd(entry_id="y"), MessageEnd(entry_id="z", discarded=True)], ["leaf"]),
        ([MessageEnd(entry_id="y"), LeafMoved(leaf_id=None)], []),
        ([MessageEnd(entry_id="y"), RunDone(session_id="s", status="done", leaf_id=None, last_seq=1)], []),
        ([QueueChanged(queue=[WAITING]), QueueChanged(queue=[])], []),
    ],
)
def test_readers_are_told_the_state_of_the_session_when_they_were_told_another(
    events: list[Event], expected: list[str]
) -> None:
    made = missing_session_events(events, [], [], None, "")
    kinds = {QueueChanged: "queue", LeafMoved: "leaf", SessionRenamed: "name"}
    assert [kinds[type(event)] for event in made] == expected  # type: ignore[index]
    assert all(event.recovered for event in made)
    assert missing_session_events([*events, *made], [], [], None, "") == []
