"""Errors as people and programs get them: a page, or JSON {reason, message}."""

from typing import Any

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException

from app.protocol.codec import encode_line
from app.runs.errors import Conflict, NotFound, NotStored, RunError
from app.sessions.store import StoreError
from app.web import sse
from app.web.preferences import preferences
from app.web.texts import N_, _


class ApiError(Exception):
    """An error with its HTTP status, a word for programs and a sentence for people."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


_REASONS = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}
_STATUS_OF: dict[type[RunError], int] = {NotFound: 404, Conflict: 409, NotStored: 507}


def reason_of(status: int) -> str:
    """Returns the word for programs that goes with a status."""
    return _REASONS.get(status, "error")


def status_of(problem: RunError) -> int:
    """Returns the status that a refusal of a run gets."""
    return _STATUS_OF[type(problem)]


def sentence_of(problem: RunError | ApiError) -> str:
    """Returns a refusal in the reader's language; the English text names more."""
    sentence = _REFUSALS.get(problem.reason)
    return str(problem) if sentence is None or preferences().lang == "en" else _(sentence)


def message_of(status: int, otherwise: str) -> str:
    """Returns our sentence for a status, or ``otherwise``."""
    return _MESSAGES.get(status, otherwise)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns a value (structs included) as a JSON answer."""
    return Response(encode_line(value), status, headers, mimetype="application/json")


def wants_json() -> bool:
    """Returns whether the request is to the API."""
    return request.path == "/api" or request.path.startswith("/api/")


def wants_piece() -> bool:
    """Returns whether htmx asks, which swaps a piece of a page."""
    return request.headers.get("HX-Request") == "true"


def error_response(status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """Returns an error in the form that fits who asked."""
    if wants_json():
        return json_response({"reason": reason, "message": message}, status, headers)
    piece = render_template("partials/problem.html", problem=message, oob=True)
    if request.endpoint == "pages.stream" and status == 401 and wants_piece():
        return sse.refused_stream(piece)
    if wants_piece():
        # Into its own place, whatever the request was for: what is typed in a form stays.
        return Response(piece, status, {"HX-Reswap": "none", "Vary": "HX-Request", **(headers or {})})
    # A Strict cookie is withheld when another site or program led here; our own page may ask again and has it then.
    ask_again = status == 401 and request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    page = render_template("pages/error.html", status=status, message=message, ask_again=ask_again)
    return Response(page, status, headers, mimetype="text/html")


def install(app: Flask) -> None:
    """Makes every error of ``app`` one of ours."""

    @app.errorhandler(ApiError)
    def api_error(problem: ApiError) -> Response:
        message = problem.message if wants_json() else sentence_of(problem)
        return error_response(problem.status, problem.reason, message)

    @app.errorhandler(RunError)
    def run_error(problem: RunError) -> Response:
        message = str(problem) if wants_json() else sentence_of(problem)
        return error_response(status_of(problem), problem.reason, message)

    @app.errorhandler(StoreError)
    def store_error(problem: StoreError) -> Response:
        message = str(problem) if wants_json() else _(_REFUSALS["not_readable"])
        return error_response(507, "not_readable", message)

    @app.errorhandler(HTTPException)
    def http_error(problem: HTTPException) -> Response:
        status = problem.code or 500
        headers = {}
        allowed = getattr(problem, "valid_methods", None)
        if allowed:
            headers["Allow"] = ", ".join(sorted(allowed))
        message = message_of(status, problem.description or "The request failed.")
        if not wants_json():
            message = _(message_of(status, _OTHERWISE))
        return error_response(status, reason_of(status), message, headers)

    @app.errorhandler(Exception)
    def unexpected(problem: Exception) -> Response:
        app.logger.exception("a request failed")
        return error_response(500, "internal", _INTERNAL if wants_json() else _(_INTERNAL))


_OTHERWISE = N_("The request could not be understood. Go back, load the page anew and try again.")
_INTERNAL = N_("Something failed in Hornbook itself; its log says what.")
_MESSAGES = {
    404: N_("There is nothing at this address."),
    405: N_("This address does not take that method."),
    413: N_("The request is larger than 256 KiB."),
}
_REFUSALS = {
    "running": N_("A run is working in this session. Wait for it, or stop it."),
    "deleting": N_("This session is being deleted."),
    "closed": N_("This session was closed a moment ago, since nobody used it. Try again."),
    "read_only": N_("This session is open read-only, so nothing can be changed in it here."),
    "unknown_session": N_("There is no such session."),
    "unknown_entry": N_("There is no such entry in this session."),
    "not_on_path": N_("This entry is on another branch. Its place in the tree is where one goes there."),
    "unknown_queued": N_("This message does not stand here any more; it may have been sent."),
    "missing_entry": N_("Say where to go on: the form field entry must be an entry's id, or empty for the start."),
    "not_own": N_("Only a message of your own can be asked differently."),
    "too_large": N_("The request is larger than 256 KiB."),
    "upload_too_large": N_("The upload is larger than 64 MiB. The command hornbook import takes such a file."),
    "no_file": N_("Choose at least one file."),
    "not_a_session": N_("None of the files is a session."),
    "unknown_format": N_("An export has the format jsonl, markdown or html."),
    "unauthorized": N_("This needs the link that Hornbook printed."),
    "cross_site": N_("Requests that change something must come from Hornbook's own pages."),
    "not_stored": N_("It could not be stored, so nothing has changed. Look whether the disk is full."),
    "not_readable": N_("It cannot be read. The log of Hornbook says why."),
    "refused_path": N_(
        "This name leads to nothing that can be shown: it is no file of the folder, or not course text."
    ),
    "empty": N_("Nothing has been said here yet, so there is nothing to summarise."),
    "already_compacted": N_("Everything before this point is summarised already."),
    "unanswered_calls": N_("The last answer asks for tools that have no result yet. Continue it, or stop it, first."),
    "nothing_gained": N_("There is nothing to gain: what is here is short enough to be sent whole."),
    "unfinished": N_("The last answer was interrupted. Continue it, or stop it, first."),
    "not_interrupted": N_("This run is not interrupted, so it cannot be continued."),
}
