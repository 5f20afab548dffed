"""Course text as the offline tutor quotes it: headings and paragraphs with the line where each begins."""

import re

from app.models.offline_results import FileView, Line
from app.protocol.estimate import HAN

_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(?P<title>\S.*)$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_PROSE_FILE = re.compile(r"(?:\.(?:md|markdown|txt|rst)|(?:^|/)[^./]+)$", re.I)
_ITEM = re.compile(r"^\s*(?:[-*+>]|\d+[.)])\s+")
_UNSPOKEN = re.compile(r"^\s*(?:\|.*|(?:[-*+]\s+)?`[^`]*`|[-*_=\s]{3,})$")
"""Lines that say nothing by themselves: table rows, a command alone, rules."""

_WIDE = re.compile(rf"(?:{HAN}|[\u3000-\u303f\uff00-\uffef])")


def is_prose(path: str) -> bool:
    """Returns whether a file is text to be read, with Markdown headings, and not code or data."""
    return _PROSE_FILE.search(path) is not None


def is_heading(line: Line) -> bool:
    """Returns whether a line is a Markdown heading (one in a code block looks the same)."""
    return _HEADING.match(line.text) is not None


def headings_of(view: FileView) -> list[Line]:
    """Returns the titles of the Markdown headings in a view, without those in code blocks."""
    lines = _outside_code(view)
    titles = [(line.number, match["title"]) for line in lines if (match := _HEADING.match(line.text))]
    plain = [Line(number, title.rstrip().rstrip("#").rstrip()) for number, title in titles]
    return [line for line in plain if line.text]


def paragraphs_of(view: FileView, *, keep_headings: bool = False) -> list[Line]:
    """Returns the paragraphs and list items of a view, each joined to one line and numbered by its first.

    Left out: code blocks, front matter, table rows, and headings unless they are wanted.
    """
    joined: list[Line] = []
    end = 0
    for line in _outside_code(view):
        if _UNSPOKEN.match(line.text) or (is_heading(line) and not keep_headings):
            continue
        goes_on = joined and line.number == end + 1 and not is_heading(joined[-1])
        if goes_on and not is_heading(line) and not _ITEM.match(line.text):
            joined[-1] = Line(joined[-1].number, _join(joined[-1].text, line.text.strip()))
        else:
            joined.append(Line(line.number, line.text.strip()))
        end = line.number
    return joined


def _join(left: str, right: str) -> str:
    """Chinese lines are joined without a space."""
    return left + ("" if _WIDE.match(left[-1]) and _WIDE.match(right[0]) else " ") + right


def _outside_code(view: FileView) -> list[Line]:
    kept: list[Line] = []
    fence = ""
    for line in view.lines:
        mark = _FENCE.match(line.text)
        if line.text.strip() == "---" and (line.number == 1 or fence == "---"):
            fence = "" if fence else "---"
        elif mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and line.text.strip():
            kept.append(line)
    return kept


def sentence_of(line: str, most: int = 300) -> str:
    """Returns a line as running text: without list, quote and heading marks, cut to ``most`` characters."""
    plain = re.sub(r"^\s*(?:[-*+>]\s+|\d+[.)]\s+|#{1,6}\s+)*", "", line).strip()
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def speaks_of(key: str, text: str) -> bool:
    """Returns whether ``text`` holds ``key`` (casefolded), at the beginning of a word where words have spaces."""
    end = r"(?![a-z0-9])" if len(key) < 3 else ""
    pattern = rf"(?<![a-z0-9]){re.escape(key)}{end}" if key.isascii() else re.escape(key)
    return re.search(pattern, text.casefold()) is not None
