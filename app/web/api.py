"""The JSON API: what a page can do, a program can do."""

from typing import Any, TypeVar

import msgspec
from flask import Blueprint, Response, request

from app.protocol.codec import decode_as
from app.protocol.events import RunDone
from app.runs.active import ActiveRun
from app.runs.buffer import Record
from app.runs.live import LiveSession
from app.runs.supervisor import Queued, Started
from app.sessions.summary import clean_name
from app.web import sse
from app.web.errors import ApiError, error_response, json_response
from app.web.run_cursor import RunCursor
from app.web.security import has_token
from app.web.services import services, version
from app.web.tree import read_query, tree_shape

api = Blueprint("api", __name__, url_prefix="/api")


class PromptBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message for the agent."""

    text: str
    session_id: str | None = None
    queue: bool = False


class SessionBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names a session; the most recently used one when absent."""

    session_id: str | None = None


class BranchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where to go on; null is before the first entry."""

    leaf_id: str | None
    session_id: str | None = None


class MoveBody(BranchBody, frozen=True, kw_only=True, rename="camel"):
    """With ``summary``, what is left is summarised, with regard to ``focus``, and the move comes after that."""

    summary: bool = False
    focus: str = ""


class CompactBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What matters most in a summary; may be empty."""

    focus: str = ""


class LabelBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry's label; an empty one takes it away."""

    label: str


class EntryBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names an entry; an empty one none."""

    entry_id: str


class NameBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session's name."""

    name: str = ""


B = TypeVar("B", bound=msgspec.Struct)


def body_as(kind: type[B]) -> B:
    """Returns the request's JSON body; an absent one is {}. Raises ApiError 415 or 400, naming what does not fit."""
    data = request.get_data()
    if not data.strip():
        data = b"{}"
    elif not request.is_json:
        raise ApiError(415, "unsupported_media_type", "Send the body as application/json.")
    try:
        return decode_as(data, kind)
    except msgspec.ValidationError as problem:
        raise ApiError(400, "invalid", f"The body does not fit: {problem}.") from problem
    except (ValueError, RecursionError) as problem:
        raise ApiError(400, "invalid_json", f"The body is not valid JSON: {problem}.") from problem


def _text(body: PromptBody) -> str:
    if not body.text.strip():
        raise ApiError(400, "empty_text", "The text is empty. Send what you want to say to the tutor.")
    return body.text


def session_shape(live: LiveSession) -> dict[str, Any]:
    """Returns a session as the API gives it; ``events`` are those of the newest run of the branch."""
    picture = live.snapshot()
    run_id = picture.newest_run
    return {
        "sessionId": picture.session_id,
        "leafId": picture.leaf_id,
        "state": picture.state,
        "messages": picture.messages,
        "events": [msgspec.Raw(record.data) for record in _events(live, run_id, picture.n)],
        "entries": [msgspec.Raw(stored.raw) for stored in picture.session.entries[: picture.count]],
        "tools": [tool.spec() for tool in services().supervisor.equipment.tools],
    }


def _events(live: LiveSession, run_id: str | None, up_to: int) -> list[Record]:
    """Returns a run's events as far as a snapshot goes."""
    if run_id is None:
        return []
    return [record for record in live.log.after(0, run_id) if record.n <= up_to]


def _wait(live: LiveSession, run: ActiveRun) -> None:
    """Waits until a run is over, or the client has hung up; the run goes on in any case.

    Raises ApiError 503 when the server is stopped meanwhile: the run is then cut off, not over.
    """
    gone = sse.client_gone(request.environ)
    while not (run.settled.wait(sse.LOOK_SECONDS) or live.log.closed):
        if gone():
            return
    if not run.settled.is_set() or run.status == "interrupted":
        raise ApiError(503, "stopping", "Hornbook was stopped while the run worked. It can be continued after a start.")


