"""The bytes of a session file cut into lines, and each line decoded as far as it is JSON."""

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from app.protocol.codec import clean_text
from app.protocol.entries import KnownEntry, SessionHeader
from app.sessions.migrate import JsonObject, id_in, time_in

BOM = b"\xef\xbb\xbf"
BLANK = b" \t\r\n"
_TORN = "torn last line: its end was never written"
_NO_JSON = "not JSON"
_TOO_DEEP = "nested too deeply"
_MAX_DEPTH = 200  # what needs mending is walked recursively, twice the frames of its depth
_STRICT: msgspec.json.Decoder[SessionHeader | KnownEntry] = msgspec.json.Decoder(SessionHeader | KnownEntry)


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line (numbered from 1) that is neither header nor entry, and why."""

    line_number: int
    reason: str


@dataclass(slots=True)
class Record:
    """A line that is a JSON object: ``fits`` when it is sound as it stands, else ``value``.

    ``replaced`` says that it held bytes that are not UTF-8.
    """

    line_number: int
    raw: bytes
    fits: SessionHeader | KnownEntry | None
    value: JsonObject
    replaced: bool = False

    @property
    def is_header(self) -> bool:
        """Whether the line is a session header."""
        if self.fits is None:
            return self.value.get("type") == "session"
        return isinstance(self.fits, SessionHeader)

    @property
    def id(self) -> str | None:
        """The id that the line states, if it can be one."""
        found = id_in(self.value.get("id")) if self.fits is None else self.fits.id
        return None if found is None else clean_text(found)


def records_of(data: bytes) -> tuple[list[Record], list[SkippedLine]]:
    """Returns the lines that are JSON objects with a type or an id, and the others with the reason."""
    lines = data.removeprefix(BOM).split(b"\n")
    torn = len(lines) if lines[-1] else 0
    if not lines[-1]:
        lines.pop()  # what follows the last line end is not a line
    records: list[Record] = []
    skipped: list[SkippedLine] = []
    for number, line in enumerate(lines, 1):
        raw = line.rstrip(b"\r")
        record = record_of(number, raw)
        if isinstance(record, Record):
            records.append(record)
        else:
            skipped.append(SkippedLine(number, torn_or(record) if number == torn else record))
    return records, skipped


def torn_or(reason: str) -> str:
    """Returns the reason why a last line without line end is skipped."""
    return _TORN if reason == _NO_JSON else reason


def record_of(number: int, raw: bytes) -> Record | str:
    """Returns one line, without line end, as a record, or the reason why it is none."""
    if not raw.strip(BLANK):
        return "blank line"
    try:
        fits = _STRICT.decode(raw)
        if fits.id:
            return Record(number, raw, fits, {})
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # the slower, tolerant way follows
    try:
        value, replaced = _plain(raw)
    except RecursionError:
        return _TOO_DEEP
    except ValueError:
        return _NO_JSON
    if not isinstance(value, dict):
        return "JSON, but not an object"
    if not isinstance(value.get("type"), str) and id_in(value.get("id")) is None:
        return "an object without type and id"
    if _deeper_than(value, _MAX_DEPTH):
        return _TOO_DEEP
    return Record(number, raw, None, value, replaced)


def _plain(raw: bytes) -> tuple[Any, bool]:
    """JSON as plain values, lone surrogates kept; and whether bytes that are not UTF-8 were replaced."""
    try:
        return msgspec.json.decode(raw), False
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return json.loads(raw.decode()), False
    except UnicodeDecodeError:
        return json.loads(raw.decode(errors="replace")), True


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def object_of(record: Record) -> JsonObject:
    """The record's line as a plain object, whether or not it was decoded strictly."""
    if record.fits is None:
        return record.value
    try:
        value: JsonObject = msgspec.json.decode(record.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # in a field that we do not know
        value = msgspec.to_builtins(record.fits)
    return value


def time_of(record: Record | None) -> str:
    """The time of the record's line, empty when there is none."""
    if record is None:
        return ""
    return time_in(record.value, "") if record.fits is None else record.fits.timestamp
