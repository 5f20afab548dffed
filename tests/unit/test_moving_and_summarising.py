"""Runs that summarise: older parts when the window fills or a person asks, and a branch that is left."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.models.offline import OfflineModel
from app.models.script import Fault, Script, ScriptedCall, ScriptedModel, ScriptedTurn
from app.protocol.cancel import CancelToken
from app.protocol.dialogue import CONVERSATION, parse, section_of
from app.protocol.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from app.protocol.estimate import estimate_message, estimate_tokens
from app.protocol.events import AgentEnd, AgentStart, Compaction, LeafMoved, RunDone
from app.protocol.messages import AssistantMessage, BranchSummaryMessage, CompactionSummaryMessage, UserMessage, text_of
from app.protocol.model import AnyModel, ModelRequest
from app.protocol.tools import ToolResult
from app.runs.errors import Conflict, NotFound
from app.runs.live import LiveSession
from app.runs.supervisor import Started, Supervisor
from tests.running import PATIENCE, ask, entries_of, events_of, settle, started, supervisor_in
from tests.support import call, say, tool

LONG = "word " * 500
SUMMARY = ScriptedTurn(text="In short.")


def script(*turns: ScriptedTurn, summary: ScriptedTurn = SUMMARY, window: int = 4_000) -> ScriptedModel:
    after = ScriptedTurn(text=f"answer {LONG}", chunk=5_000)
    return ScriptedModel(Script(turns=list(turns), after=after, summary=summary, context_window=window))


@pytest.fixture
def make(tmp_path: Path) -> Any:
    made: list[Supervisor] = []

    def supervisor(model: AnyModel, tools: Any = ()) -> Supervisor:
        made.append(supervisor_in(tmp_path, model, tools))
        return made[-1]

    yield supervisor
    for one in made:
        one.close()


def filled(supervisor: Supervisor, times: int = 3) -> LiveSession:
    for number in range(times):
        live = ask(supervisor, f"question {number}").live
    return live


def kinds(live: LiveSession) -> list[str]:
    return [type(event).__name__ for event in events_of(live) if not hasattr(event, "assistant_message_event")]


def last(entries: list[Entry], kind: type[Any]) -> Any:
    return next(entry for entry in reversed(entries) if isinstance(entry, kind))


def finished(begun: Started | LiveSession) -> Started:
    assert isinstance(begun, Started)
    settle(begun.run)
    return begun


# By hand


def test_older_parts_are_summarised_by_hand_in_a_run_of_its_own(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(window=8_000))
    live = filled(supervisor, 8)
    before = len(live.snapshot().messages)
    run = finished(supervisor.compact(live.id, "formulas")).run
    assert run.status == "done" and live.state == "idle"
    entry = last(entries_of(live), CompactionEntry)
    assert entry.summary == "In short." and entry.tokens_before > 4_000 and live.session.leaf_id == entry.id
    messages = live.snapshot().messages
    assert isinstance(messages[0], CompactionSummaryMessage) and len(messages) < before
    of_run = events_of(live, run.run_id)
    assert [type(event) for event in of_run] == [AgentStart, Compaction, Compaction, AgentEnd, RunDone]
    begun, told, done = of_run[0], of_run[1], of_run[2]
    assert isinstance(begun, AgentStart) and begun.kind == "compact"
    assert isinstance(told, Compaction) and (told.status, told.part, told.parts) == ("started", 1, 1)
    assert isinstance(done, Compaction) and (done.status, done.entry_id, done.reason) == ("done", entry.id, "manual")
    assert done.tokens_before == entry.tokens_before > done.tokens_after > 0
    ask(supervisor, "go on", live.id)
    assert live.snapshot().messages[0] == messages[0], "and the next answer is made from it"


def test_what_would_gain_nothing_is_refused_at_once_and_leaves_no_trace(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script())
    live = supervisor.create()
    with pytest.raises(Conflict) as empty:
        supervisor.compact(live.id)
    ask(supervisor, "hi", live.id)
    count = len(entries_of(live))
    with pytest.raises(Conflict) as short:
        supervisor.compact(live.id)
    assert (empty.value.reason, short.value.reason) == ("empty", "nothing_gained")
    assert len(entries_of(live)) == count and live.state == "idle"


@pytest.mark.parametrize(
    ("summary", "status", "words"),
    [
        (ScriptedTurn(text="In sh", fault=Fault(kind="error", message="overloaded")), "error", "overloaded"),
        (ScriptedTurn(text="In sh", fault=Fault(kind="raise", message="broke")), "error", "broke"),
        (ScriptedTurn(text="In sh", fault=Fault(kind="cut")), "error", ""),
        (ScriptedTurn(text=" "), "error", "wrote nothing"),
        (ScriptedTurn(text=LONG * 20, chunk=60_000), "error", "longer than what it replaces"),
    ],
)
def test_a_summary_that_fails_is_told_and_changes_nothing(
    make: Callable[..., Supervisor], summary: ScriptedTurn, status: str, words: str
) -> None:
    supervisor = make(script(summary=summary, window=8_000))
    live = filled(supervisor, 8)
    before, leaf = live.snapshot().messages, live.session.leaf_id
    run = finished(supervisor.compact(live.id)).run
    assert run.status == status and words in run.error
    assert words in live.status().not_summarised and live.state == "idle"
    assert live.snapshot().messages == before and live.session.leaf_id == leaf
    ends = [event.status for event in events_of(live, run.run_id) if isinstance(event, Compaction)]
    assert ends[-1] == "failed"
    ask(supervisor, "still here", live.id)
    assert live.status().not_summarised == "", "and is forgotten with the next run"


def test_a_stop_ends_the_summary_and_changes_nothing(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(summary=ScriptedTurn(text="In short", fault=Fault(kind="hang")), window=8_000))
    live = filled(supervisor, 8)
    before = live.snapshot().messages
    begun = started(supervisor.compact(live.id))
    with pytest.raises(Conflict):
        live.move(None)
    with pytest.raises(Conflict):
        supervisor.compact(live.id)
    live.abort(begun.run.run_id)
    settle(begun.run)
    assert begun.run.status == "aborted" and live.snapshot().messages == before
    assert live.status().not_summarised == ""


def test_a_message_that_is_sent_meanwhile_waits_and_is_answered_behind_it(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(summary=ScriptedTurn(text="In short.", delay_ms=20), window=8_000))
    live = filled(supervisor, 8)
    begun = started(supervisor.compact(live.id))
    supervisor.prompt(live.id, "and then?", queue=True)
    settle(begun.run)
    path = live.session.path()
    assert isinstance(path[-3], CompactionEntry)
    assert isinstance(path[-2], MessageEntry) and text_of(path[-2].message.content) == "and then?"  # type: ignore[union-attr]


# When the window fills


def test_before_the_window_is_full_older_parts_are_summarised_and_the_lesson_goes_on(
    make: Callable[..., Supervisor],
) -> None:
    supervisor = make(script())
    live = filled(supervisor, 12)
    compactions = [entry for entry in entries_of(live) if isinstance(entry, CompactionEntry)]
    assert len(compactions) > 1
    size = live.snapshot().context_size
    assert size.tokens < 4_000 and isinstance(live.snapshot().messages[0], CompactionSummaryMessage)
    reasons = {event.reason for event in events_of(live) if isinstance(event, Compaction)}
    assert reasons == {"threshold"}
    asked = [e for e in live.session.path() if isinstance(e, MessageEntry) and isinstance(e.message, UserMessage)]
    assert len(asked) == 12, "everything stays readable"
    numbers = [event.n for event in events_of(live)]
    assert numbers == sorted(numbers)


def test_room_is_made_between_two_turns_of_a_run_too(make: Callable[..., Supervisor]) -> None:
    lookup = tool("look", lambda parameters, context: ToolResult.of_text(LONG))
    supervisor = make(LooksSixTimes(), tools=[lookup])
    run = ask(supervisor, "look six times").run
    live = supervisor.session_of(run.run_id)
    assert run.status == "done"
    path = live.session.path()
    assert any(isinstance(entry, CompactionEntry) for entry in path[:-2])
    results = [e for e in path if isinstance(e, MessageEntry) and hasattr(e.message, "tool_call_id")]
    assert len(results) == 6 and kinds(live).count("RunDone") == 1


class LooksSixTimes:
    """A model that counts by itself, whatever is left of the conversation in its request."""

    name = id = provider = api = "looks"
    context_window = 4_000
    asked = 0

    def complete(self, request: ModelRequest, cancel: CancelToken) -> AssistantMessage:
        if request.purpose == "summary":
            return say("In short.")
        self.asked += 1
        return call((f"c{self.asked}", "look", {})) if self.asked <= 6 else say("That is all.")


def test_where_no_summary_can_be_made_the_answer_comes_all_the_same(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(summary=ScriptedTurn(text=" ")))
    live = filled(supervisor, 5)
    assert all(isinstance(e, MessageEntry) for e in live.session.path())
    answers = [e for e in live.session.path() if isinstance(e, MessageEntry) and hasattr(e.message, "stop_reason")]
    assert len(answers) == 5 and live.status().not_summarised


def test_turns_that_were_summarised_still_count(make: Callable[..., Supervisor]) -> None:
    looks = [ScriptedTurn(tool_calls=[ScriptedCall(name="look")]) for _ in range(30)]
    lookup = tool("look", lambda parameters, context: ToolResult.of_text(LONG))
    supervisor = make(script(*looks), tools=[lookup])
    run = ask(supervisor, "look for ever").run
    live = supervisor.session_of(run.run_id)
    assert run.status == "error"
    assert live.snapshot().turns == supervisor.equipment.max_turns + 1, "the last one says that the turns are used up"


def test_a_long_history_is_summarised_part_by_part_each_with_what_came_before(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(window=100_000))
    live = filled(supervisor, 30)
    supervisor.equipment = type(supervisor.equipment)(
        OfflineSmall(), supervisor.equipment.tools, supervisor.equipment.hooks, "You teach."
    )
    finished(supervisor.compact(live.id))
    told = [event for event in events_of(live) if isinstance(event, Compaction) and event.status == "started"]
    assert len(told) > 2 and told[-1].part == told[-1].parts == len(told)
    summary = last(entries_of(live), CompactionEntry).summary
    assert "question 0" in summary or "earlier" in summary


def test_a_summary_that_a_smaller_model_has_no_room_for_is_summarised_in_parts_itself(
    make: Callable[..., Supervisor],
) -> None:
    facts = "\n".join(f"- Fact {number} holds." for number in range(1_500))
    supervisor = make(script(summary=ScriptedTurn(text=f"## To remember\n{facts}", chunk=50_000), window=200_000))
    live = filled(supervisor, 70)
    finished(supervisor.compact(live.id))
    ask(supervisor, "go on", live.id)
    small = OfflineSmall()
    supervisor.equipment = type(supervisor.equipment)(small, supervisor.equipment.tools, supervisor.equipment.hooks, "")
    finished(supervisor.compact(live.id))
    asked = [estimate_message(request.messages[0]) for request in small.asked]
    assert len(asked) > 3 and max(asked) < small.context_window
    sections = (section_of(text_of(request.messages[0].content), CONVERSATION) for request in small.asked)
    told = "".join(spoken.text for text in sections for spoken in parse(text))
    assert all(f"Fact {number} holds." in told for number in range(1_500)), "and none was kept from it"
    assert estimate_tokens(last(entries_of(live), CompactionEntry).summary) < small.context_window // 4


class OfflineSmall(OfflineModel):
    context_window = 6_000

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ModelRequest] = []

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Any:
        self.asked.append(request)
        return super().stream(request, cancel)


# Leaving a branch


def test_a_branch_is_left_with_a_summary_that_the_next_answer_knows(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(window=100_000))
    live = filled(supervisor, 3)
    first, leaf = live.session.path()[1].id, live.session.leaf_id
    run = finished(supervisor.move(live.id, first, summary=True, focus="pictures")).run
    assert run.status == "done"
    entry = last(entries_of(live), BranchSummaryEntry)
    assert (entry.parent_id, entry.from_id, entry.summary) == (first, leaf, "In short.")
    assert live.session.leaf_id == entry.id
    moved = [event for event in events_of(live) if isinstance(event, LeafMoved)]
    assert moved[-1].leaf_id == entry.id
    assert isinstance(live.snapshot().messages[-1], BranchSummaryMessage)
    ask(supervisor, "another way", live.id)
    again = supervisor_in(Path(live.session.header.cwd), script())
    try:
        supervisor.close()
        reopened = again.open(live.id)
        assert [type(m).__name__ for m in reopened.snapshot().messages][2] == "BranchSummaryMessage"
    finally:
        again.close()


def test_where_nothing_is_left_the_move_needs_no_summary(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(window=100_000))
    live = filled(supervisor, 2)
    path = live.session.path()
    live.move(path[1].id)
    assert isinstance(supervisor.move(live.id, path[3].id, summary=True), LiveSession), "down the same branch"
    assert live.session.leaf_id == path[3].id
    assert not any(isinstance(entry, BranchSummaryEntry) for entry in entries_of(live))
    with pytest.raises(NotFound):
        supervisor.move(live.id, "nowhere", summary=True)


@pytest.mark.parametrize("kind", ["error", "hang"])
def test_nothing_moves_when_the_summary_fails_or_is_stopped(make: Callable[..., Supervisor], kind: Any) -> None:
    supervisor = make(script(summary=ScriptedTurn(text="In", fault=Fault(kind=kind)), window=100_000))
    live = filled(supervisor, 2)
    leaf = live.session.leaf_id
    begun = supervisor.move(live.id, live.session.path()[0].id, summary=True)
    assert isinstance(begun, Started)
    if kind == "hang":
        live.abort(begun.run.run_id)
    settle(begun.run)
    assert begun.run.status == ("error" if kind == "error" else "aborted")
    assert live.session.leaf_id == leaf and live.state == "idle"
    assert not any(isinstance(entry, BranchSummaryEntry) for entry in entries_of(live))


def test_a_process_that_dies_while_it_summarises_leaves_an_idle_session(
    make: Callable[..., Supervisor], tmp_path: Path
) -> None:
    supervisor = make(script(summary=ScriptedTurn(text="In", fault=Fault(kind="hang")), window=8_000))
    live = filled(supervisor, 8)
    before, leaf = live.snapshot().messages, live.session.leaf_id
    begun = started(supervisor.compact(live.id))
    supervisor.close()
    begun.run.cancel.cancel()
    begun.run.settled.wait(PATIENCE)
    again = make(script(window=8_000))
    reopened = again.open(live.id)
    assert (reopened.state, reopened.interrupted, reopened.session.leaf_id) == ("idle", None, leaf)
    assert reopened.snapshot().messages == before
    ends = [e for e in events_of(reopened, begun.run.run_id) if isinstance(e, RunDone)]
    assert [end.status for end in ends] == ["interrupted"]
    finished(again.compact(live.id))
    assert isinstance(entries_of(reopened)[-2], CompactionEntry)


# Names, the main line, copies


def test_names_and_the_main_line_are_told_stored_and_read_again(
    make: Callable[..., Supervisor], tmp_path: Path
) -> None:
    supervisor = make(script(window=100_000))
    live = filled(supervisor, 1)
    first = live.session.path()[0].id
    live.label(first, "  the\nbeginning ")
    live.mark_main_line(first)
    outline = live.session.outline
    assert (outline.labels, outline.main_line) == ({first: "the beginning"}, first)
    names = [json.loads(line)["type"] for line in (tmp_path / "runs" / f"{live.id}.jsonl").read_bytes().splitlines()]
    assert names[-2:] == ["entry_labelled", "main_line_marked"]
    leaf = live.session.leaf_id
    supervisor.close()
    again = make(script())
    outline = again.open(live.id).session.outline
    assert (outline.labels, outline.main_line) == ({first: "the beginning"}, first)
    assert again.open(live.id).session.leaf_id == leaf
    again.open(live.id).label(first, "")
    again.open(live.id).mark_main_line("")
    assert (outline.labels, outline.main_line) == ({}, "")
    for wrong in (lambda: again.open(live.id).label("no", "x"), lambda: again.open(live.id).mark_main_line("no")):
        with pytest.raises(NotFound):
            wrong()


def test_the_way_to_an_entry_becomes_a_session_of_its_own(make: Callable[..., Supervisor], tmp_path: Path) -> None:
    supervisor = make(script(window=100_000))
    live = filled(supervisor, 3)
    live.rename("Rank")
    path = live.session.path()
    live.label(path[1].id, "here")
    live.label(path[5].id, "not there")
    copy = supervisor.fork(live.id, path[3].id)
    assert copy.id != live.id and copy.session.header.parent_session == f"{live.id}.jsonl"
    assert [entry.id for entry in copy.session.path()] == [entry.id for entry in path[:4]]
    lines = (tmp_path / "sessions" / f"{copy.id}.jsonl").read_bytes().split(b"\n")
    assert sum(b'"type":"session"' in line for line in lines) == 1
    assert [stored.raw for stored in live.session.entries if stored.entry.id in copy.session.outline.ids][:4] == lines[
        1:5
    ]
    assert copy.session.outline.labels == {path[1].id: "here"} and copy.session.outline.name == "Rank (copy)"
    count = len(live.session.outline)
    ask(supervisor, "on its own", copy.id)
    assert len(live.session.outline) == count, "the copy writes its own file"
    with pytest.raises(NotFound):
        supervisor.fork(live.id, "nowhere")


def test_what_is_sent_while_a_branch_is_summarised_goes_out_at_the_new_place(make: Callable[..., Supervisor]) -> None:
    supervisor = make(script(summary=ScriptedTurn(text="In short.", delay_ms=20), window=100_000))
    live = filled(supervisor, 2)
    first = live.session.path()[1].id
    begun = supervisor.move(live.id, first, summary=True)
    assert isinstance(begun, Started)
    supervisor.prompt(live.id, "and here?", queue=True)
    settle(begun.run)
    path = live.session.path()
    assert [type(entry).__name__ for entry in path[2:]] == ["BranchSummaryEntry", "MessageEntry", "MessageEntry"]
    assert text_of(path[3].message.content) == "and here?" and live.queue == []  # type: ignore[union-attr]
