"""The bytes of a session file as a header and entries. Pure; any bytes give a result, never an exception."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import msgspec

from app.protocol.codec import clean, encode_line
from app.protocol.entries import FORMAT_VERSION, Entry, KnownEntry, SessionHeader, UnknownEntry
from app.protocol.messages import StopReason
from app.sessions.migrate import (
    JsonObject,
    derived_id,
    id_in,
    migrated_entry,
    migrated_header,
    time_in,
    version_in,
)
from app.sessions.outline import Outline, outline_of
from app.sessions.records import BLANK, BOM, Record, SkippedLine, object_of, records_of, time_of

_KNOWN_TYPES = frozenset(kind.__struct_config__.tag for kind in get_args(KnownEntry))
_STOP_REASONS = frozenset(get_args(StopReason))
NOT_A_SESSION = "This file is not a session: it has neither a header nor an entry."


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry and its line's bytes, without line end; the bytes hold fields that the entry does not."""

    entry: Entry
    raw: bytes


@dataclass(frozen=True)
class ParsedFile:
    """What a session file holds.

    ``header`` and ``header_raw`` are as version 3 writes them; ``version`` is what the file states, 1 without
    a header. ``needs_rewrite`` says why the file must be rewritten before anything is appended, empty when it
    need not; ``problem`` is not empty when the file holds something, but no session.
    """

    header: SessionHeader
    header_raw: bytes
    version: int
    entries: list[StoredEntry]
    outline: Outline
    skipped: list[SkippedLine]
    warnings: list[str]
    ends_with_newline: bool
    size: int
    needs_rewrite: str
    future_version: bool
    problem: str


@dataclass
class Notes:
    """What is reported along the way: skipped lines, and the numbers of lines that are odd."""

    skipped: list[SkippedLine] = field(default_factory=list)
    not_utf8: list[int] = field(default_factory=list)
    unfit: list[int] = field(default_factory=list)
    incomplete: list[int] = field(default_factory=list)


def parse(data: bytes, fallback_id: str) -> ParsedFile:
    """Returns what the bytes of a session file hold.

    Reads format versions 1 to 3, later ones as far as they are alike, and files without header, which get one
    with ``fallback_id``. Each line is the header, an entry, or in ``skipped``.
    """
    records, skipped = records_of(data)
    notes = Notes(skipped, [record.line_number for record in records if record.replaced])
    body = data.removeprefix(BOM)
    first_header = next((record for record in records if record.is_header), None)
    version = 1 if first_header is None else _version_of(first_header)
    ids = _ids(records)
    header, header_raw, header_note = _header(first_header, records, fallback_id)
    entries = _entries(records, ids, first_header, version, header.timestamp, notes)
    notes.skipped.sort(key=lambda line: line.line_number)
    outline = outline_of(stored.entry for stored in entries)
    known = first_header is not None or any(not isinstance(s.entry, UnknownEntry) for s in entries)
    rewrite = [
        "It begins with a byte order mark." if data.startswith(BOM) else "",
        header_note,
        f"It has format version {version}." if first_header and version < FORMAT_VERSION else "",
        "Entries lack an id or a parent." if notes.incomplete else "",
    ]
    return ParsedFile(
        header=header,
        header_raw=header_raw,
        version=version,
        entries=entries,
        skipped=notes.skipped,
        outline=outline,
        warnings=warnings_of(outline, notes),
        ends_with_newline=not body or body.endswith(b"\n"),
        size=len(data),
        needs_rewrite=" ".join(filter(None, rewrite)),
        future_version=version > FORMAT_VERSION,
        problem="" if known or not body.strip(BLANK) else NOT_A_SESSION,
    )


def _version_of(header: Record) -> int:
    fits = header.fits
    return version_in({"version": fits.version} if isinstance(fits, SessionHeader) else header.value)


def _ids(records: Sequence[Record]) -> list[str | None]:
    """The id of each record, derived where it has none; None for headers."""
    used = {found for record in records if not record.is_header and (found := record.id)}
    ids: list[str | None] = []
    for record in records:
        if record.is_header:
            ids.append(None)
            continue
        entry_id = record.id or derived_id(record.line_number, record.raw, used)
        used.add(entry_id)
        ids.append(entry_id)
    return ids


