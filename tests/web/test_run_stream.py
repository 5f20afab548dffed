"""The stream of a run: well formed, history before live, resumable, ended by run_done, bounded in number."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Request
from flask.testing import FlaskClient
from werkzeug.test import create_environ

from app.protocol.events import Event, MessageUpdate, TurnStart
from app.protocol.model import TextDelta
from app.runs.buffer import Record
from app.web import sse
from tests.server import running_server
from tests.support import SILENT, FakeModel, call, say
from tests.web.helpers import (
    SECONDS,
    Gate,
    ServerSentEvent,
    chunks_of,
    events_of,
    parse_stream,
    say_to,
    settle,
    start,
    stop_app,
    text_of,
)

NewApp = Callable[..., Flask]
NewGate = Callable[..., Gate]
EVIL = "a\nb\r\nc\rd\u2028e\u2029f\u0085\n\ndata: x\nevent: run_done\n\n: c"


class Reader:
    """Reads the run stream of a test client in a thread; ``until`` waits for an event of a kind."""

    def __init__(self, client: FlaskClient, path: str, **more: Any) -> None:
        self.response = client.get(path, buffered=False, **more)
        self.events: list[ServerSentEvent] = []
        self.ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for event in events_of(chunks_of(self.response)):
            with self._changed:
                self.events.append(event)
                self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def until(self, kind: str) -> None:
        self._wait_for(lambda: any(event.event == kind for event in self.events), kind)

    def until_ended(self) -> None:
        self._wait_for(lambda: self.ended, "the end")
        self._thread.join(SECONDS)

    def _wait_for(self, reached: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(reached, SECONDS), f"no {what}; got {self.kinds()}"

    def kinds(self) -> list[str]:
        return [event.event for event in self.events]


def read_in_a_thread(client: FlaskClient, run_id: str, query: str = "", **more: Any) -> Reader:
    return Reader(client, f"/api/runs/{run_id}/events{query}", **more)


# Form


def test_each_event_has_type_number_and_one_line_of_json(new_app: NewApp) -> None:
    client = new_app(FakeModel(call(("1", "list_files", {}), text=EVIL), say(EVIL))).test_client()
    run_id, _ = start(client, EVIL)
    response = client.get(f"/api/runs/{run_id}/events")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-store"
    events = parse_stream(response.data)
    assert [event.event for event in events] == [event.json["type"] for event in events]
    assert [event.id for event in events] == [str(event.json["seq"]) for event in events]
    assert all(len(event.lines) == 1 for event in events)
    assert {event.json["runId"] for event in events} == {run_id}
    sent = [text_of(event.json["message"]) for event in events if event.event == "message_end"]
    assert sent[0] == sent[1] == sent[3] == EVIL


def test_the_stream_gives_what_the_session_gives(client: FlaskClient) -> None:
    shape = say_to(client, "list files")
    assert [event.json for event in settle(client, shape["runId"])] == shape["events"]


def test_run_done_comes_last_and_once_and_then_the_stream_ends(client: FlaskClient) -> None:
    run_id, session_id = start(client, "hello")
    kinds = [event.event for event in settle(client, run_id)]
    assert kinds[0] == "agent_start"
    assert kinds.index("run_done") == len(kinds) - 1
    say_to(client, "list files", sessionId=session_id)
    assert [event.event for event in settle(client, run_id)] == kinds


# History, then live


def test_a_late_reader_gets_history_first_then_what_comes(new_app: NewApp, gate: NewGate) -> None:
    held = gate("a ", "b")
    client = new_app(FakeModel(held)).test_client()
    run_id, _ = start(client, "q")
    held.wait()
    early = read_in_a_thread(client, run_id)
    early.until("message_update")
    assert early.kinds()[:2] == ["agent_start", "turn_start"]
    assert not early.ended
    held.open.set()
    early.until_ended()
    late = settle(client, run_id)
    assert early.events == late
    numbers = [event.json["seq"] for event in late]
    assert numbers == sorted(set(numbers))
    deltas = [e.json["assistantMessageEvent"] for e in late if e.event == "message_update"]
    assert [delta["delta"] for delta in deltas if delta["type"] == "text_delta"] == ["a ", "b"]


def test_readers_at_the_same_time_get_the_same(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    run_id, _ = start(client, "q")
    readers = [read_in_a_thread(client, run_id) for _ in range(5)]
    for reader in readers:
        reader.until("message_update")
    held.open.set()
    for reader in readers:
        reader.until_ended()
    assert all(reader.events == readers[0].events for reader in readers)


def test_a_run_of_another_session_does_not_show(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held, say("other"))).test_client()
    run_id, _ = start(client, "q")
    held.wait()
    other = client.post("/api/sessions", json={}).json["sessionId"]
    say_to(client, "r", sessionId=other)
    held.open.set()
    assert {event.json["runId"] for event in settle(client, run_id)} == {run_id}


# Taking up again


@pytest.mark.parametrize("how", ["header", "query", "both, the query older", "both, the header older"])
def test_a_reader_that_comes_back_gets_only_what_it_lacks(client: FlaskClient, how: str) -> None:
    run_id = say_to(client, "list files")["runId"]
    whole = settle(client, run_id)
    for place in (0, 3, len(whole) - 2):
        last = whole[place].id
        header, query = {
            "header": ({"Last-Event-ID": last}, ""),
            "query": ({}, f"?after={last}"),
            "both, the query older": ({"Last-Event-ID": last}, "?after=0"),
            "both, the header older": ({"Last-Event-ID": "0"}, f"?after={last}"),
        }[how]
        response = client.get(f"/api/runs/{run_id}/events{query}", headers=header)
        assert parse_stream(response.data) == whole[place + 1 :]


def test_a_reader_that_has_everything_gets_an_ended_stream(client: FlaskClient) -> None:
    run_id = say_to(client, "hello")["runId"]
    last = settle(client, run_id)[-1].id
    response = client.get(f"/api/runs/{run_id}/events", headers={"Last-Event-ID": last})
    assert (response.status_code, parse_stream(response.data)) == (200, [])


@pytest.mark.parametrize("after", ["", "x", "-1", "1.5", "٣", "9" * 30, "1\u00b2"])
def test_a_number_that_is_none_means_from_the_start(client: FlaskClient, after: str) -> None:
    run_id = say_to(client, "hello")["runId"]
    whole = settle(client, run_id)
    assert parse_stream(client.get(f"/api/runs/{run_id}/events", query_string={"after": after}).data) == whole


def test_a_reconnect_in_mid_run_loses_and_repeats_nothing(new_app: NewApp, gate: NewGate) -> None:
    held = gate("a ", "b")
    client = new_app(FakeModel(held)).test_client()
    run_id, _ = start(client, "q")
    held.wait()
    first = read_in_a_thread(client, run_id)
    first.until("message_update")
    seen = first.events[:4]
    second = read_in_a_thread(client, run_id, headers={"Last-Event-ID": seen[-1].id})
    held.open.set()
    first.until_ended()
    second.until_ended()
    assert seen + second.events == first.events


# Runs that are only on disk


def test_a_run_that_is_only_on_disk_can_be_read(new_app: NewApp) -> None:
    app = new_app()
    client = app.test_client()
    run_id = say_to(client, "list files")["runId"]
    older = settle(client, run_id)
    say_to(client, "hello")
    stop_app(app)
    fresh = new_app().test_client()
    stored = settle(fresh, run_id)
    assert stored == [event for event in older if event.event != "message_update"]
    resumed = fresh.get(f"/api/runs/{run_id}/events?after={stored[4].id}")
    assert parse_stream(resumed.data) == stored[5:]


def test_an_interrupted_run_is_followed_through_its_continuation(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    app = new_app(FakeModel(held))
    run_id, _ = start(app.test_client(), "q")
    held.wait()
    before = read_in_a_thread(app.test_client(), run_id)
    before.until("message_update")
    stop_app(app)
    before.until_ended()
    assert "run_done" not in before.kinds()
    client = new_app(FakeModel(say("whole"))).test_client()
    after = read_in_a_thread(client, run_id, headers={"Last-Event-ID": before.events[-1].id})
    after.until("turn_end")
    assert after.kinds() == ["message_end", "turn_end"]
    assert after.events[0].json["discarded"] is True
    client.post(f"/api/runs/{run_id}/continue")
    after.until_ended()
    assert after.kinds()[-1] == "run_done"
    numbers = [event.json["seq"] for event in before.events + after.events]
    assert numbers == sorted(set(numbers))


# Silence, and the end of the server


def test_a_silent_stream_gets_a_comment(new_app: NewApp, gate: NewGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(sse, "LOOK_SECONDS", 0.01)
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    run_id, _ = start(client, "q")
    held.wait()
    response = client.get(f"/api/runs/{run_id}/events", buffered=False)
    comments = 0
    for line in chunks_of(response):
        comments += line.startswith(":")
        if comments == 2:
            held.open.set()
            break
    response.close()
    assert comments == 2


def test_the_heartbeat_comes_every_15_seconds() -> None:
    assert sse.HEARTBEAT_SECONDS == 15


def test_a_shutdown_ends_the_stream_without_run_done(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    app = new_app(FakeModel(held))
    run_id, _ = start(app.test_client(), "q")
    held.wait()
    reader = read_in_a_thread(app.test_client(), run_id)
    reader.until("message_update")
    stop_app(app)
    reader.until_ended()
    assert "run_done" not in reader.kinds()


# How many there may be


def test_over_the_cap_the_api_says_503_and_when_to_come_back(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held), max_streams=1).test_client()
    run_id, _ = start(client, "q")
    held.wait()
    open_one = client.get(f"/api/runs/{run_id}/events", buffered=False)
    refused = client.get(f"/api/runs/{run_id}/events")
    assert refused.status_code == 503
    assert (refused.json["reason"], refused.headers["Retry-After"]) == ("too_many_streams", "2")
    open_one.close()
    held.open.set()
    assert settle(client, run_id)[-1].event == "run_done"


def test_over_the_cap_a_page_is_told_to_retry_with_200(new_app: NewApp) -> None:
    client = new_app(max_streams=1).test_client()
    session_id = say_to(client, "hello")["sessionId"]
    open_one = client.get(f"/sessions/{session_id}/stream", buffered=False)
    refused = client.get(f"/sessions/{session_id}/stream")
    assert (refused.status_code, refused.mimetype) == (200, "text/event-stream")
    assert refused.data == b"retry: 2000\n\n"
    open_one.close()
    taken = client.get(f"/sessions/{session_id}/stream", buffered=False)
    assert next(chunks_of(taken)) == "retry: 1000"
    taken.close()


def test_a_stream_gives_its_place_back_however_it_ends(new_app: NewApp) -> None:
    client = new_app(max_streams=1).test_client()
    shape = say_to(client, "hello")
    run_path, page_path = f"/api/runs/{shape['runId']}/events", f"/sessions/{shape['sessionId']}/stream"

    def read_to_the_end() -> None:
        client.get(run_path).close()

    def leave_at_once() -> None:
        client.get(page_path, buffered=False).close()

    def close_twice() -> None:
        response = client.get(page_path, buffered=False)
        response.close()
        response.close()

    def ask_for_the_head() -> None:
        client.head(run_path).close()

    for ending in (read_to_the_end, leave_at_once, close_twice, ask_for_the_head):
        ending()
        one, other = client.get(page_path, buffered=False), client.get(run_path)
        assert (one.status_code, other.status_code) == (200, 503), ending.__name__
        one.close()


def test_an_unknown_run_takes_no_place(new_app: NewApp) -> None:
    client = new_app(max_streams=1).test_client()
    run_id = say_to(client, "hello")["runId"]
    for _ in range(3):
        assert client.get("/api/runs/nothing/events").status_code == 404
        assert client.get("/sessions/nobody/stream").status_code == 404
    assert client.get(f"/api/runs/{run_id}/events").status_code == 200


@pytest.mark.parametrize(("after", "header", "start"), [("7", "3", 7), ("3", "7", 7), ("", "5", 5), ("5", "x", 5)])
def test_a_reader_goes_on_after_the_higher_of_its_two_numbers(after: str, header: str, start: int) -> None:
    request = Request(create_environ(query_string={"after": after}, headers={"Last-Event-ID": header}))
    assert sse.start_of(request) == start


class Recording:
    """A reader that gets the given records one by one, and notes how long each wait may be held back."""

    def __init__(self, *events: Event) -> None:
        self.left = [[Record(event, b"{}")] for event in events]
        self.holds: list[float] = []

    def greet(self) -> bytes:
        return b""

    def wait(self, seconds: float, hold: float) -> list[Record]:
        self.holds.append(hold)
        return self.left.pop(0) if self.left else []

    def render(self, records: list[Record]) -> bytes:
        return b"x"

    def over(self) -> bool:
        return True


def test_deltas_are_gathered_for_a_moment_after_a_delta_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "GATHER_SECONDS", 1000.0)
    delta = MessageUpdate(entry_id="e", assistant_message_event=TextDelta(content_index=0, delta="x"))
    reader = Recording(TurnStart(), delta)
    assert b"".join(sse.follow(reader, lambda: False))
    assert reader.holds[:2] == [0, 0] and reader.holds[2] > 0


def test_a_client_that_hangs_up_while_it_waits_for_a_run_gives_its_place_back(
    new_app: NewApp, gate: NewGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "LOOK_SECONDS", 0.01)
    held = gate()
    app = new_app(FakeModel(held))
    client = app.test_client()
    gone = {"waitress.client_disconnected": lambda: True}
    answer = client.post("/api/prompt", json={"text": "q"}, environ_overrides=gone)
    assert answer.status_code == 200 and answer.json["state"] == "running"  # type: ignore[index]
    assert not held.open.is_set()


def test_the_server_notices_a_reader_that_has_gone(tmp_path: Path, workspace: Path, script: Callable[..., str]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "hornbook.toml").write_text("max_streams = 1\n", "utf-8")
    with running_server(data=data, workspace=workspace, model=script(SILENT)) as server:
        run_id = server.post("/api/runs", {"text": "q"}).json["runId"]
        path = f"/api/runs/{run_id}/events"
        with server.stream(path) as response:
            assert (response.status, response.readline()) == (200, b"retry: 1000\n")
            assert server.get(path).status == 503
        waited = threading.Event()
        for _ in statuses_until_taken(server, path):
            waited.wait(0.05)


def statuses_until_taken(server: Any, path: str) -> Iterator[int]:
    """Asks for a stream until one is given; the timeout of the test bounds it."""
    while True:
        with server.stream(path) as response:
            if response.status == 200:
                return
            yield response.status
