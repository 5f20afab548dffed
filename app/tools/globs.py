"""Matches paths against a glob in time that grows with their length only, whatever the glob."""

import re
from fnmatch import fnmatchcase

from app.protocol.tools import ToolError
from app.tools.paths import quoted

MAX_CHOICES = 64
_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """``*`` and ``?`` stay within a name, ``**`` crosses folders, ``[abc]`` and ``{md,txt}`` choose.

    Case is ignored. A glob without ``/`` is matched against the name in whatever folder it is.
    """

    def __init__(self, glob: str) -> None:
        """Raises ToolError when the glob has more than 64 choices."""
        self._choices = [_parts(choice) for choice in _expand(glob.casefold(), glob)]

    def matches(self, path: str) -> bool:
        """Says whether ``path`` (names joined by ``/``) matches."""
        names = path.casefold().split("/")
        return any(_match(parts, names) for parts in self._choices)


def _expand(folded: str, glob: str) -> list[str]:
    choices = [folded]
    while any(map(_BRACES.search, choices)):
        choices = [expanded for choice in choices for expanded in _expand_first(choice)]
        if len(choices) > MAX_CHOICES:
            raise ToolError(f"The glob {quoted(glob)} has more than {MAX_CHOICES} choices in braces. Use fewer.")
    return choices


def _expand_first(glob: str) -> list[str]:
    braces = _BRACES.search(glob)
    if braces is None:
        return [glob]
    return [glob[: braces.start()] + option + glob[braces.end() :] for option in braces[1].split(",")]


def _parts(glob: str) -> list[str]:
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    return ["**", *parts] if len(parts) == 1 else parts


def _match(parts: list[str], names: list[str]) -> bool:
    """Follows all places in ``parts`` that the names so far can lead to, so that nothing is tried twice."""
    places = _past_stars({0}, parts)
    for name in names:
        reached: set[int] = set()
        for place in places:
            if place < len(parts):
                if parts[place] == "**":
                    reached.add(place)
                elif fnmatchcase(name, parts[place]):
                    reached.add(place + 1)
        places = _past_stars(reached, parts)
    return len(parts) in places


def _past_stars(places: set[int], parts: list[str]) -> set[int]:
    """Adds the places after each ``**`` reached, since it may stand for no folder at all."""
    reached = set(places)
    for place in places:
        while place < len(parts) and parts[place] == "**":
            place += 1
            reached.add(place)
    return reached
