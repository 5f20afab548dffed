"""One short line out of any text, safe to show in a list."""

import unicodedata

_JOINERS = "\u200c\u200d"  # parts of words in some scripts, and of emoji
_READ_AHEAD = 8  # spaces and controls are dropped, so more is read than is shown


def preview(text: str, limit: int = 80) -> str:
    """Returns the beginning of ``text`` as one line of at most ``limit`` characters, cut with an ellipsis.

    Control, direction and other invisible characters are removed; any run of white space becomes one space.
    """
    window = text[: limit * _READ_AHEAD]
    line = " ".join("".join(_shown(character) for character in window).split())
    if len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line + "…" if line and text[limit * _READ_AHEAD :].strip() else line


def _shown(character: str) -> str:
    if character.isspace():
        return " "
    if character in _JOINERS:
        return character
    # Cc and Cf are controls and directions, Cs lone surrogates; the rest of C is unassigned or private.
    return "" if unicodedata.category(character) in ("Cc", "Cf", "Cs") else character
