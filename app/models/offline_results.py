"""What the tools' result texts say, read tolerantly: listings, files with line numbers, matches."""

import re
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Listing:
    """Names in a folder; ``remarks`` are lines of the tool about the listing itself."""

    folders: list[str]
    files: list[str]
    remarks: list[str]

    def inside(self, folder: str) -> "Listing":
        """Returns what is directly in ``folder`` (ends with "/"), from a listing with the folders below."""
        return Listing(
            [name for name in self.folders if re.fullmatch(rf"{re.escape(folder)}[^/]+/", name)],
            [name for name in self.files if re.fullmatch(rf"{re.escape(folder)}[^/]+", name)],
            [],
        )


class Line(NamedTuple):
    """A line of a file with its number, from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class FileView:
    """Part of a file. ``total`` lines if known; ``next_offset`` is where reading goes on, None at the end."""

    path: str
    lines: list[Line]
    total: int | None
    next_offset: int | None


class Match(NamedTuple):
    """A line that a search found."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Matches:
    """What a search found; ``remarks`` are lines of the tool about the search itself."""

    found: list[Match]
    remarks: list[str]

    def by_file(self) -> dict[str, list[Match]]:
        """Returns the matches of each file, files in order of appearance."""
        files: dict[str, list[Match]] = {}
        for match in self.found:
            files.setdefault(match.path, []).append(match)
        return files


_SIZE = re.compile(r"(?:\t|\s{2,}|\s+\()\d[\d.,]*\s*(?:bytes?|[KMGT]i?B|B)?\)?$", re.I)
_HEAD = re.compile(r": (?:empty|\d+ folders?, \d+ files?)$|^\d+ matching lines? in ")
_REMARK = re.compile(r"^\[(?P<remark>.*)\]$")


def listing_of(text: str) -> Listing:
    """Returns the names in a result of ``list_files``: one a line, folders end with "/"; sizes go."""
    folders, files, remarks = [], [], []
    for place, line in enumerate(text.split("\n")):
        plain = line.strip()
        if not plain or (place == 0 and _HEAD.search(plain)):
            continue
        if remark := _REMARK.match(plain):
            remarks.append(remark["remark"])
        elif plain.endswith("/"):
            folders.append(plain)
        else:
            files.append(_SIZE.sub("", plain) or plain)
    return Listing(folders, files, remarks)


_NUMBERED = re.compile(r"^\s*(?P<number>\d{1,9})(?:\t|[:|│→] ?| {1,2}|$)(?P<text>.*)$")
_TOTAL = re.compile(r"(?:\bof|/|共)\s*(\d{1,9})\b")
_OFFSET = re.compile(r"offset\W{0,4}(\d{1,9})", re.I)


def file_of(path: str, text: str, offset: int = 1) -> FileView:
    """Returns what the result of ``read_file`` shows: a first line about path and range, then numbered lines.

    ``offset`` numbers the lines when the text does not.
    """
    header, *body = text.split("\n")
    lines: list[Line] = []
    about = [header.replace(path, "")]
    for line in body:
        found = _NUMBERED.match(line)
        if found and (not lines or int(found["number"]) == lines[-1].number + 1):
            lines.append(Line(int(found["number"]), found["text"]))
        else:
            about.append(line)
    if not lines:
        return FileView(path, [Line(offset + place, line) for place, line in enumerate(body)], None, None)
    last = lines[-1].number
    total = next((int(found[1]) for line in about if (found := _TOTAL.search(line))), None)
    offsets = [int(found[1]) for line in about if (found := _OFFSET.search(line))]
    going_on = next((number for number in offsets if number > last), None)
    if going_on is None and total is not None and last < total:
        going_on = last + 1
    return FileView(path, lines, total, going_on)


_MATCH = re.compile(r"^(?P<path>[^:\n][^\n]*?):(?P<line>\d{1,9}):\s?(?P<text>.*)$")


def matches_of(text: str) -> Matches:
    """Returns the matches in the result of ``search_files``: lines of the form ``path:line: text``."""
    found, remarks = [], []
    for place, line in enumerate(text.split("\n")):
        if place == 0 and _HEAD.search(line):
            continue
        if match := _MATCH.match(line):
            found.append(Match(match["path"], int(match["line"]), match["text"].strip()))
        elif remark := _REMARK.match(line):
            remarks.append(remark["remark"])
    return Matches(found, remarks)
