"""The words of a search in a text: which part of it to show, and what in it to mark."""

from collections.abc import Sequence

from app.sessions.preview import preview

BEFORE = 24
"""Characters that an excerpt shows in front of the first word found."""


def excerpt(text: str, words: str, limit: int) -> str:
    """Returns one line of at most ``limit`` characters: the beginning of a text, or where the first word stands."""
    if not words:
        return preview(text, limit)
    folded, origin = _folded(text)
    hits = [(at, len(word)) for word in words.casefold().split() if (at := folded.find(word)) >= 0]
    if not hits:
        return preview(text, limit)
    at, length = min(hits)
    start = origin[at] - BEFORE
    if start <= 0 or origin[at + length] < limit:
        return preview(text, limit)
    blank = text.find(" ", start, origin[at])
    return "…" + preview(text[blank + 1 if blank >= 0 else start :], limit - 1)


def marked(text: str, words: str) -> list[tuple[str, bool]]:
    """Returns a text in pieces, each with whether it is one of the words that were searched for."""
    wanted = words.casefold().split()
    folded, origin = _folded(text)
    pieces: list[tuple[str, bool]] = []
    start = shown = 0  # in the folded text, and in the text
    while hits := [(at, -len(word)) for word in wanted if (at := folded.find(word, start)) >= 0]:
        at, length = min(hits)
        start = at - length
        pieces += [(text[shown : origin[at]], False), (text[origin[at] : origin[start - 1] + 1], True)]
        shown = origin[start - 1] + 1
        while origin[start] < shown:  # a letter of which only a part was meant is marked once, as a whole
            start += 1
    return [(piece, hit) for piece, hit in (*pieces, (text[shown:], False)) if piece]


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """Returns a text without case, and of which character of the text each of its characters is."""
    folded = text.casefold()
    if len(folded) == len(text):
        return folded, range(len(text) + 1)
    origin = [at for at, character in enumerate(text) for _ in character.casefold()]
    return folded, [*origin, len(text)]
