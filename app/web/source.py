"""A part of a text as a page shows it: numbered lines, coloured, some of them marked; pure."""

from dataclasses import dataclass

from markupsafe import Markup

from app.render.code import highlight_lines
from app.web.file_urls import Lines

MAX_LINES = 20_000
MAX_BYTES = 2_000_000
"""A page shows at most so many lines, and bytes of UTF-8, of a source."""

MAX_COLOURED_LINE = 5_000
"""Characters; a file with a longer line is not coloured, since patterns over such a line may take very long."""

_OTHER_ENDS = dict.fromkeys((0x2028, 0x2029), "\ufffd")


@dataclass(frozen=True)
class Line:
    """A line of a source: its number from 1, its text as HTML, whether it was asked for."""

    number: int
    html: Markup
    is_marked: bool


@dataclass(frozen=True)
class Source:
    """A part of a text: its lines, of how many, and whether the last one is cut."""

    lines: list[Line]
    total: int
    is_cut: bool = False

    @property
    def first(self) -> int:
        """The number of the first line shown, 1 for an empty file."""
        return self.lines[0].number if self.lines else 1

    @property
    def last(self) -> int:
        """The number of the last line shown, 0 for an empty file."""
        return self.lines[-1].number if self.lines else 0


def source_of(lines: list[str], filename: str, *, start: int | None = None, marked: Lines | None = None) -> Source:
    """Returns the part of a text that a page shows: from line ``start``, else from one that shows ``marked``.

    At most MAX_LINES lines and MAX_BYTES bytes, but always one line, the beginning of it if it is longer.
    """
    total = len(lines)
    first = start or (max(1, marked[0] - 100) if marked and marked[0] > MAX_LINES else 1)
    first = min(first, max(1, total))
    shown: list[str] = []
    room, is_cut = MAX_BYTES, False
    for line in lines[first - 1 : first - 1 + MAX_LINES]:
        size = len(line.encode()) + 1
        if size > room:
            if not shown:
                shown.append(line.encode()[:MAX_BYTES].decode("utf-8", "ignore"))
                is_cut = True
            break
        room -= size
        shown.append(line)
    low, high = marked or (0, 0)
    coloured = _coloured(shown, filename)
    numbered = [Line(number, html, low <= number <= high) for number, html in enumerate(coloured, first)]
    return Source(numbered, total, is_cut)


def _coloured(lines: list[str], filename: str) -> list[Markup]:
    name = filename if max(map(len, lines), default=0) <= MAX_COLOURED_LINE else ""
    # Only a newline ends a line here, and line numbers must hold: what some also take for a line end is replaced.
    text = "\n".join(lines).translate(_OTHER_ENDS)
    coloured = highlight_lines(text, name.rpartition("/")[2] or "text.txt")
    return [Markup(line) for line in [*coloured, *[""] * len(lines)][: len(lines)]]
