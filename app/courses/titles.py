"""What a file or folder is called for people, and the order in which people expect names; pure."""

import re
from itertools import islice

TITLE_BYTES = 4096
"""How much of a file is looked at for its title."""

MAX_TITLE = 120
"""Characters of a title; a longer one is cut."""

_DIGITS = re.compile(r"([0-9]{1,18})")
_NUMBER = re.compile(r"[0-9]{1,3}[-_. ]+(?=[^\W\d_])")
_SEPARATORS = re.compile(r"[-_\s]+")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?P<title>.+)")
_CLOSING = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_TITLE = re.compile(r"title[ \t]*:[ \t]*(?P<title>\S.*)", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()]{0,300}\)")
_MARKS = re.compile(r"(\*{1,3}|__|`+)(?=\S)(.{0,300}?\S)\1")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffd]+")


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Returns the key that sorts names as people count: "2" before "10", case ignored."""
    parts = _DIGITS.split(name.casefold())
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], name


def readable_name(name: str, *, is_file: bool = True) -> str:
    """Returns a title made of the last part of a path: "03-the_loop.md" becomes "The loop"."""
    stem = name.rpartition("/")[2]
    if is_file and "." in stem[1:]:
        stem = stem.rpartition(".")[0]
    words = _SEPARATORS.sub(" ", _NUMBER.sub("", stem, count=1)).strip() or stem
    return _shortened(words[:1].upper() + words[1:])


def title_in(text: str) -> str | None:
    """Returns the title that the beginning of a Markdown file gives itself, in plain words, or None.

    That is ``title`` of its front matter, else its first heading. Headings inside of fenced code are none.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    front = _front_matter(lines)
    for line in lines[1 : front - 1] if front else ():
        if found := _FRONT_TITLE.fullmatch(line):
            title = plain_words(found["title"].strip().strip("\"'"))
            if title:
                return title
    return _heading(lines[front:])


def front_matter_lines(text: str) -> int:
    """Returns how many lines at the beginning of a Markdown file are front matter, its ``---`` included."""
    return _front_matter(list(islice(iter(text.split("\n", 201)), 200)))


def plain_words(text: str) -> str:
    """Returns one line of Markdown as plain words: without links, emphasis and what cannot be seen."""
    words = _LINK.sub(r"\1", _UNSEEN.sub(" ", text[:1000]))
    for _ in range(2):
        words = _MARKS.sub(r"\2", words)
    return _shortened(" ".join(words.split()))


def _front_matter(lines: list[str]) -> int:
    if not lines or lines[0].rstrip() != "---":
        return 0
    return next((number for number, line in enumerate(lines[1:], 2) if line.rstrip() in ("---", "...")), 0)


def _heading(lines: list[str]) -> str | None:
    fence = ""
    before = ""
    for line in lines:
        if found := _FENCE.match(line):
            mark = found[1]
            if not fence:
                fence = mark
            elif mark.startswith(fence) and not line.strip().strip(mark[0]):
                fence = ""
            before = ""
            continue
        if fence:
            continue
        if found := _HEADING.fullmatch(line):
            title = plain_words(_CLOSING.sub("", found["title"]))
            if title:
                return title
        underline = line.strip()
        if before and underline and underline.strip("=") == "" and (title := plain_words(before)):
            return title
        before = line.strip()
    return None


def _shortened(title: str) -> str:
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1].rstrip() + "…"
