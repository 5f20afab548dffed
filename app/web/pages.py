"""The first page, and one session with its transcript, composer and stream."""

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, current_app, g, redirect, render_template, request, url_for

from app.protocol.codec import encode_line
from app.runs.errors import NotFound, RunError
from app.runs.live import LiveSession
from app.runs.picture import Snapshot, Status
from app.sessions.store import SessionSummary
from app.sessions.summary import clean_name
from app.web import sse
from app.web.calls import pretty_json
from app.web.context_fill import nearly_full
from app.web.courses import home_values
from app.web.errors import sentence_of, status_of, wants_piece
from app.web.ids import end_of, session_url
from app.web.page_cursor import PageCursor, stream_url
from app.web.pieces import Writer
from app.web.preferences import Preferences, here, preferences
from app.web.services import services
from app.web.session_page import (
    moved_of,
    panel_values,
    request_before,
    shared_values,
    starters,
    text_to_edit,
    transcript_values,
    view_of,
    window_asked_for,
)
from app.web.texts import _
from app.web.tree import read_query

pages = Blueprint("pages", __name__)

SESSIONS_SHOWN = 12
ENDS = {"end": "last", "last": "end"}
"""Two names of one place, a session's end, by which a page without scripts takes turns while it asks again."""


@pages.get("/")
def home() -> str:
    supervisor = services().supervisor
    sessions = supervisor.list()
    newest = next((summary for summary in sessions if summary.message_count and not summary.problem), None)
    everything = request.args.get("sessions") == "all"
    return render_template(
        "pages/home.html",
        sessions=sessions if everything else sessions[:SESSIONS_SHOWN],
        more_sessions=0 if everything else max(0, len(sessions) - SESSIONS_SHOWN),
        newest=newest,
        state=_state_of(newest),
        model=supervisor.equipment.model,
        settings=services().settings,
        trashed=request.args.get("trashed"),
        in_trash=len(supervisor.trashed()),
        **home_values(services().shelf, services().settings, preferences().lang),
    )


def _state_of(summary: SessionSummary | None) -> Status | None:
    """Returns what a session does; None for one that cannot be opened now."""
    try:
        return services().supervisor.open(summary.id).status() if summary is not None else None
    except RunError:
        return None


@pages.post("/sessions")
def create_session() -> Any:
    """Makes a session, named and with a first message if these are given (``name``, ``text``, ``show``)."""
    live = services().supervisor.create(clean_name(request.form.get("name", "")))
    text = _typed("text")
    if text.strip():
        services().supervisor.prompt(live.id, text)
    show = request.form.get("show")
    return redirect(session_url(live.id) + (f"?{urlencode({'show': show})}" if show else ""), 303)


@pages.get("/trash")
def trash() -> str:
    """What was deleted, and can be brought back."""
    return render_template("pages/trash.html", sessions=services().supervisor.trashed())


@pages.get("/sessions/<session_id>")
def session(session_id: str) -> str:
    live = services().supervisor.resolve(session_id)
    return session_page(live, edit=request.args.get("edit"))


def session_page(live: LiveSession, *, text: str = "", problem: str = "", edit: str | None = None) -> str:
    """Returns a session's page, with what was typed and what is wrong with it."""
    g.page_path = session_url(live.id)
    at = request.args.get("at")
    picture = live.snapshot()
    view = view_of(preferences(), request.args.get("panel"))
    window = window_asked_for(picture, request.args)
    return render_template(
        "pages/session.html",
        session=picture,
        **transcript_values(picture, services(), view, window),
        model=services().supervisor.equipment.model,
        text=text or text_to_edit(picture, edit),
        problem=problem,
        refresh=picture.state == "running" and request.args.get("refresh") != "0",
        # A page at an anchor does not load again at the same address: the browser only goes to the anchor.
        refresh_to=here(at=ENDS[at]) + "#act" if at in ENDS else "",
        moved=moved_of(picture),
        branches=picture.branches,
        starters=starters(),
        nearly_full=nearly_full(picture.tokens, services().supervisor.equipment.model.context_window),
        copied_from=_origin(picture),
        stream_url=stream_url(live.id, view, picture.n),
        **panel_values(picture, services(), view),
    )


def _origin(picture: Snapshot) -> SessionSummary | None:
    """Returns the session here that this one was copied from, if it was, and if that is still there."""
    parent = picture.session.header.parent_session or ""
    if not parent.endswith(".jsonl"):
        return None
    wanted = parent.removesuffix(".jsonl")
    return next((one for one in services().supervisor.list() if one.id == wanted), None)


@pages.get("/sessions/<session_id>/earlier")
def earlier(session_id: str) -> Response:
    """The messages before the entry ``until``, as htmx puts them before those that are there."""
    picture = services().supervisor.resolve(session_id).snapshot()
    view = view_of(preferences(), request.args.get("panel"))
    window = window_asked_for(picture, request.args)
    values = transcript_values(picture, services(), view, window)
    piece = render_template("partials/earlier.html", **values, **shared_values(session_id, view))
    return Response(piece, headers={"Vary": "HX-Request"})


