"""Commands about session files: ``hornbook import`` and ``hornbook export``. Both work beside a running server."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from app.protocol.codec import encode_line
from app.sessions.importing import Imported, import_bytes
from app.sessions.jsonl import JsonlSessionStore
from app.sessions.store import Session, StoreError, UnknownSession
from app.settings import Settings, SettingsError

FORMATS = ("jsonl", "markdown", "html")


def store_of(settings: Settings) -> JsonlSessionStore:
    """Returns the sessions of the data folder."""
    return JsonlSessionStore(settings.data / "sessions", settings.data / "trash")


def import_files(settings: Settings, files: Sequence[str], *, as_json: bool) -> int:
    """Imports each file for itself and prints what came of it, with ``as_json`` one JSON object a line.

    Returns 0, or 2 when a file could not be imported; the others are all the same.
    """
    store = store_of(settings)
    failed = False
    for name in files:
        result = _import_one(store, name)
        failed |= result["sessionId"] is None
        print(encode_line(result).decode() if as_json else "\n".join(_in_words(result)))
    return 2 if failed else 0


def _import_one(store: JsonlSessionStore, name: str) -> dict[str, Any]:
    found = Imported()
    session_id, problem = None, ""
    try:
        found = import_bytes(Path(name).expanduser().read_bytes())
        problem = found.problem
        if not problem:
            session_id = store.add(found.content, found.session_id)
    except (OSError, StoreError) as error:
        problem = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return {
        "file": name,
        "sessionId": session_id,
        "entries": found.kept if session_id else 0,
        "skipped": [{"line": line.line_number, "reason": line.reason} for line in found.skipped],
        "warnings": found.warnings,
        "changed": found.changed,
        "problem": problem,
    }


def _in_words(result: dict[str, Any]) -> Iterator[str]:
    if result["sessionId"] is None:
        yield f"{result['file']}: not imported. {result['problem']}"
    else:
        yield f"{result['file']}: {result['entries']} entries kept as session {result['sessionId']}"
    if result["changed"]:
        yield f"  brought into the present format: {result['changed']}"
    yield from (f"  {warning}" for warning in result["warnings"])
    yield from (f"  left out, line {line['line']}: {line['reason']}" for line in result["skipped"])


def export_session(settings: Settings, wanted: str, *, kind: str, entry_id: str, slim: bool, output: str | None) -> int:
    """Writes a session, or the branch that ends at ``entry_id``, to ``output`` (None: standard output). Returns 0.

    ``wanted`` is an id, the beginning of one, or a name. Raises SettingsError when it names none, or more than one.
    """
    store = store_of(settings)
    try:
        session = store.look(wanted)  # an id needs no look at all the others
    except UnknownSession:
        session = store.look(_find(store, wanted))
    if entry_id and session.outline.position(entry_id) is None:
        raise SettingsError(f"The session has no entry {entry_id!r}. --branch takes the id of an entry.")
    pieces = _content(settings, session, kind, entry_id, slim=slim)
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return 0
    try:
        _write(Path(output).expanduser(), pieces)
    except OSError as problem:
        raise SettingsError(f"{output} cannot be written: {problem.strerror or problem}") from problem
    return 0


def _write(target: Path, pieces: Iterator[bytes]) -> None:
    """Writes beside and puts in place whole, so that a failure leaves what was there; raises OSError."""
    target = target.resolve()  # what a link leads to is written, and the link stays
    if target.exists() and not target.is_file():  # a device or a pipe is written to, never replaced
        with target.open("wb") as file:
            file.writelines(pieces)
        return
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with fresh.open("wb") as file:
            file.writelines(pieces)
        os.replace(fresh, target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _find(store: JsonlSessionStore, wanted: str) -> str:
    try:
        sessions = store.list()
    except StoreError as problem:
        raise SettingsError(str(problem)) from problem
    found = [one.id for one in sessions if wanted and one.name == wanted] or [
        one.id for one in sessions if wanted and one.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SettingsError(f"There is no session {wanted!r}. Give an id, the beginning of one, or a name.")
    raise SettingsError(f"{wanted!r} is the name or the beginning of {len(found)} sessions: {', '.join(found[:5])}.")


def _content(settings: Settings, session: Session, kind: str, entry_id: str, *, slim: bool) -> Iterator[bytes]:
    """The bytes of the export, made by the same code as a download."""
    from app.web.exports import content_outside

    yield from content_outside(settings, session, kind, entry_id, slim=slim)
