"""Imports: session files of Pi, of other copies of Hornbook, and of older formats."""

from collections.abc import Iterator
from typing import Any

from flask import Blueprint, Response, render_template, request

from app.runs.errors import NotStored
from app.runs.supervisor import Supervisor
from app.sessions.importing import Imported, import_bytes
from app.web.errors import ApiError, json_response
from app.web.services import services
from app.web.texts import _

imports = Blueprint("imports", __name__)


@imports.get("/import")
def form() -> str:
    """The form that takes files."""
    return render_template("pages/import.html", results=[], problem="")


@imports.post("/import")
def upload() -> Any:
    """Imports the files of the form field ``file``, each for itself, and says what came of them."""
    results = [take(services().supervisor, name, data) for name, data in _files()]
    problem = ""
    if not results:
        problem = _("Choose at least one file.")
    elif not any(result["sessionId"] for result in results):
        problem = _("None of the files is a session.")
    page = render_template("pages/import.html", results=results, problem=problem)
    return Response(page, 422 if problem else 200)


def _files() -> Iterator[tuple[str, bytes]]:
    for file in request.files.getlist("file"):
        if file.filename:
            yield file.filename, file.read()


@imports.post("/api/sessions/import")
def api_import() -> Response:
    """Imports one file: the body itself, or the form field ``file``."""
    files = list(_files()) if request.mimetype == "multipart/form-data" else [("", request.get_data())]
    if len(files) != 1:
        raise ApiError(400, "no_file", "Send one session file: as the body, or as the form field file.")
    result = take(services().supervisor, *files[0])
    if result["sessionId"] is None:
        raise ApiError(422, "not_a_session", result["problem"])
    return json_response(result, 201, {"Location": f"/api/sessions/{result['sessionId']}"})


def take(supervisor: Supervisor, name: str, data: bytes) -> dict[str, Any]:
    """Imports the bytes of a file and returns what is told of it: see ``report``."""
    found = import_bytes(data)
    session_id, problem = None, found.problem
    if not problem:
        try:
            session_id = supervisor.add(found.content, found.session_id).id
        except NotStored as refusal:
            problem = str(refusal)
    return report(name, found, session_id, problem)


def report(name: str, found: Imported, session_id: str | None, problem: str) -> dict[str, Any]:
    """Returns what an import tells: file, session (None when there is none), entries kept, lines skipped and why."""
    return {
        "file": name,
        "sessionId": session_id,
        "name": found.name,
        "entries": found.kept if session_id else 0,
        "skipped": [{"line": line.line_number, "reason": line.reason} for line in found.skipped],
        "warnings": found.warnings,
        "changed": found.changed,
        "problem": problem,
    }
