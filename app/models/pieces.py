"""Text as it streams: small pieces that rejoin to the text."""

import re
from collections.abc import Iterator

from app.protocol.estimate import HAN

_PIECE_HAN = 8
_PIECE_WORDS = 5
_PIECE_MOST = 48
"""Clusters in one piece at most: a long run without spaces (a URL, base64) is cut too."""

_HAN = re.compile(HAN)


def clusters(text: str) -> list[str]:
    """Returns what people see as single characters: combining sequences and emoji stay whole."""
    if text.isascii() and "\r" not in text:
        return list(text)
    # Imported here, since its tables cost memory and most of what is said in English does without.
    import regex

    # A lone high surrogate before a low one is one character to a browser, but two to regex.
    found: list[str] = []
    for match in regex.finditer(r"\X", text):
        part = match.group()
        low = "\udc00" <= part[0] <= "\udfff"
        if low and found and "\ud800" <= found[-1][-1] <= "\udbff":
            found[-1] += part
        else:
            found.append(part)
    return found


def reading_pieces(text: str) -> Iterator[str]:
    """Yields ``text`` in pieces of about five words or eight Chinese characters, never inside a character."""
    piece: list[str] = []
    weight = 0.0
    in_word = False
    for cluster in clusters(text):
        is_han = _HAN.match(cluster) is not None
        starts_word = not is_han and not in_word and not cluster.isspace()
        cost = 1 / _PIECE_HAN if is_han else 1 / _PIECE_WORDS if starts_word else 0
        # A word or a Chinese character begins a piece; spaces and punctuation stay with what they follow.
        if piece and (weight + cost > 1.001 or len(piece) >= _PIECE_MOST):
            yield "".join(piece)
            piece, weight = [], 0.0
        piece.append(cluster)
        weight += cost
        in_word = not cluster.isspace()
    if piece:
        yield "".join(piece)


def equal_pieces(text: str, size: int) -> Iterator[str]:
    """Yields ``text`` in pieces of ``size`` characters as people count them (at least one)."""
    parts = clusters(text)
    step = max(1, size)
    for start in range(0, len(parts), step):
        yield "".join(parts[start : start + step])
