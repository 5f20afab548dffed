"""A file of another program, or of another time, as the content of a session here; pure."""

from dataclasses import dataclass, field

from app.protocol.entries import FORMAT_VERSION
from app.sessions.lines import parse
from app.sessions.records import SkippedLine

MANY_LINES = 1_000_000
LEAST_BYTES = 40
"""An entry has more: a file of many shorter lines is no session, and to tell of each line would take gigabytes."""


@dataclass(frozen=True)
class Imported:
    """What an import keeps: the new file's ``content`` and the id that it asks for ("" for none).

    ``kept`` counts entries, ``skipped`` are the lines that are none, ``warnings`` what is odd. With a ``problem``
    nothing is to be stored. ``changed`` says why the file could not stay as it was, "" where each byte is kept.
    """

    content: bytes = b""
    session_id: str = ""
    name: str = ""
    kept: int = 0
    skipped: list[SkippedLine] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    changed: str = ""
    problem: str = ""


def import_bytes(data: bytes) -> Imported:
    """Returns what becomes of the bytes of a file: Pi's formats 1 to 3, the teaching format, also without header."""
    lines = data.count(b"\n")
    if lines > MANY_LINES and len(data) < lines * LEAST_BYTES:
        return Imported(problem=f"It has {lines:,} lines, which are too short for a session's.")
    parsed = parse(data, "")
    if parsed.future_version:
        problem = f"It has format version {parsed.version}; up to version {FORMAT_VERSION} is read."
        return Imported(skipped=parsed.skipped, problem=problem)
    if parsed.problem or not (parsed.entries or parsed.version == FORMAT_VERSION):
        problem = parsed.problem or "The file is empty."
        return Imported(skipped=parsed.skipped, problem=problem)
    content = data
    if parsed.needs_rewrite:
        content = b"\n".join([parsed.header_raw, *(stored.raw for stored in parsed.entries)]) + b"\n"
    return Imported(
        content=content,
        session_id=parsed.header.id,
        name=parsed.outline.name or parsed.outline.first_text,
        kept=len(parsed.entries),
        skipped=parsed.skipped,
        warnings=parsed.warnings,
        changed=parsed.needs_rewrite,
    )