def _header(record: Record | None, records: Sequence[Record], fallback_id: str) -> tuple[SessionHeader, bytes, str]:
    """The header as version 3, its line, and what was wrong with it."""
    fits = None if record is None else record.fits
    if record is not None and isinstance(fits, SessionHeader) and fits.version >= FORMAT_VERSION:
        return fits, record.raw, "" if record is records[0] else "Entries stand before its header."
    first = next((r for r in records if not r.is_header), None)
    sound = migrated_header({} if record is None else object_of(record), fallback_id, time_of(first))
    note = "It has no sound header." if fits is None else ""
    return msgspec.convert(clean(sound), SessionHeader), _encoded(sound), note


def _entries(
    records: Sequence[Record],
    ids: Sequence[str | None],
    header: Record | None,
    version: int,
    fallback_time: str,
    notes: Notes,
) -> list[StoredEntry]:
    entries: list[StoredEntry] = []
    previous: str | None = None
    for record, entry_id in zip(records, ids, strict=True):
        if entry_id is None:
            if record is not header:
                notes.skipped.append(SkippedLine(record.line_number, "a second header"))
            continue
        if record.fits is not None and not isinstance(record.fits, SessionHeader):
            entries.append(StoredEntry(record.fits, record.raw))
        else:
            value = record.value if version >= FORMAT_VERSION else migrated_entry(record.value, ids)
            entries.append(completed(record, value, entry_id, previous, fallback_time, notes))
        previous = entry_id
    return entries


def completed(
    record: Record, value: JsonObject, entry_id: str, previous: str | None, fallback_time: str, notes: Notes
) -> StoredEntry:
    """Returns an entry out of a line that does not fit as it stands: id, parent and time filled in if need be."""
    links = missing_links(value, entry_id, previous)
    if links:
        notes.incomplete.append(record.line_number)
    full = {**value, **links, "timestamp": time_in(value, fallback_time)}
    entry = _view(clean(full))
    if isinstance(entry, UnknownEntry) and entry.problem:
        notes.unfit.append(record.line_number)
    # A time alone is not worth a rewrite: other readers do without it.
    changed = links or value is not record.value
    return StoredEntry(entry, _encoded(full) if changed else record.raw)


def missing_links(value: JsonObject, entry_id: str, previous: str | None) -> JsonObject:
    """Returns the id and the parent where a line states none that can be used.

    Such files were meant as a chain, so the parent is the entry before.
    """
    links: JsonObject = {}
    if not isinstance(value.get("id"), str) or not value["id"]:
        links["id"] = entry_id
    parent = value.get("parentId")
    if "parentId" not in value or not isinstance(parent, str | None):
        links["parentId"] = id_in(parent) or previous
    return links


def _view(value: JsonObject) -> Entry:
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    problem = ""
    if kind in _KNOWN_TYPES:
        try:
            known: KnownEntry = msgspec.convert(_mended(value), KnownEntry)
            return known
        except msgspec.ValidationError as error:
            problem = str(error)
    return UnknownEntry(
        id=value["id"], parent_id=value["parentId"], timestamp=value["timestamp"], type=kind, problem=problem
    )


def _mended(value: JsonObject) -> JsonObject:
    """Small faults for which no entry must be lost.

    A stop reason that we do not know counts as an error; a compaction that names no entry keeps none.
    """
    if value["type"] == "compaction" and value.get("firstKeptEntryId") is None:
        return {**value, "firstKeptEntryId": ""}
    message = value.get("message")
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return value
    reason = message.get("stopReason")
    if reason is None or (isinstance(reason, str) and reason in _STOP_REASONS):
        return value
    return {**value, "message": {**message, "stopReason": "error"}}


def _encoded(value: JsonObject) -> bytes:
    try:
        return encode_line(value)
    except ValueError:  # lone surrogates beside an infinite number: json can write both
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def warnings_of(outline: Outline, notes: Notes) -> list[str]:
    """Returns what is odd about a file, one sentence each."""
    warnings = [
        _warning(outline.doubled, "id occurs", "ids occur", "more than once; the later entry counts"),
        _warning(outline.orphans, "entry names", "entries name", "a parent that is not in the file"),
        _warning(outline.cycles, "cycle", "cycles", "of parents; each was opened at its first entry"),
        _warning(notes.not_utf8, "line has", "lines have", "bytes that are not UTF-8"),
        _warning(notes.unfit, "line has", "lines have", "a known type but fields that do not fit"),
        _warning(notes.incomplete, "line lacks", "lines lack", "an id or a parent; they were filled in"),
    ]
    return [warning for warning in warnings if warning]


def _warning(found: Sequence[str] | Sequence[int], one: str, many: str, what: str) -> str:
    if not found:
        return ""
    return f"{len(found)} {one if len(found) == 1 else many} {what} (first: {found[0]})."
