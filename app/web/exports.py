"""Exports: a session or one of its branches as a file, and the form that asks which."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, current_app, render_template, request, stream_with_context
from flask_babel import force_locale

from app.protocol.entries import Entry
from app.runs.errors import NotFound
from app.sessions.branches import stretches_of
from app.sessions.export import jsonl, markdown
from app.sessions.fork import branch_lines
from app.sessions.lines import StoredEntry
from app.sessions.preview import preview
from app.sessions.reading import entry_of
from app.sessions.store import Session
from app.sessions.times import now_iso
from app.sessions.window import stored_path
from app.settings import Settings, resource
from app.web.errors import ApiError
from app.web.export_html import document_of, words_told
from app.web.preferences import preferences
from app.web.services import services
from app.web.session_page import shared_values, view_of
from app.web.texts import _
from app.web.tree_words import words_of

exports = Blueprint("exports", __name__)

FORMATS = {"jsonl": "application/x-ndjson", "markdown": "text/markdown", "html": "text/html"}
SUFFIXES = {"jsonl": "jsonl", "markdown": "md", "html": "html"}


@exports.get("/sessions/<session_id>/export")
def export(session_id: str) -> Any:
    """A file in the ``format`` asked for: of the branch that ends at ``entry``, or of the whole session.

    With ``slim`` it has no output of tools and no thinking. Without a format, the form that asks for all that.
    """
    live = services().supervisor.open(session_id)
    entry_id = request.args.get("entry", "")
    if entry_id and live.session.outline.position(entry_id) is None:
        raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session to export.")
    if "format" in request.args:
        return download(live.session, request.args["format"], entry_id, slim=request.args.get("slim") == "1")
    picture = live.snapshot()
    at = live.session.position(entry_id) if entry_id else -1
    return render_template(
        "pages/export.html",
        session=picture,
        entry_id=entry_id,
        entry_text=preview(words_of(live.session.at(at).entry)[0]) if at >= 0 else "",
        **shared_values(live.id, view_of(preferences(), None, beside=False)),
    )


@exports.get("/api/sessions/<session_id>/export")
def api_export(session_id: str) -> Any:
    """The same file for a program; ``format`` is jsonl when it is not given."""
    live = services().supervisor.open(session_id)
    entry_id = request.args.get("entry", "")
    if entry_id and live.session.outline.position(entry_id) is None:
        raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session to export.")
    kind = request.args.get("format", "jsonl")
    return download(live.session, kind, entry_id, slim=request.args.get("slim") == "1")


def download(session: Session, kind: str, entry_id: str, *, slim: bool) -> Response:
    """Returns the file as an answer that a browser saves under the session's name."""
    if kind not in FORMATS:
        raise ApiError(422, "unknown_format", _("An export has the format jsonl, markdown or html."))
    body = stream_with_context(content_of(session, kind, entry_id, slim=slim))
    headers = {"Content-Disposition": _attachment(session, SUFFIXES[kind])}
    if kind == "html":
        # It is saved, not shown here; were it shown, it would need nothing but its own style.
        headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    return Response(body, 200, headers, mimetype=FORMATS[kind])


def _attachment(session: Session, suffix: str) -> str:
    name = "".join(c if c not in '\\/:*?"<>|' else " " for c in session.outline.name or session.id).strip(". ")
    name = name[:100] or "session"
    plain = name.encode("ascii", "ignore").decode().strip() or "session"
    return f"attachment; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{quote(name)}.{suffix}"


def content_of(session: Session, kind: str, entry_id: str, *, slim: bool) -> Iterator[bytes]:
    """Yields the bytes of an export; ``entry_id`` is the end of the branch, "" for the whole session."""
    match kind:
        case "jsonl":
            yield from _jsonl(session, entry_id, slim=slim)
        case "markdown":
            for piece in markdown(_title(session), _parts(session, entry_id, slim=slim), slim=slim):
                yield piece.encode("utf-8", "replace")
        case _:
            lang = preferences().html_lang
            for piece in document_of(current_app.jinja_env, session, entry_id, slim=slim, lang=lang):
                yield piece.encode("utf-8", "replace")


def content_outside(settings: Settings, session: Session, kind: str, entry_id: str, *, slim: bool) -> Iterator[bytes]:
    """Yields the bytes of an export where no request is answered, in English.

    Nothing else of ``settings`` is used: what is taught from, and by whom, need not be there.
    """
    if kind != "html":
        yield from content_of(session, kind, entry_id, slim=slim)
        return
    from app.web import build_app

    app = build_app(replace(settings, workspace=resource("workspace"), model="offline"))
    with app.app_context(), force_locale("en"):
        yield from content_of(session, kind, entry_id, slim=slim)


def _title(session: Session) -> str:
    return session.outline.name or session.outline.first_text or "Session"


def _jsonl(session: Session, entry_id: str, *, slim: bool) -> Iterator[bytes]:
    if not entry_id:
        yield from jsonl(session.header_raw, session.entries, slim=slim)
        return
    path = stored_path(session, entry_id)
    lines = branch_lines(path, session.outline.labels, name=session.outline.name, now=now_iso(), new_id=session.new_id)
    yield from jsonl(session.header_raw, (_stored(line) for line in lines), slim=slim)


def _stored(line: bytes) -> StoredEntry:
    return entry_of(line, "")


def _parts(session: Session, entry_id: str, *, slim: bool) -> Iterator[tuple[str, Iterator[tuple[Entry, str]]]]:
    outline = session.outline

    def entries(places: Any) -> Iterator[tuple[Entry, str]]:
        return ((session.at(place).entry, outline.labels.get(outline.ids[place], "")) for place in places)

    if entry_id:
        yield "", entries(outline.path(session.position(entry_id)))
        return
    stretches = stretches_of(outline, len(outline))
    for stretch in stretches:
        heading = ""
        if stretch.of > 1:
            above = stretches[stretch.above].places[-1] if stretch.above is not None else None
            after = "" if above is None else preview(words_told(session.at(above).entry, slim=slim), 60)
            heading = f"Branch {stretch.number} of {stretch.of}, " + (f"after: {after}" if after else "from the start")
        yield heading, entries(stretch.places)
