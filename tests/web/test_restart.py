"""A server killed in the middle of a run: started again it loses nothing, and readers find their place."""

from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from tests.server import Server, running_server
from tests.web.helpers import ServerSentEvent, events_of, page, parse_stream, texts

ANSWER = "".join(f"word{number} " for number in range(60))
NOTE = "what the tide does"


WRITE = {
    "text": "First a note.",
    "toolCalls": [{"name": "write_note", "arguments": {"name": "tides", "content": NOTE}, "id": "c1"}],
}
SPEAK = {"text": ANSWER, "chunk": 6, "delayMs": 20}
FALL_SILENT = {**SPEAK, "fault": {"kind": "hang", "afterDeltas": 12}}
"""So that the server is killed in mid-answer however busy the machine is."""


def events_as_they_come(response: HTTPResponse) -> Iterator[ServerSentEvent]:
    return events_of(line.decode("utf-8").removesuffix("\n") for line in response)


def killed_in_mid_answer(server: Server) -> tuple[str, str, list[ServerSentEvent], int]:
    """Starts a run, kills the server while the answer is written.

    Returns the ids of run and session, what the run's reader got, and the number that an open page had reached.
    """
    begun = server.post("/api/runs", {"text": "q"}).json
    run_id, session_id = begun["runId"], begun["sessionId"]
    seen: list[ServerSentEvent] = []
    with (
        server.stream(f"/sessions/{session_id}/stream", server.cookie) as page_stream,
        server.stream(f"/api/runs/{run_id}/events") as run_stream,
    ):
        words = 0
        for event in events_as_they_come(run_stream):
            seen.append(event)
            is_delta = event.event == "message_update" and event.json["assistantMessageEvent"]["type"] == "text_delta"
            words += is_delta and "word" in event.json["assistantMessageEvent"]["delta"]
            if words == 5:
                break
        number = next(int(piece.id) for piece in events_as_they_come(page_stream) if "word1" in piece.data)
        server.kill()
    return run_id, session_id, seen, number


def numbers(events: list[ServerSentEvent]) -> list[int]:
    return [int(event.id) for event in events]


def test_a_killed_run_goes_on_under_its_own_id(tmp_path: Path, workspace: Path, script: Callable[..., str]) -> None:
    data = tmp_path / "data"
    model = script(WRITE, FALL_SILENT)
    with running_server(data=data, workspace=workspace, model=model) as server:
        port, link = server.port, server.link
        run_id, session_id, seen, number = killed_in_mid_answer(server)
    script(WRITE, SPEAK)
    with running_server(data=data, workspace=workspace, model=model, port=port) as server:
        assert server.link == link
        about = server.get(f"/api/sessions/{session_id}").json
        assert (about["interrupted"], about["state"]) == (run_id, "idle")
        shape = server.get("/api/session").json
        assert [message["role"] for message in shape["messages"]] == ["user", "assistant", "toolResult"]
        assert (workspace / "notes" / "tides.md").read_text("utf-8").strip() == NOTE

        path = f"/api/runs/{run_id}/events"
        with server.stream(path, {**server.bearer(), "Last-Event-ID": seen[-1].id}) as stream:
            resumed = events_as_they_come(stream)
            mended = next(resumed)
            assert (mended.event, mended.json["discarded"], mended.json["recovered"]) == ("message_end", True, True)
            open_page = server.stream(f"/sessions/{session_id}/stream", {**server.cookie, "Last-Event-ID": str(number)})
            with open_page as page_stream:
                pieces = events_as_they_come(page_stream)
                greeting = next(pieces)
                assert "Continue" in page(greeting.data).get_text()
                answer = server.post(f"/api/runs/{run_id}/continue")
                assert (answer.status, answer.json) == (202, {"runId": run_id, "sessionId": session_id})
                rest = [mended, *resumed]
                page_pieces = [greeting]
                while "done" not in status_of(page_pieces[-1]):
                    page_pieces.append(next(pieces))

        assert rest[-1].event == "run_done"
        assert rest[-1].json["status"] == "done"
        assert {event.json["runId"] for event in seen + rest} == {run_id}
        assert numbers(seen + rest) == sorted(set(numbers(seen + rest)))
        kinds = [event.event for event in seen + rest]
        assert (kinds.count("agent_start"), kinds.count("agent_end"), kinds.count("run_done")) == (1, 1, 1)
        whole = parse_stream(server.get(path).body)
        assert [event.event for event in whole].count("tool_execution_end") == 1
        assert whole[-1] == rest[-1]

        ends = numbers(page_pieces)
        assert ends == sorted(ends) and ends[1] > number
        final = "".join(piece.data for piece in page_pieces)
        assert ANSWER.strip() in page(final).get_text()

        shape = server.get("/api/session").json
        assert texts(shape["messages"])[-1] == ANSWER
        assert [message["role"] for message in shape["messages"]] == ["user", "assistant", "toolResult", "assistant"]
        assert (shape["state"], shape["leafId"]) == ("idle", rest[-1].json["leafId"])
        assert server.get(f"/api/sessions/{session_id}").json["interrupted"] is None


def status_of(piece: ServerSentEvent) -> str:
    """Returns "done" for a piece that shows a status with nothing to stop or to continue."""
    soup = page(piece.data)
    status = soup.select_one("#status")
    return "done" if status is not None and status.find("form") is None else ""


def test_a_run_that_was_over_is_over_after_the_kill(tmp_path: Path, workspace: Path) -> None:
    data = tmp_path / "data"
    with running_server(data=data, workspace=workspace) as server:
        before: Any = server.post("/api/prompt", {"text": "list files"}).json
        server.kill()
    with running_server(data=data, workspace=workspace) as server:
        after = server.get("/api/session").json
        assert after["messages"] == before["messages"]
        assert after["entries"] == before["entries"]
        assert after["events"] == [event for event in before["events"] if event["type"] != "message_update"]
        assert server.post("/api/prompt", {"text": "hello"}).json["status"] == "done"