@pages.get("/sessions/<session_id>/<any(workings, tree, tools):name>")
def panel_page(session_id: str, name: str) -> str:
    """The timeline, the tree or the tools as a page of their own."""
    live = services().supervisor.resolve(session_id)
    picture = live.snapshot()
    panel, everything = {"workings": "timeline"}.get(name, name), request.args.get("all") == "1"
    view = view_of(preferences(), panel, beside=False, everything=everything)
    return render_template(
        "pages/panel.html",
        session=picture,
        heading={"workings": _("Workings"), "tree": _("Tree"), "tools": _("Tools")}[name],
        stream_url=stream_url(live.id, view, picture.n),
        **panel_values(picture, services(), view, read_query(request.args)),
    )


@pages.get("/sessions/<session_id>/entries/<entry_id>")
def entry_page(session_id: str, entry_id: str) -> str:
    """One entry as it is stored."""
    live = services().supervisor.resolve(session_id)
    picture = live.snapshot()
    stored = picture.session.stored(entry_id)
    if stored is None:
        raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session.")
    return render_template(
        "pages/entry.html",
        session=picture,
        entry_id=entry_id,
        json=pretty_json(stored.raw),
        **shared_values(live.id, view_of(preferences(), None, beside=False)),
    )


@pages.get("/sessions/<session_id>/requests/<entry_id>")
def request_page(session_id: str, entry_id: str) -> str:
    """The request that an answer of the model was made to."""
    picture = services().supervisor.resolve(session_id).snapshot()
    made = request_before(picture, services(), entry_id)
    if made is None:
        raise NotFound("unknown_entry", f"There is no answer {entry_id!r} in this session.")
    return render_template(
        "pages/request.html",
        session=picture,
        entry_id=entry_id,
        json=pretty_json(encode_line(made)),
        **shared_values(session_id, view_of(preferences(), None, beside=False)),
    )


@pages.post("/sessions/<session_id>/prompt")
def prompt(session_id: str) -> Any:
    """Sends a message, or queues it while a run works. htmx gets the problem, if any; a plain form gets the page."""
    text = _typed("text")
    live = services().supervisor.open(session_id, to_write=True)
    problem, status = "", 200
    if not text.strip():
        problem, status = _("Write something first."), 422
    else:
        try:
            services().supervisor.prompt(session_id, text, queue=True)
        except RunError as refusal:
            problem, status = sentence_of(refusal), status_of(refusal)
    if wants_piece():
        return Response(render_template("partials/problem.html", problem=problem), status, {"Vary": "HX-Request"})
    if problem:
        return Response(session_page(live, text=text, problem=problem), status)
    return redirect(end_of(session_id), 303)


def _typed(field: str) -> str:
    """Returns a form field's text with the line breaks that were typed: browsers send CRLF."""
    return request.form.get(field, "").replace("\r\n", "\n")


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


@pages.post("/sessions/<session_id>/compact")
def compact(session_id: str) -> Any:
    """Summarises older parts of the branch; the form field ``focus`` says what matters most."""
    services().supervisor.compact(session_id, request.form.get("focus", "").strip())
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


@pages.post("/sessions/<session_id>/name")
def rename(session_id: str) -> Any:
    """Names the session. From the first page (``back``) it leads back there."""
    services().supervisor.rename(session_id, clean_name(request.form.get("name", "")))
    if request.form.get("back") == "home":
        return redirect(url_for("pages.home") + "#sessions", 303)
    return _done(session_id)


@pages.post("/sessions/<session_id>/delete")
def delete(session_id: str) -> Any:
    services().supervisor.delete(session_id)
    return redirect(url_for("pages.home", trashed=session_id), 303)


@pages.post("/sessions/<session_id>/restore")
def restore(session_id: str) -> Any:
    services().supervisor.restore(session_id)
    return redirect(session_url(session_id), 303)


def _done(session_id: str) -> Any:
    """htmx needs nothing back: what changed comes through the stream. A plain form gets the page."""
    if wants_piece():
        return Response(status=204)
    return redirect(end_of(session_id), 303)


@pages.get("/sessions/<session_id>/stream")
def stream(session_id: str) -> Response:
    """The page's one stream: all runs of the session, as HTML, from number ``after`` on."""
    live = services().supervisor.open(session_id)
    slots = services().streams
    if not slots.take():
        return sse.refused_stream()
    beside, everything = request.args.get("only") != "panel", request.args.get("all") == "1"
    # Only what changes the pieces, so that all who see the same share them.
    prefs = Preferences(show=preferences().show, lang=preferences().lang)
    view = view_of(prefs, request.args.get("panel"), beside=beside, everything=everything)
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    cursor = PageCursor(Writer(live, app, services(), view), services().shared, sse.start_of(request))
    return sse.stream_response(sse.follow(cursor, sse.client_gone(request.environ)), live, slots)