@api.get("/health")
def health() -> Response:
    """Says that the server lives; with the token also what it can do."""
    answer: dict[str, Any] = {"ok": True, "version": version()}
    if has_token():
        model = services().supervisor.equipment.model
        answer["capabilities"] = {
            "model": model.name,
            "contextWindow": model.context_window,
            "tools": [tool.name for tool in services().supervisor.equipment.tools],
            "maxStreams": services().settings.max_streams,
        }
    return json_response(answer)


@api.get("/session")
def get_session() -> Response:
    return json_response(session_shape(services().supervisor.resolve(request.args.get("sessionId"))))


@api.post("/prompt")
def prompt() -> Response:
    """Sends a message and answers when the run has settled."""
    body = body_as(PromptBody)
    if not services().waiting.take():
        raise ApiError(503, "too_many_waiting", "Too many requests wait for a run. Use POST /api/runs, or try again.")
    try:
        begun = services().supervisor.prompt(_session_id(body.session_id), _text(body), queue=body.queue)
        _wait(begun.live, begun.run)
    finally:
        services().waiting.give_back()
    shape = session_shape(begun.live)
    return json_response({**shape, "status": begun.run.status, "runId": begun.run.run_id, "waiting": None})


@api.post("/runs")
def start_run() -> Response:
    """Sends a message and answers at once; what happens is told by the run's events."""
    body = body_as(PromptBody)
    begun = services().supervisor.prompt(_session_id(body.session_id), _text(body), queue=body.queue)
    answer = {"runId": begun.run.run_id, "sessionId": begun.live.id}
    if isinstance(begun, Queued):
        return json_response({**answer, "queued": begun.message.id}, 202)
    return json_response(answer, 201, {"Location": f"/api/runs/{begun.run.run_id}/events"})


@api.post("/runs/<run_id>/abort")
def abort(run_id: str) -> Response:
    """Stops a run, and answers when it has stopped or after 10 s; one that is over stays as it is."""
    live = services().supervisor.session_of(run_id, to_write=True)
    run = live.abort(run_id)
    if run is not None:
        run.stop("stopped by a person")
    return json_response({"runId": run_id, "sessionId": live.id, "status": _status_of(live, run_id)})


def _status_of(live: LiveSession, run_id: str) -> str:
    """Returns how a run has ended; "running" while it has not."""
    for record in reversed(live.log.after(0, run_id)):
        if isinstance(record.event, RunDone):
            return record.event.status
    return "running"


@api.post("/runs/<run_id>/continue")
def continue_run(run_id: str) -> Response:
    """Goes on with an interrupted run, under its own id."""
    supervisor = services().supervisor
    begun = supervisor.resume(supervisor.session_of(run_id, to_write=True), run_id)
    return _accepted(begun)


@api.get("/runs/<run_id>/events")
def run_events(run_id: str) -> Response:
    """Streams a run's events: history first, then live; ends after run_done."""
    live = services().supervisor.session_of(run_id)
    slots = services().streams
    if not slots.take():
        headers = {"Retry-After": "2"}
        return error_response(503, "too_many_streams", "Too many event streams are open. Try again soon.", headers)
    cursor = RunCursor(live, run_id, sse.start_of(request))
    gone = sse.client_gone(request.environ)
    return sse.stream_response(sse.follow(cursor, gone), live, slots)


@api.post("/branch")
def branch() -> Response:
    """Makes an entry the leaf of its session; with ``summary`` a run does that, and the answer is 202 with its id."""
    body = body_as(MoveBody)
    moved = services().supervisor.move(
        _session_id(body.session_id), body.leaf_id, summary=body.summary, focus=body.focus.strip()
    )
    if isinstance(moved, Started):
        return _accepted(moved)
    return json_response(session_shape(moved))


def _accepted(begun: Started) -> Response:
    return json_response({"runId": begun.run.run_id, "sessionId": begun.live.id}, 202)


@api.post("/reset")
def reset() -> Response:
    """Moves the session to the trash (``trashed`` names it, null if there was none) and answers with an empty one."""
    supervisor = services().supervisor
    old = supervisor.resolve_existing(_session_id(body_as(SessionBody).session_id))
    if old is not None:
        supervisor.delete(old.id)
    return json_response({**session_shape(supervisor.create()), "trashed": old.id if old else None})


