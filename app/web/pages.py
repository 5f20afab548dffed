"""The pages: sessions, and one session with its transcript, composer and stream."""

from typing import Any

from flask import Blueprint, Response, current_app, redirect, render_template, request, url_for

from app.runs.errors import NotFound, RunError
from app.runs.live import LiveSession
from app.sessions.summary import clean_name
from app.web import sse
from app.web.errors import status_of, wants_piece
from app.web.fragments import PageCursor
from app.web.services import services
from app.web.transcript import transcript

pages = Blueprint("pages", __name__)


@pages.get("/")
def home() -> str:
    supervisor = services().supervisor
    return render_template(
        "pages/home.html",
        sessions=supervisor.list(),
        model=supervisor.equipment.model.name,
        settings=services().settings,
        trashed=request.args.get("trashed"),
    )


@pages.post("/sessions")
def create_session() -> Any:
    live = services().supervisor.create(clean_name(request.form.get("name", "")))
    return redirect(url_for("pages.session", session_id=live.id), 303)


@pages.get("/sessions/<session_id>")
def session(session_id: str) -> str:
    return session_page(services().supervisor.resolve(session_id))


def session_page(live: LiveSession, *, text: str = "", problem: str = "") -> str:
    """Returns a session's page, with what was typed and what is wrong with it."""
    picture = live.snapshot()
    return render_template(
        "pages/session.html",
        session=picture,
        items=transcript(picture.path, picture.partial_id, picture.partial),
        model=services().supervisor.equipment.model.name,
        text=text,
        problem=problem,
        refresh=picture.state == "running" and request.args.get("refresh") != "0",
    )


@pages.post("/sessions/<session_id>/prompt")
def prompt(session_id: str) -> Any:
    """Sends a message, or queues it while a run works. htmx gets the problem, if any; a plain form gets the page."""
    text = request.form.get("text", "").replace("\r\n", "\n")
    live = services().supervisor.open(session_id, to_write=True)
    problem, status = "", 200
    if not text.strip():
        problem, status = "Write something first.", 422
    else:
        try:
            services().supervisor.prompt(session_id, text, queue=True)
        except RunError as refusal:
            problem, status = str(refusal), status_of(refusal)
    if wants_piece():
        return Response(render_template("partials/problem.html", problem=problem), status, {"Vary": "HX-Request"})
    if problem:
        return Response(session_page(live, text=text, problem=problem), status)
    return redirect(url_for("pages.session", session_id=session_id), 303)


@pages.post("/sessions/<session_id>/abort")
def abort(session_id: str) -> Any:
    """Stops what works in the session; an interrupted run is given up."""
    live = services().supervisor.open(session_id, to_write=True)
    status = live.status()
    run_id = status.run_id or status.interrupted
    if run_id is not None:
        live.abort(run_id)
    return _done(session_id)


@pages.post("/sessions/<session_id>/continue")
def continue_run(session_id: str) -> Any:
    live = services().supervisor.open(session_id, to_write=True)
    run_id = live.status().interrupted
    if run_id is not None:
        services().supervisor.resume(live, run_id)
    return _done(session_id)


@pages.post("/sessions/<session_id>/queue/<queue_id>/remove")
def unqueue(session_id: str, queue_id: str) -> Any:
    services().supervisor.open(session_id, to_write=True).unqueue(queue_id)
    return _done(session_id)


@pages.post("/sessions/<session_id>/queue/<queue_id>/send")
def send_returned(session_id: str, queue_id: str) -> Any:
    """Sends a message that was given back."""
    supervisor = services().supervisor
    returned = supervisor.open(session_id, to_write=True).status().returned
    message = next((queued for queued in returned if queued.id == queue_id), None)
    if message is None:
        raise NotFound("unknown_queued", "This message does not stand here any more; it may have been sent.")
    supervisor.prompt(session_id, message.text, queue=True, returned=queue_id)
    return _done(session_id)


@pages.post("/sessions/<session_id>/delete")
def delete(session_id: str) -> Any:
    services().supervisor.delete(session_id)
    return redirect(url_for("pages.home", trashed=session_id), 303)


@pages.post("/sessions/<session_id>/restore")
def restore(session_id: str) -> Any:
    services().supervisor.restore(session_id)
    return redirect(url_for("pages.session", session_id=session_id), 303)


def _done(session_id: str) -> Any:
    """htmx needs nothing back: what changed comes through the stream. A plain form gets the page."""
    if wants_piece():
        return Response(status=204)
    return redirect(url_for("pages.session", session_id=session_id), 303)


@pages.get("/sessions/<session_id>/stream")
def stream(session_id: str) -> Response:
    """The page's one stream: all runs of the session, as HTML, from number ``after`` on."""
    live = services().supervisor.open(session_id)
    slots = services().streams
    if not slots.take():
        return sse.refused_stream()
    cursor = PageCursor(live, current_app.jinja_env, sse.start_of(request))
    return sse.stream_response(sse.follow(cursor, sse.client_gone(request.environ)), live, slots)
