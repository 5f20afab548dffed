"""The JSON API: shapes, statuses, errors, and what each address does."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.protocol.cancel import CancelToken
from app.protocol.codec import encode_line
from app.protocol.model import ModelEvent, ModelRequest, StreamError, StreamStart
from app.settings import MAX_WAITING, Settings
from tests.support import FakeModel, call, say
from tests.web.helpers import SECONDS, Gate, calls_of, settle, start, stop_app, text_of, texts, word
from tests.web.helpers import say_to as prompt

SESSION_KEYS = {"sessionId", "leafId", "state", "messages", "events", "entries", "tools"}
TOOLS = ["list_files", "read_file", "search_files", "write_note"]
NewApp = Callable[..., Flask]
NewGate = Callable[..., Gate]


def error(response: Any) -> tuple[int, str]:
    """Returns status and reason of an error, after a look at its form."""
    assert response.mimetype == "application/json"
    assert set(response.json) == {"reason", "message"}
    assert response.json["message"].endswith((".", "…")), response.json["message"]
    return response.status_code, response.json["reason"]


def roles(shape: dict[str, Any]) -> list[str]:
    return [message["role"] for message in shape["messages"]]


# The session


def test_a_fresh_session_is_empty_and_has_exactly_the_seven_keys(client: FlaskClient) -> None:
    response = client.get("/api/session")
    assert response.status_code == 200
    shape = response.json
    assert set(shape) == SESSION_KEYS
    assert (shape["leafId"], shape["state"]) == (None, "idle")
    assert shape["messages"] == shape["events"] == shape["entries"] == []
    assert [tool["name"] for tool in shape["tools"]] == TOOLS
    assert all(tool["parameters"]["type"] == "object" for tool in shape["tools"])


def test_reading_the_session_twice_makes_one_session(client: FlaskClient) -> None:
    assert client.get("/api/session").json["sessionId"] == client.get("/api/session").json["sessionId"]
    assert len(client.get("/api/sessions").json["sessions"]) == 1


def test_a_prompt_answers_with_the_session_and_how_the_run_ended(client: FlaskClient) -> None:
    shape = prompt(client, "hello")
    assert set(shape) == SESSION_KEYS | {"status", "runId", "waiting"}
    assert (shape["status"], shape["state"], shape["waiting"]) == ("done", "idle", None)
    assert {event["runId"] for event in shape["events"]} == {shape["runId"]}
    again = client.get("/api/session").json
    assert again == {key: shape[key] for key in SESSION_KEYS}


def test_messages_are_the_context_and_entries_the_file_as_stored(client: FlaskClient, settings: Settings) -> None:
    shape = prompt(client, "hello")
    (file,) = (settings.data / "sessions").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert shape["entries"] == lines[1:]
    messages = [entry for entry in lines[1:] if entry["type"] == "message"]
    assert shape["messages"] == [entry["message"] for entry in messages]
    assert shape["leafId"] == messages[-1]["id"]


def test_events_are_those_of_the_newest_run_of_the_branch(client: FlaskClient) -> None:
    first = prompt(client, "hello")
    second = prompt(client, "list files")
    assert {event["runId"] for event in second["events"]} == {second["runId"]}
    branched = client.post("/api/branch", json={"leafId": first["leafId"]}).json
    assert {event["runId"] for event in branched["events"]} == {first["runId"]}


# What the tutor does


def test_a_chinese_request_lists_the_files(client: FlaskClient) -> None:
    shape = prompt(client, "列出工作区文件")
    assert roles(shape) == ["user", "assistant", "toolResult", "assistant"]
    assert [asked["name"] for asked in calls_of(shape["messages"][1])] == ["list_files"]
    assert "README.md" in text_of(shape["messages"][2])
    assert "README.md" in text_of(shape["messages"][3])


def test_reading_a_file_reads_that_of_the_workspace(client: FlaskClient, workspace: Path) -> None:
    shape = prompt(client, "read README.md")
    assert roles(shape) == ["user", "assistant", "toolResult", "assistant"]
    assert (calls_of(shape["messages"][1])[0]["name"], shape["messages"][2]["isError"]) == ("read_file", False)
    for line in (workspace / "README.md").read_text("utf-8").split("\n"):
        assert line in text_of(shape["messages"][2])


@pytest.mark.parametrize(
    "text",
    [
        "write a note named secret-plan about tides",
        "write a note named ＳＥＣＲＥＴ-plan about tides",
        "写一个名为秘密计划的笔记，内容是：潮汐",
    ],
)
def test_a_secret_note_is_refused_with_the_reason_and_leaves_no_file(
    client: FlaskClient, workspace: Path, text: str
) -> None:
    shape = prompt(client, text)
    (result,) = [
        message
        for message in shape["messages"]
        if message["role"] == "toolResult" and message["toolName"] == "write_note"
    ]
    assert result["isError"] is True
    assert text_of(result).startswith("Blocked: a note whose name contains")
    assert not (workspace / "notes").exists()
    decisions = [event for event in shape["events"] if event["type"] == "tool_decision"]
    assert (decisions[-1]["decision"], decisions[-1]["rule"]) == ("block", "secret-notes")


def test_a_listing_without_path_is_rewritten_and_the_events_say_so(client: FlaskClient) -> None:
    shape = prompt(client, "list files")
    assert calls_of(shape["messages"][1])[0]["arguments"] == {}
    (decision,) = [event for event in shape["events"] if event["type"] == "tool_decision"]
    assert (decision["decision"], decision["argsBefore"], decision["argsAfter"]) == ("rewrite", {}, {"path": "."})
    assert decision["reason"] and decision["rule"]


def test_a_run_has_the_order_of_the_reference(new_app: NewApp) -> None:
    model = FakeModel(call(("1", "list_files", {}), ("2", "nothing", {})), say("done"))
    shape = prompt(new_app(model).test_client(), "q")
    assert [word(event) for event in shape["events"]] == [
        "agent_start",
        "turn_start",
        "message_start:user",
        "message_end:user",
        "message_start:assistant",
        "upd:toolcall_start",
        "upd:toolcall_end",
        "upd:toolcall_start",
        "upd:toolcall_end",
        "message_end:assistant",
        "tool_execution_start",
        "tool_decision:rewrite",
        "tool_execution_end",
        "message_start:toolResult",
        "message_end:toolResult",
        "tool_execution_start",
        "tool_execution_end",
        "message_start:toolResult",
        "message_end:toolResult",
        "turn_end",
        "turn_start",
        "message_start:assistant",
        "upd:text_start",
        "upd:text_delta",
        "upd:text_end",
        "message_end:assistant",
        "turn_end",
        "agent_end",
        "run_done",
    ]


def test_events_are_numbered_and_name_their_entries(new_app: NewApp) -> None:
    model = FakeModel(call(("1", "list_files", {})), say("done"))
    shape = prompt(new_app(model).test_client(), "q")
    events = shape["events"]
    for number in ("seq", "n"):
        numbers = [event[number] for event in events]
        assert numbers == sorted(set(numbers))
    assert all(event["ts"] > 0 for event in events)
    ids = [entry["id"] for entry in shape["entries"] if entry["type"] == "message"]
    ended = [event["entryId"] for event in events if event["type"] == "message_end"]
    begun = [event["entryId"] for event in events if event["type"] == "message_start"]
    assert ended == begun == ids
    assert events[-2]["messages"] == ids
    done = events[-1]
    assert (done["sessionId"], done["leafId"], done["status"]) == (shape["sessionId"], shape["leafId"], "done")
    assert done["lastSeq"] == done["seq"]


def test_a_failing_model_ends_the_run_with_an_error_that_can_be_seen(new_app: NewApp) -> None:
    client = new_app(FakeModel(RuntimeError("no power"), say("better"))).test_client()
    shape = prompt(client, "q")
    assert (shape["status"], shape["state"]) == ("error", "idle")
    assert "no power" in shape["messages"][-1]["errorMessage"]
    assert prompt(client, "again")["status"] == "done"


# What was sent survives


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("a\ud800b", "a�b"),
        ("a\0b", "a\0b"),
        ("line\u2028and\u2029more\u0085", "line\u2028and\u2029more\u0085"),
        ("👩‍🏫 teaches 𝒙 and é", "👩‍🏫 teaches 𝒙 and é"),
        ("\r\n  two\rlines\n", "\r\n  two\rlines\n"),
        ("</script><b>'\"&amp;", "</script><b>'\"&amp;"),
    ],
)
def test_unusual_text_survives_the_way_through_store_stream_and_restart(new_app: NewApp, sent: str, kept: str) -> None:
    app = new_app()
    client = app.test_client()
    shape = prompt(client, sent)
    assert text_of(shape["messages"][0]) == kept
    (event,) = [e.json for e in settle(client, shape["runId"]) if word(e.json) == "message_end:user"]
    assert text_of(event["message"]) == kept
    stop_app(app)
    assert text_of(new_app().test_client().get("/api/session").json["messages"][0]) == kept


@pytest.mark.parametrize("text", ["tide " * 40_000, "潮" * 66_000, "." * 200_000, "(" * 200_000, " a" * 100_000])
def test_a_text_of_200_kilobytes_is_answered(client: FlaskClient, text: str) -> None:
    body = json.dumps({"text": text}, ensure_ascii=False).encode()
    response = client.post("/api/prompt", data=body, content_type="application/json")
    assert (response.status_code, response.json["status"]) == (200, "done")
    assert text_of(response.json["messages"][0]) == text


# Bad input


@pytest.mark.parametrize("path", ["/api/prompt", "/api/runs"])
@pytest.mark.parametrize(
    ("body", "reason", "said"),
    [
        (b"{", "invalid_json", "JSON"),
        (b"nonsense", "invalid_json", "JSON"),
        (b'{"text": "a" "b"}', "invalid_json", "JSON"),
        (b'{"text": "\xff"}', "invalid_json", "JSON"),
        (b'{"more": ' + b"[" * 100_000, "invalid_json", "JSON"),
        (b"[]", "invalid", "object"),
        (b'"text"', "invalid", "object"),
        (b"null", "invalid", "object"),
        (b"{}", "invalid", "text"),
        (b"", "invalid", "text"),
        (b'{"text": 5}', "invalid", "$.text"),
        (b'{"text": null}', "invalid", "$.text"),
        (b'{"text": ["a"]}', "invalid", "$.text"),
        (b'{"text": "a", "sessionId": 7}', "invalid", "$.sessionId"),
        (b'{"text": "a", "queue": "yes"}', "invalid", "$.queue"),
        (b'{"text": ""}', "empty_text", "empty"),
        (b'{"text": " \\n\\t\\u3000"}', "empty_text", "empty"),
    ],
)
def test_a_body_that_does_not_fit_is_400_and_says_what_is_wrong(
    client: FlaskClient, path: str, body: bytes, reason: str, said: str
) -> None:
    response = client.post(path, data=body, content_type="application/json")
    assert error(response) == (400, reason)
    assert said in response.json["message"]
    assert client.get("/api/session").json["entries"] == []


def test_blank_text_is_refused_before_the_session_is_looked_at(client: FlaskClient) -> None:
    response = client.post("/api/prompt", json={"text": " ", "sessionId": "nobody"})
    assert error(response) == (400, "empty_text")


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("GET", "/api/session?sessionId=nobody", None, "unknown_session"),
        ("GET", "/api/session?sessionId=../../etc/passwd", None, "unknown_session"),
        ("GET", "/api/session?sessionId=%00", None, "unknown_session"),
        ("GET", "/api/session?sessionId=" + "x" * 5000, None, "unknown_session"),
        ("POST", "/api/prompt", {"text": "a", "sessionId": "nobody"}, "unknown_session"),
        ("POST", "/api/prompt?sessionId=nobody", {"text": "a"}, "unknown_session"),
        ("POST", "/api/runs", {"text": "a", "sessionId": "nobody"}, "unknown_session"),
        ("POST", "/api/branch", {"leafId": "abc"}, "unknown_entry"),
        ("POST", "/api/branch", {"leafId": ""}, "unknown_entry"),
        ("POST", "/api/branch", {"leafId": None, "sessionId": "nobody"}, "unknown_session"),
        ("POST", "/api/reset", {"sessionId": "nobody"}, "unknown_session"),
        ("GET", "/api/sessions/nobody", None, "unknown_session"),
        ("PATCH", "/api/sessions/nobody", {"name": "a"}, "unknown_session"),
        ("DELETE", "/api/sessions/nobody", None, "unknown_session"),
        ("DELETE", "/api/sessions/nobody/queue/q", None, "unknown_session"),
        ("POST", "/api/sessions/nobody/restore", None, "unknown_session"),
        ("GET", "/api/runs/nothing/events", None, "unknown_run"),
        ("GET", "/api/runs/%2e%2e/events", None, "unknown_run"),
        ("POST", "/api/runs/nothing/abort", None, "unknown_run"),
        ("POST", "/api/runs/nothing/continue", None, "unknown_run"),
        ("GET", "/api", None, "not_found"),
        ("GET", "/api/", None, "not_found"),
        ("GET", "/api/nothing", None, "not_found"),
        ("POST", "/api/nothing", {}, "not_found"),
        ("DELETE", "/api/runs/a/b/c", None, "not_found"),
    ],
)
def test_what_is_not_there_is_404_with_a_reason(
    client: FlaskClient, method: str, path: str, body: Any, reason: str
) -> None:
    assert error(client.open(path, method=method, json=body)) == (404, reason)


def test_an_unknown_queued_message_is_404(client: FlaskClient) -> None:
    session_id = client.get("/api/session").json["sessionId"]
    assert error(client.delete(f"/api/sessions/{session_id}/queue/q_1")) == (404, "unknown_queued")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/api/session", {"GET", "HEAD", "OPTIONS"}),
        ("GET", "/api/prompt", {"POST", "OPTIONS"}),
        ("DELETE", "/api/runs", {"POST", "OPTIONS"}),
        ("PUT", "/api/sessions", {"GET", "HEAD", "OPTIONS", "POST"}),
        ("POST", "/api/sessions/abc", {"GET", "HEAD", "OPTIONS", "PATCH", "DELETE"}),
    ],
)
def test_a_wrong_method_is_405_and_says_which_are_right(
    client: FlaskClient, method: str, path: str, allowed: set[str]
) -> None:
    response = client.open(path, method=method, json={})
    assert error(response) == (405, "method_not_allowed")
    assert set(response.headers["Allow"].split(", ")) == allowed


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_that_is_not_called_json_is_415(client: FlaskClient, content_type: str) -> None:
    response = client.post("/api/prompt", data=b'{"text": "hello"}', content_type=content_type)
    assert error(response) == (415, "unsupported_media_type")


def test_a_large_body_is_413_and_one_just_below_is_taken(client: FlaskClient) -> None:
    frame = len(b'{"text":""}')
    fits = b'{"text":"%s"}' % (b"x" * (256 * 1024 - frame))
    assert client.post("/api/prompt", data=fits, content_type="application/json").status_code == 200
    over = b'{"text":"%s"}' % (b"x" * (256 * 1024 - frame + 1))
    response = client.post("/api/prompt", data=over, content_type="application/json")
    assert error(response) == (413, "too_large")
    assert "256 KiB" in response.json["message"]


# Which session


def test_without_a_session_the_most_recently_used_one_is_meant(client: FlaskClient) -> None:
    first = client.post("/api/sessions", json={}).json["sessionId"]
    second = client.post("/api/sessions", json={}).json["sessionId"]
    assert client.get("/api/session").json["sessionId"] == second
    assert prompt(client, "hello", sessionId=first)["sessionId"] == first
    assert client.get("/api/session").json["sessionId"] == first
    assert client.get(f"/api/session?sessionId={second}").json["sessionId"] == second
    assert prompt(client, "hello")["sessionId"] == second


def test_the_session_can_be_named_in_the_query_and_the_body_wins(client: FlaskClient) -> None:
    first = client.post("/api/sessions", json={}).json["sessionId"]
    second = client.post("/api/sessions", json={}).json["sessionId"]
    named = client.post(f"/api/prompt?sessionId={first}", json={"text": "hello"})
    assert named.json["sessionId"] == first
    both = client.post(f"/api/prompt?sessionId={first}", json={"text": "hello", "sessionId": second})
    assert both.json["sessionId"] == second


def test_after_a_restart_the_session_with_the_newest_message_is_meant(new_app: NewApp) -> None:
    app = new_app()
    client = app.test_client()
    used = prompt(client, "hello")["sessionId"]
    stop_app(app)
    assert new_app().test_client().get("/api/session").json["sessionId"] == used


# Runs


def test_a_run_is_answered_at_once_and_its_events_tell_the_rest(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    response = client.post("/api/runs", json={"text": "q"})
    assert response.status_code == 201
    assert set(response.json) == {"runId", "sessionId"}
    assert response.headers["Location"] == f"/api/runs/{response.json['runId']}/events"
    held.wait()
    shape = client.get("/api/session").json
    assert (shape["state"], roles(shape)) == ("running", ["user"])
    assert shape["events"][-1]["assistantMessageEvent"]["delta"] == "one "
    held.open.set()
    assert settle(client, response.json["runId"])[-1].json["status"] == "done"
    assert texts(client.get("/api/session").json["messages"]) == ["q", "one two"]


def test_while_a_run_works_other_changes_are_409_and_lose_nothing(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    run_id, _ = start(client, "q")
    held.wait()
    before = client.get("/api/session").json["entries"]
    refused = [
        client.post("/api/prompt", json={"text": "again"}),
        client.post("/api/runs", json={"text": "again"}),
        client.post("/api/branch", json={"leafId": None}),
    ]
    assert [error(response) for response in refused] == [(409, "running")] * 3
    assert error(client.post(f"/api/runs/{run_id}/continue")) == (409, "running")
    assert client.get("/api/session").json["entries"] == before
    held.open.set()
    assert settle(client, run_id)[-1].event == "run_done"


def test_another_session_can_work_at_the_same_time(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held, say("other"))).test_client()
    run_id, _ = start(client, "q")
    held.wait()
    other = client.post("/api/sessions", json={}).json["sessionId"]
    assert texts(prompt(client, "r", sessionId=other)["messages"]) == ["r", "other"]
    held.open.set()
    assert settle(client, run_id)[-1].json["status"] == "done"


def test_a_queued_message_is_taken_up_by_the_run_that_works(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held, say("second answer"))).test_client()
    run_id, session_id = start(client, "first")
    held.wait()
    response = client.post("/api/runs", json={"text": "second", "queue": True})
    assert response.status_code == 202
    queue_id = response.json["queued"]
    assert response.json == {"runId": run_id, "sessionId": session_id, "queued": queue_id}
    (waiting,) = client.get(f"/api/sessions/{session_id}").json["queue"]
    assert (waiting["id"], waiting["text"]) == (queue_id, "second")
    held.open.set()
    events = [event.json for event in settle(client, run_id)]
    words = [word(event) for event in events if event["type"] != "message_update"]
    answer = ["message_start:assistant", "message_end:assistant", "turn_end"]
    turn = ["turn_start", "message_start:user", "message_end:user", *answer]
    assert words == ["agent_start", *turn, *turn, "agent_end", "run_done"]
    assert texts(client.get("/api/session").json["messages"]) == ["first", "one two", "second", "second answer"]


def test_a_queued_message_can_be_taken_back(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    run_id, session_id = start(client, "first")
    held.wait()
    queue_id = client.post("/api/runs", json={"text": "second", "queue": True}).json["queued"]
    removed = client.delete(f"/api/sessions/{session_id}/queue/{queue_id}")
    assert removed.status_code == 200
    assert removed.json["removed"] == {"id": queue_id, "text": "second", "kind": "followUp"}
    assert error(client.delete(f"/api/sessions/{session_id}/queue/{queue_id}")) == (404, "unknown_queued")
    held.open.set()
    settle(client, run_id)
    assert texts(client.get("/api/session").json["messages"]) == ["first", "one two"]


def test_queue_on_an_idle_session_starts_a_run(client: FlaskClient) -> None:
    run_id, _ = start(client, "hello", queue=True)
    assert settle(client, run_id)[-1].json["status"] == "done"


def test_an_abort_keeps_the_partial_text_and_answers_when_it_is_over(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held, say("next"))).test_client()
    run_id, session_id = start(client, "q")
    held.wait()
    response = client.post(f"/api/runs/{run_id}/abort")
    assert (response.status_code, response.json) == (
        200,
        {"runId": run_id, "sessionId": session_id, "status": "aborted"},
    )
    shape = client.get("/api/session").json
    assert (shape["state"], texts(shape["messages"])) == ("idle", ["q", "one "])
    assert shape["messages"][-1]["stopReason"] == "aborted"
    events = settle(client, run_id)
    assert [event.event for event in events].count("run_done") == 1
    assert events[-1].json["status"] == "aborted"
    assert client.post(f"/api/runs/{run_id}/abort").json["status"] == "aborted"
    assert prompt(client, "on")["status"] == "done"


def test_an_abort_of_a_finished_run_changes_nothing(client: FlaskClient) -> None:
    shape = prompt(client, "hello")
    assert client.post(f"/api/runs/{shape['runId']}/abort").json["status"] == "done"
    assert client.get("/api/session").json["entries"] == shape["entries"]


def test_a_prompt_that_is_waited_for_reports_the_abort(new_app: NewApp) -> None:
    def stopped_by_a_person(request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        yield StreamStart()
        cancel.cancel()
        yield StreamError(reason="aborted", error_message="stopped")

    shape = prompt(new_app(FakeModel(stopped_by_a_person)).test_client(), "q")
    assert (shape["status"], shape["state"]) == ("aborted", "idle")


# Interrupted runs


def interrupted_run(new_app: NewApp, gate: NewGate, *turns: Any) -> tuple[FlaskClient, str, str]:
    """Starts a run, closes the app in the middle of it, and opens another app with a model that plays ``turns``."""
    held = gate()
    app = new_app(FakeModel(held))
    run_id, session_id = start(app.test_client(), "q")
    held.wait()
    stop_app(app)
    return new_app(FakeModel(*turns)).test_client(), run_id, session_id


def test_an_interrupted_run_can_be_continued_under_its_own_id(new_app: NewApp, gate: NewGate) -> None:
    client, run_id, session_id = interrupted_run(new_app, gate, say("whole answer"))
    about = client.get(f"/api/sessions/{session_id}").json
    assert (about["interrupted"], about["state"], about["runId"]) == (run_id, "idle", None)
    response = client.post(f"/api/runs/{run_id}/continue")
    assert (response.status_code, response.json) == (202, {"runId": run_id, "sessionId": session_id})
    events = settle(client, run_id)
    assert [event.event for event in events].count("run_done") == 1
    assert [event.event for event in events].count("agent_start") == 1
    assert texts(client.get("/api/session").json["messages"]) == ["q", "whole answer"]
    assert client.get(f"/api/sessions/{session_id}").json["interrupted"] is None
    assert error(client.post(f"/api/runs/{run_id}/continue")) == (409, "not_interrupted")


def test_a_file_that_ends_in_mid_run_is_interrupted(client: FlaskClient, settings: Settings) -> None:
    stamp = "2026-01-01T00:00:00.000Z"
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": stamp, "cwd": "."},
        {
            "type": "custom",
            "customType": "run",
            "id": "a",
            "parentId": None,
            "timestamp": stamp,
            "data": {"runId": "run_x", "status": "started"},
        },
        {
            "type": "message",
            "id": "b",
            "parentId": None,
            "timestamp": stamp,
            "message": {"role": "user", "content": [{"type": "text", "text": "list files"}], "timestamp": 1},
        },
    ]
    file = settings.data / "sessions" / "s.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert client.get("/api/sessions/s").json["interrupted"] == "run_x"
    assert client.post("/api/runs/run_x/continue").status_code == 202
    events = settle(client, "run_x")
    assert [word(event.json) for event in events][:4] == [
        "agent_start",
        "turn_start",
        "message_start:user",
        "message_end:user",
    ]
    assert all(event.json["recovered"] for event in events[:4])
    assert events[-1].json["status"] == "done"


def test_an_interrupted_run_is_ended_by_an_abort(new_app: NewApp, gate: NewGate) -> None:
    client, run_id, session_id = interrupted_run(new_app, gate)
    assert client.post(f"/api/runs/{run_id}/abort").json["status"] == "aborted"
    assert settle(client, run_id)[-1].json["status"] == "aborted"
    assert client.get(f"/api/sessions/{session_id}").json["interrupted"] is None


def test_a_new_prompt_ends_the_interrupted_run(new_app: NewApp, gate: NewGate) -> None:
    client, run_id, _ = interrupted_run(new_app, gate, say("new"))
    shape = prompt(client, "other")
    assert shape["runId"] != run_id
    assert texts(shape["messages"]) == ["q", "other", "new"]
    assert settle(client, run_id)[-1].json["status"] == "interrupted"


# Branches


def test_the_next_message_hangs_on_the_chosen_entry_and_sees_only_that_branch(new_app: NewApp) -> None:
    model = FakeModel(say("first"), say("second"), say("third"))
    client = new_app(model).test_client()
    chosen = prompt(client, "a")["leafId"]
    left = prompt(client, "b")
    response = client.post("/api/branch", json={"leafId": chosen})
    assert response.status_code == 200
    assert set(response.json) == SESSION_KEYS
    assert response.json["leafId"] == chosen
    assert texts(response.json["messages"]) == ["a", "first"]
    shape = prompt(client, "c")
    user = next(entry for entry in shape["entries"] if entry["type"] == "message" and text_of(entry["message"]) == "c")
    assert user["parentId"] == chosen
    assert texts(shape["messages"]) == ["a", "first", "c", "third"]
    assert [text_of(json_of(message)) for message in model.requests[-1].messages] == ["a", "first", "c"]
    back = client.post("/api/branch", json={"leafId": left["leafId"]}).json
    assert texts(back["messages"]) == ["a", "first", "b", "second"]


def json_of(message: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(encode_line(message))
    return value


def test_a_branch_survives_a_restart(new_app: NewApp) -> None:
    app = new_app()
    client = app.test_client()
    chosen = prompt(client, "hello")["leafId"]
    prompt(client, "list files")
    client.post("/api/branch", json={"leafId": chosen})
    stop_app(app)
    assert new_app().test_client().get("/api/session").json["leafId"] == chosen


def test_null_branches_before_the_first_entry(client: FlaskClient) -> None:
    prompt(client, "hello")
    shape = client.post("/api/branch", json={"leafId": None}).json
    assert (shape["leafId"], shape["messages"], shape["events"]) == (None, [], [])
    entries = prompt(client, "anew")["entries"]
    (user,) = [e for e in entries if e["type"] == "message" and text_of(e["message"]) == "anew"]
    assert user["parentId"] is None


def test_a_branch_needs_a_leaf(client: FlaskClient) -> None:
    response = client.post("/api/branch", json={})
    assert error(response) == (400, "invalid")
    assert "leafId" in response.json["message"]


# Reset and the list of sessions


def test_a_reset_trashes_the_session_and_restore_undoes_it(client: FlaskClient, settings: Settings) -> None:
    old = prompt(client, "hello")
    response = client.post("/api/reset")
    assert response.status_code == 200
    assert set(response.json) == SESSION_KEYS | {"trashed"}
    assert response.json["trashed"] == old["sessionId"]
    assert response.json["sessionId"] != old["sessionId"]
    assert (response.json["entries"], response.json["leafId"], response.json["state"]) == ([], None, "idle")
    assert (settings.data / "trash" / f"{old['sessionId']}.jsonl").is_file()
    assert not (settings.data / "sessions" / f"{old['sessionId']}.jsonl").exists()
    assert error(client.get(f"/api/sessions/{old['sessionId']}")) == (404, "unknown_session")
    assert client.post(f"/api/sessions/{old['sessionId']}/restore").status_code == 200
    again = client.get(f"/api/session?sessionId={old['sessionId']}").json
    assert again["messages"] == old["messages"]
    assert [word(event) for event in again["events"]][-1] == "run_done"
    assert prompt(client, "on", sessionId=old["sessionId"])["status"] == "done"


def test_a_reset_stops_the_run_first(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    _, session_id = start(client, "q")
    held.wait()
    assert client.post("/api/reset", json={"sessionId": session_id}).json["entries"] == []
    client.post(f"/api/sessions/{session_id}/restore")
    shape = client.get(f"/api/session?sessionId={session_id}").json
    assert (shape["state"], shape["events"][-1]["status"]) == ("idle", "aborted")


def test_sessions_are_made_listed_named_deleted_and_restored(client: FlaskClient) -> None:
    made = client.post("/api/sessions", json={"name": "Tides\n and  moon"})
    assert made.status_code == 201
    session_id = made.json["sessionId"]
    assert made.headers["Location"] == f"/api/sessions/{session_id}"
    assert made.json["name"] == "Tides and moon"
    prompt(client, "hello", sessionId=session_id)
    (listed,) = client.get("/api/sessions").json["sessions"]
    assert (listed["id"], listed["name"], listed["firstText"]) == (session_id, "Tides and moon", "hello")
    assert (listed["messageCount"], listed["problem"]) == (2, "")
    renamed = client.patch(f"/api/sessions/{session_id}", json={"name": "潮汐"})
    assert (renamed.status_code, renamed.json["name"]) == (200, "潮汐")
    assert client.get(f"/api/sessions/{session_id}").json["name"] == "潮汐"
    assert error(client.patch(f"/api/sessions/{session_id}", json={"name": " \n"})) == (400, "empty_name")
    assert client.delete(f"/api/sessions/{session_id}").json == {"trashed": session_id}
    assert client.get("/api/sessions").json["sessions"] == []
    assert client.post(f"/api/sessions/{session_id}/restore").json["name"] == "潮汐"
    assert error(client.post(f"/api/sessions/{session_id}/restore"))[0] in (404, 507)


def test_an_empty_post_makes_a_session_without_name(client: FlaskClient) -> None:
    response = client.post("/api/sessions")
    assert (response.status_code, response.json["name"]) == (201, "")
    assert set(response.json) == {
        "sessionId",
        "name",
        "state",
        "leafId",
        "runId",
        "interrupted",
        "queue",
        "returned",
        "readOnly",
        "labels",
        "mainLine",
        "branches",
        "contextTokens",
        "parentSession",
        "problems",
    }


# Health


def test_health_tells_what_it_can_do_where_no_token_is_set(client: FlaskClient) -> None:
    answer = client.get("/api/health").json
    assert set(answer) == {"ok", "version", "capabilities"}
    assert answer["capabilities"]["model"] == "Offline tutor: rules, no AI"
    assert answer["capabilities"]["tools"] == TOOLS


def test_health_without_the_token_says_only_that_it_lives(new_app: NewApp) -> None:
    client = new_app(token="right").test_client()
    plain = client.get("/api/health")
    assert (plain.status_code, set(plain.json), plain.json["ok"]) == (200, {"ok", "version"}, True)
    wrong = client.get("/api/health", headers={"Authorization": "Bearer wrong"})
    assert (wrong.status_code, set(wrong.json)) == (200, {"ok", "version"})
    right = client.get("/api/health", headers={"Authorization": "Bearer right"})
    assert set(right.json) == {"ok", "version", "capabilities"}


def test_prompts_that_wait_leave_room_to_stop_the_run(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    app = new_app(FakeModel(held, *[say("more")] * MAX_WAITING))
    client = app.test_client()
    answers: list[int] = []

    def wait(text: str) -> None:
        answers.append(app.test_client().post("/api/prompt", json={"text": text, "queue": True}).status_code)

    waiting = [threading.Thread(target=wait, args=(str(number),)) for number in range(MAX_WAITING)]
    for thread in waiting:
        thread.start()
    held.wait()
    slots = app.extensions["hornbook"].waiting
    while slots.take():  # until all of them wait
        slots.give_back()
        waiting[0].join(0.01)
    refused = client.post("/api/prompt", json={"text": "one more", "queue": True})
    assert (refused.status_code, refused.json["reason"]) == (503, "too_many_waiting")
    assert "one more" not in str(client.get("/api/session").json["entries"])
    held.open.set()
    for thread in waiting:
        thread.join(SECONDS)
    assert answers == [200] * MAX_WAITING
    assert client.post("/api/prompt", json={"text": "and now"}).status_code == 200


def test_a_reset_of_an_empty_folder_trashes_nothing(client: FlaskClient, settings: Settings) -> None:
    shape = client.post("/api/reset").json
    assert shape["trashed"] is None and shape["entries"] == []
    assert list((settings.data / "trash").iterdir()) == []


def test_twelve_prompts_at_once_over_http_are_all_answered(app: Flask) -> None:
    answers: list[Any] = []

    def ask(text: str) -> None:
        answers.append(app.test_client().post("/api/prompt", json={"text": text, "queue": True}))

    asking = [threading.Thread(target=ask, args=(f"hello {number}",)) for number in range(12)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(SECONDS)
    assert [answer.status_code for answer in answers] == [200] * 12
    assert roles(app.test_client().get("/api/session").json).count("user") == 12
