"""Sessions as the supervisor keeps them: opened once, read anew when that helps, closed when nobody needs them."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.protocol.events import QueueChanged, ToolExecutionUpdate
from app.runs import active
from app.runs import supervisor as supervisor_module
from app.runs.errors import Conflict, NotFound, NotStored
from app.runs.live import LiveSession
from app.runs.supervisor import Supervisor
from app.sessions.store import StoreError
from tests.running import PATIENCE, Gate, InlineExecutor, abort, ask, ends_of, events_of, resume, said, settle, started
from tests.support import call, say, tool

Make = Callable[..., Supervisor]


def ask_one(supervisor: Supervisor, text: str = "hello", session_id: str | None = None) -> tuple[LiveSession, str]:
    begun = ask(supervisor, text, session_id)
    return begun.live, begun.run.run_id


def test_a_session_that_is_being_created_is_not_opened_a_second_time(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = make()
    create = supervisor._store.create
    seen: list[LiveSession] = []

    def created_and_looked_at(**more: Any) -> Any:
        session = create(**more)
        other = threading.Thread(target=lambda: seen.append(supervisor.open(session.id)))
        other.start()
        others.append(other)
        return session

    others: list[threading.Thread] = []
    monkeypatch.setattr(supervisor._store, "create", created_and_looked_at)
    made = supervisor.create()
    others[0].join(PATIENCE)
    assert seen == [made]


@pytest.mark.parametrize("target", ["l1", "l2", "gone"])
def test_moving_to_labels_that_go_round_in_a_circle_is_refused(make: Make, tmp_path: Path, target: str) -> None:
    supervisor = make()
    live = supervisor.create()
    path = tmp_path / "sessions" / f"{live.id}.jsonl"
    supervisor.close()
    with path.open("a", encoding="utf-8") as file:
        for entry_id, parent_id in (("l1", "l2"), ("l2", "l1")):
            label = {"type": "label", "id": entry_id, "parentId": parent_id, "timestamp": "x", "targetId": "l1"}
            file.write(json.dumps(label) + "\n")
    live = make().open(live.id)
    with pytest.raises(NotFound):
        live.move(target)
    assert live.state == "idle" and not live.lock.locked()


def test_a_copied_session_file_keeps_its_runs_to_itself(make: Make, tmp_path: Path) -> None:
    gate = Gate()
    first = make(gate.turn(say("never")))
    begun = started(first.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    first.close()
    gate.opened.set()
    settle(begun.run)
    folder = tmp_path / "sessions"
    (folder / "copy.jsonl").write_bytes((folder / f"{begun.live.id}.jsonl").read_bytes())
    second = make(say("one"), say("two"))
    original, copy = second.open(begun.live.id), second.open("copy")
    assert original.interrupted == copy.interrupted == begun.run.run_id
    settle(second.resume(original, begun.run.run_id).run)
    assert (original.interrupted, copy.interrupted) == (None, begun.run.run_id)
    copy.abort(begun.run.run_id)
    assert copy.interrupted is None and second.session_of(begun.run.run_id) is original


def test_a_run_in_memory_is_read_without_the_disk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = make(say("one"), say("two"), max_finished_runs=1)
    live, old = ask_one(supervisor)
    _, new = ask_one(supervisor)
    assert live.log.buffer.floor > 0  # type: ignore[attr-defined]
    assert [end.status for end in ends_of(live, old)] == ["done"]

    def no_disk() -> Any:
        raise AssertionError("the log file was read")

    monkeypatch.setattr(live.log._file, "scan", no_disk)  # type: ignore[attr-defined]
    assert [end.status for end in ends_of(live, new)] == ["done"]
    assert live.log.wait(0, 0.0, new) == live.log.after(0, new)
    assert live.log.after(0, "run_unknown") == []


def test_a_session_another_process_wrote_is_read_anew(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "REREAD_SECONDS", 0.0)
    writer, reader = make(say("one"), say("two")), make(say("mine"))
    live, _ = ask_one(writer)
    seen = reader.open(live.id)
    assert seen.session.read_only
    with pytest.raises(Conflict, match="read-only"):
        reader.prompt(live.id, "hello")
    ask(writer, "more", live.id)
    assert len(reader.open(live.id).snapshot().messages) == 4
    writer.close()
    ask(reader, "now mine", live.id)
    assert len(reader.open(live.id).snapshot().messages) == 6
    assert seen.log.closed


def test_a_session_that_a_foreign_program_wrote_can_be_used_again(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "REREAD_SECONDS", 0.0)
    supervisor = make(say("one"), say("two"))
    live, _ = ask_one(supervisor)
    with (tmp_path / "sessions" / f"{live.id}.jsonl").open("ab") as file:
        file.write(b'{"type":"later","id":"x","parentId":null,"timestamp":""}\n')
    with pytest.raises(NotStored):
        supervisor.prompt(live.id, "two")
    again, _ = ask_one(supervisor, "two", live.id)
    assert again is not live and again.session.get("x") is not None


def test_only_so_many_sessions_stay_open_and_none_that_works_or_is_read(make: Make, tmp_path: Path) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")), say("two"), max_open_sessions=3)
    working = started(supervisor.prompt(supervisor.create().id, "hello"))
    assert gate.reached.wait(PATIENCE)
    watched = supervisor.create()
    watched.add_reader()
    others = [supervisor.create() for _ in range(5)]
    assert [live.log.closed for live in others] == [True, True, False, False, False]
    assert not working.live.log.closed and not watched.log.closed
    watched.remove_reader()
    gate.opened.set()
    settle(working.run)
    for _ in range(3):
        supervisor.create()
    assert watched.log.closed
    assert supervisor.open(others[0].id) is not others[0]
    assert supervisor.open(others[0].id).snapshot().messages == []


def test_what_a_tool_says_after_its_run_is_over_is_not_heard(make: Make) -> None:
    contexts: list[Any] = []

    def leak(parameters: Any, context: Any) -> Any:
        contexts.append(context)
        return None

    supervisor = make(call(("1", "A", {})), say("x"), tools=[tool("A", leak)], executor=InlineExecutor())
    live, run_id = ask_one(supervisor)
    contexts[0].update("late")
    assert len(ends_of(live, run_id)) == 1
    assert not any(isinstance(event, ToolExecutionUpdate) for event in events_of(live))


def test_deleting_twice_at_once_deletes_once_and_says_so(make: Make) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    first = threading.Thread(target=supervisor.delete, args=(begun.live.id,))
    first.start()
    assert begun.run.cancel.wait(PATIENCE)
    with pytest.raises(Conflict) as refused:
        supervisor.delete(begun.live.id)
    assert refused.value.reason == "deleting"
    gate.opened.set()
    first.join(PATIENCE)
    with pytest.raises(NotFound):
        supervisor.delete(begun.live.id)


def test_sessions_that_cannot_be_listed_are_said_to_be_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = make()

    def fail() -> Any:
        raise StoreError("The sessions could not be listed: no permission.")

    monkeypatch.setattr(supervisor._store, "list", fail)
    with pytest.raises(NotStored, match="no permission"):
        supervisor.list()


def test_a_run_is_found_when_its_events_are_lost(make: Make, tmp_path: Path) -> None:
    first = make(say("one"))
    live, run_id = ask_one(first)
    first.close()
    (tmp_path / "runs" / f"{live.id}.jsonl").unlink()
    found = make().session_of(run_id)
    assert found.id == live.id and [end.status for end in ends_of(found, run_id)] == ["done"]


def test_what_was_given_back_stays_until_it_is_taken_away(make: Make) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")), say("two"))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    supervisor.prompt(begun.live.id, "later", queue=True)
    abort(supervisor, begun.run.run_id)
    gate.opened.set()
    settle(begun.run)
    assert [queued.text for queued in begun.live.status().returned] == ["later"]
    assert begun.live.status().queue == []
    supervisor.close()
    second = make(say("two"))
    again = second.open(begun.live.id)
    assert [queued.text for queued in again.status().returned] == ["later"]
    ask(second, "new", begun.live.id)
    (left,) = again.status().returned
    assert again.unqueue(left.id).text == "later" and again.status().returned == []
    second.close()
    assert make().open(begun.live.id).status().returned == []


@pytest.mark.parametrize("while_one_works", [False, True])
def test_what_was_given_back_is_sent_once_however_often_it_is_asked_for(make: Make, while_one_works: bool) -> None:
    gate, later = Gate(), Gate()
    supervisor = make(gate.turn(say("one")), later.turn(say("two")), say("three"), say("four"))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    supervisor.prompt(begun.live.id, "later", queue=True)
    abort(supervisor, begun.run.run_id)
    gate.opened.set()
    settle(begun.run)
    live = begun.live
    (returned,) = live.status().returned
    running = started(supervisor.prompt(live.id, "other")) if while_one_works else None
    sent = supervisor.prompt(live.id, returned.text, queue=True, returned=returned.id)
    with pytest.raises(NotFound):
        supervisor.prompt(live.id, returned.text, queue=True, returned=returned.id)
    later.opened.set()
    settle((running or sent).run)
    with pytest.raises(NotFound):
        supervisor.prompt(live.id, returned.text, queue=True, returned=returned.id)
    assert said(live.snapshot().messages).count("user: later") == 1
    assert live.status().returned == live.status().queue == []
    told = [event for event in events_of(live) if isinstance(event, QueueChanged)][-1]
    assert told.returned == told.queue == []


def test_readers_are_told_on_opening_what_was_given_back(make: Make, tmp_path: Path) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    log = tmp_path / "runs" / f"{begun.live.id}.jsonl"
    before = log.read_bytes()
    supervisor.prompt(begun.live.id, "later", queue=True)
    abort(supervisor, begun.run.run_id)
    gate.opened.set()
    settle(begun.run)
    supervisor.close()
    log.write_bytes(before)
    news = [event for event in events_of(make().open(begun.live.id)) if isinstance(event, QueueChanged)]
    assert [queued.text for queued in news[-1].returned] == ["later"]
    assert news[-1].queue == [] and news[-1].recovered


def test_a_run_that_is_cut_off_by_the_end_of_the_program_is_not_said_to_be_over(make: Make) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    supervisor.close()
    gate.opened.set()
    assert settle(begun.run).status == "interrupted"
    again = make(say("two"))
    assert again.open(begun.live.id).interrupted == begun.run.run_id


@pytest.mark.parametrize("act", [abort, resume])
def test_a_run_is_stopped_or_continued_when_the_other_writer_is_gone(
    make: Make, monkeypatch: pytest.MonkeyPatch, act: Callable[[Supervisor, str], Any]
) -> None:
    monkeypatch.setattr(supervisor_module, "REREAD_SECONDS", 0.0)
    gate = Gate()
    first = make(gate.turn(say("one")))
    begun = started(first.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    first.close()
    gate.opened.set()
    writer, reader = make(), make(say("two"))
    writer.open(begun.live.id)
    seen = reader.open(begun.live.id)
    assert seen.session.read_only
    seen.add_reader()
    writer.close()
    act(reader, begun.run.run_id)
    now = reader.open(begun.live.id)
    assert now is not seen and now.interrupted is None
    if now.run is not None:
        settle(now.run)
    assert len(ends_of(now, begun.run.run_id)) == 1


def test_a_file_changed_from_outside_in_mid_run_does_not_make_two_sessions_of_one(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "REREAD_SECONDS", 0.0)
    gate = Gate()
    supervisor = make(gate.turn(say("one")), say("two"))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    with (tmp_path / "sessions" / f"{begun.live.id}.jsonl").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(NotStored):
        begun.live.rename("x")
    assert begun.live.session.read_only
    assert supervisor.open(begun.live.id, to_write=True) is begun.live
    gate.opened.set()
    settle(begun.run)
    assert len(ends_of(begun.live, begun.run.run_id)) == 1
    assert supervisor.open(begun.live.id, to_write=True) is not begun.live


def test_reading_a_read_only_session_does_not_end_the_streams_of_others(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "REREAD_SECONDS", 0.0)
    writer, reader = make(say("one")), make()
    live, _ = ask_one(writer)
    seen = reader.open(live.id)
    seen.add_reader()
    assert reader.open(live.id) is seen and not seen.log.closed
    seen.remove_reader()
    assert reader.open(live.id) is not seen and seen.log.closed


def test_a_prompt_to_a_session_that_was_just_closed_opens_it_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = make(say("one"))
    live = supervisor.create()
    begin = LiveSession.begin

    def closed_before(self: LiveSession, *args: Any, **more: Any) -> Any:
        monkeypatch.setattr(LiveSession, "begin", begin)
        supervisor._close_if_unused(self.id)
        return begin(self, *args, **more)

    monkeypatch.setattr(LiveSession, "begin", closed_before)
    again, run_id = ask_one(supervisor, session_id=live.id)
    assert again is not live and live.log.closed and len(ends_of(again, run_id)) == 1


def test_a_session_that_works_is_not_closed_for_being_unused(make: Make) -> None:
    gate = Gate()
    supervisor = make(gate.turn(say("one")))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    assert begun.live.close_if_unused(even_if_read=True) is False
    gate.opened.set()
    settle(begun.run)
    assert begun.live.close_if_unused() is True
    with pytest.raises(Conflict) as refused:
        begun.live.move(None)
    assert refused.value.reason == "closed"


@pytest.mark.parametrize(
    "content", ['{"type":"session","version":9,"id":"new","timestamp":"x"}\n', "nothing of ours\n"]
)
def test_a_session_that_can_only_be_read_can_be_deleted(make: Make, tmp_path: Path, content: str) -> None:
    supervisor = make()
    supervisor.create()
    path = tmp_path / "sessions" / "odd.jsonl"
    path.write_text(content, "utf-8")
    assert supervisor.open("odd").session.read_only
    supervisor.delete("odd")
    assert not path.exists() and supervisor.restore("odd").id == "odd"


def test_a_session_that_is_being_deleted_is_not_closed_meanwhile(make: Make) -> None:
    live = make().create()
    live.start_deleting()
    assert live.close_if_unused() is False and not live.log.closed
    live.stop_deleting()
    assert live.close_if_unused() is True


def test_events_that_cannot_be_moved_cost_nobody_the_session(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = make(say("one"))
    live, _ = ask_one(supervisor)

    def fail(session_id: str) -> None:
        raise OSError(28, "No space left on device")

    for step in ("trash", "restore"):
        monkeypatch.setattr(supervisor._logs, step, fail)
    supervisor.delete(live.id)
    assert live.status().deleted
    assert len(supervisor.restore(live.id).snapshot().messages) == 2


def test_a_session_is_not_said_to_be_deleted_before_it_is(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active, "ABORT_SECONDS", 0.0)
    gate = Gate()
    supervisor = make(gate.turn(say("one")))
    begun = started(supervisor.prompt(None, "hello"))
    assert gate.reached.wait(PATIENCE)
    with pytest.raises(Conflict, match="not stopped yet"):
        supervisor.delete(begun.live.id)
    assert not begun.live.status().deleted
    gate.opened.set()
    settle(begun.run)
    supervisor.delete(begun.live.id)
    assert begun.live.status().deleted