@api.get("/sessions")
def list_sessions() -> Response:
    return json_response({"sessions": services().supervisor.list()})


@api.post("/sessions")
def create_session() -> Response:
    live = services().supervisor.create(clean_name(body_as(NameBody).name))
    return json_response(_about(live), 201, {"Location": f"/api/sessions/{live.id}"})


@api.get("/sessions/<session_id>")
def about_session(session_id: str) -> Response:
    return json_response(_about(services().supervisor.open(session_id)))


@api.patch("/sessions/<session_id>")
def rename_session(session_id: str) -> Response:
    name = clean_name(body_as(NameBody).name)
    if not name:
        raise ApiError(400, "empty_name", "The name is empty. A session's name can be changed but not removed.")
    return json_response(_about(services().supervisor.rename(session_id, name)))


@api.delete("/sessions/<session_id>")
def delete_session(session_id: str) -> Response:
    """Moves a session to the trash; POST .../restore brings it back."""
    services().supervisor.delete(session_id)
    return json_response({"trashed": session_id})


@api.post("/sessions/<session_id>/restore")
def restore_session(session_id: str) -> Response:
    return json_response(_about(services().supervisor.restore(session_id)))


@api.post("/sessions/<session_id>/compact")
def compact_session(session_id: str) -> Response:
    """Starts a run that summarises older parts of the branch."""
    return _accepted(services().supervisor.compact(session_id, body_as(CompactBody).focus.strip()))


@api.put("/sessions/<session_id>/labels/<entry_id>")
def label_entry(session_id: str, entry_id: str) -> Response:
    """Names an entry."""
    live = services().supervisor.open(session_id, to_write=True)
    live.label(entry_id, body_as(LabelBody).label)
    return json_response({"entryId": entry_id, "label": live.session.outline.labels.get(entry_id)})


@api.put("/sessions/<session_id>/main-line")
def mark_main_line(session_id: str) -> Response:
    """Says on which branch the main line is."""
    live = services().supervisor.open(session_id, to_write=True)
    live.mark_main_line(body_as(EntryBody).entry_id)
    return json_response({"mainLine": live.session.outline.main_line or None})


@api.get("/sessions/<session_id>/tree")
def session_tree(session_id: str) -> Response:
    """The tree as the page lists it, each node on the nearest one above it; ``filter`` and ``find`` as there."""
    picture = services().supervisor.open(session_id).snapshot()
    return json_response(tree_shape(picture, read_query(request.args)))


@api.post("/sessions/<session_id>/fork")
def fork_session(session_id: str) -> Response:
    """Copies the way to an entry into a new session."""
    live = services().supervisor.fork(session_id, body_as(EntryBody).entry_id)
    return json_response(_about(live), 201, {"Location": f"/api/sessions/{live.id}"})


@api.get("/trash")
def list_trash() -> Response:
    return json_response({"sessions": services().supervisor.trashed()})


@api.delete("/sessions/<session_id>/queue/<queue_id>")
def unqueue(session_id: str, queue_id: str) -> Response:
    """Takes a queued message back."""
    removed = services().supervisor.open(session_id, to_write=True).unqueue(queue_id)
    return json_response({"removed": removed})


def _about(live: LiveSession) -> dict[str, Any]:
    picture = live.snapshot()
    return {
        "sessionId": picture.session_id,
        "name": picture.name,
        "state": picture.state,
        "leafId": picture.leaf_id,
        "runId": picture.run_id,
        "interrupted": picture.interrupted,
        "queue": picture.queue,
        "returned": picture.returned,
        "readOnly": picture.read_only,
        "labels": dict(picture.session.outline.labels),
        "mainLine": picture.session.outline.main_line or None,
        "branches": picture.branches,
        "contextTokens": picture.context_size.tokens,
        "parentSession": picture.session.header.parent_session,
        "problems": picture.problems,
    }


def _session_id(in_body: str | None) -> str | None:
    return in_body or request.args.get("sessionId")
