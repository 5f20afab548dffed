"""A session file read once: its outline, and where each entry's line stands.

A sound file of the present format is read line by line and its bodies are let go again. Any other file (older, without
header, with entries that lack something) is read as a whole.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from app.protocol.entries import FORMAT_VERSION, SessionHeader
from app.sessions.lines import Notes, StoredEntry, completed, missing_links, parse, warnings_of
from app.sessions.outline import Outline
from app.sessions.records import BOM, Record, SkippedLine, record_of, torn_or


@dataclass
class Places:
    """Where entries stand: the offset and length of each line in the file, or its bytes while it is not there."""

    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    lengths: "array[int]" = field(default_factory=lambda: array("q"))
    kept: dict[int, bytes] = field(default_factory=dict)

    def add(self, offset: int, length: int) -> None:
        """Takes the place of the next entry."""
        self.offsets.append(offset)
        self.lengths.append(length)

    def keep(self, raw: bytes) -> None:
        """Takes the next entry as it will be in the file."""
        self.kept[len(self.offsets)] = raw
        self.add(0, len(raw))

    def written(self, start: int) -> None:
        """Says that all entries stand in the file now, one behind the other from ``start`` on."""
        for at, length in enumerate(self.lengths):
            self.offsets[at] = start
            start += length + 1
        self.kept.clear()


@dataclass(frozen=True)
class FileReading:
    """What a session file holds; see ParsedFile for the fields of the same name."""

    header: SessionHeader
    header_raw: bytes
    version: int
    outline: Outline
    places: Places
    skipped: list[SkippedLine]
    warnings: list[str]
    ends_with_newline: bool
    size: int
    needs_rewrite: str
    future_version: bool
    problem: str


class _NotSound(Exception):
    """The file must be read as a whole."""


def read_session(path: Path, fallback_id: str) -> FileReading:
    """Returns what a session file holds; ``fallback_id`` names a session without header. Raises OSError."""
    with path.open("rb") as lines:
        try:
            return _read_sound(lines)
        except _NotSound:
            lines.seek(0)
            return _of_parsed(lines.read(), fallback_id)


def _of_parsed(data: bytes, fallback_id: str) -> FileReading:
    parsed = parse(data, fallback_id)
    places = Places()
    for stored in parsed.entries:
        places.keep(stored.raw)
    fields = FileReading.__dataclass_fields__.keys() - {"places"}
    return FileReading(places=places, **{name: getattr(parsed, name) for name in fields})


def _read_sound(lines: Iterable[bytes]) -> FileReading:
    """Reads line by line. Raises _NotSound for a file that cannot be appended to as it stands."""
    outline, places, notes = Outline(), Places(), Notes()
    header: SessionHeader | None = None
    header_raw = b""
    size, ends_with_newline = 0, True
    previous: str | None = None
    for number, line in enumerate(lines, 1):
        offset, size = size, size + len(line)
        ends_with_newline = line.endswith(b"\n")
        raw = line.removesuffix(b"\n").rstrip(b"\r")
        record = record_of(number, raw)
        if isinstance(record, str):
            if offset == 0 and raw.startswith(BOM):
                raise _NotSound
            notes.skipped.append(SkippedLine(number, record if ends_with_newline else torn_or(record)))
        elif header is None:
            header, header_raw = _header_of(record), record.raw
        elif record.is_header:
            notes.skipped.append(SkippedLine(number, "a second header"))
        else:
            stored = _stored(record, previous, header.timestamp, notes)
            previous = stored.entry.id
            outline.add(stored.entry)
            places.add(offset, len(raw))
    if header is None:
        raise _NotSound
    outline.loaded()
    return FileReading(
        header=header,
        header_raw=header_raw,
        version=header.version,
        outline=outline,
        places=places,
        skipped=notes.skipped,
        warnings=warnings_of(outline, notes),
        ends_with_newline=ends_with_newline,
        size=size,
        needs_rewrite="",
        future_version=header.version > FORMAT_VERSION,
        problem="",
    )


def _header_of(record: Record) -> SessionHeader:
    if not isinstance(record.fits, SessionHeader) or record.fits.version < FORMAT_VERSION:
        raise _NotSound
    return record.fits


def _stored(record: Record, previous: str | None, fallback_time: str, notes: Notes) -> StoredEntry:
    if record.fits is not None and not isinstance(record.fits, SessionHeader):
        return StoredEntry(record.fits, record.raw)
    if record.id is None or missing_links(record.value, record.id, previous):
        raise _NotSound
    if record.replaced:
        notes.not_utf8.append(record.line_number)
    return completed(record, record.value, record.id, previous, fallback_time, notes)


def entry_of(raw: bytes, fallback_time: str) -> StoredEntry:
    """Returns the entry of a line that ``read_session`` has found to be one."""
    record = record_of(1, raw)
    assert isinstance(record, Record) and record.id is not None
    if record.fits is not None and not isinstance(record.fits, SessionHeader):
        return StoredEntry(record.fits, raw)
    return completed(record, record.value, record.id, None, fallback_time, Notes())
