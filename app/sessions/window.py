"""A part of a long path: what a page shows of it, without a walk over the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from app.protocol.entries import Entry
from app.sessions.lines import StoredEntry
from app.sessions.outline import ITEM, NONE, SIDE, Outline
from app.sessions.store import Session

MESSAGES = 50
"""Messages of a path that are shown at once."""
BEFORE = 10
"""How many of them stand before the one that was asked for."""


@dataclass(frozen=True)
class Window:
    """Entries of a path that follow one another, oldest first.

    ``places`` are their positions in the outline, ``numbers`` those of the tutor's turns by entry id. ``earlier`` and
    ``later`` count the messages of the path before and behind them.
    """

    entries: Sequence[Entry]
    places: Sequence[int]
    numbers: dict[str, int]
    earlier: int
    later: int


def window_of(session: Session, leaf: int, *, most: int = MESSAGES, end: int | None = None) -> Window:
    """Returns the last ``most`` messages, with all entries between them, of the path to ``leaf``.

    With ``end``, a position on that path, those that end there.
    """
    outline = session.outline
    last = leaf if end is None else end
    places = _back(outline, last, most)
    first = outline.parents[places[0]] if places else NONE
    return Window(
        entries=[session.at(place).entry for place in places],
        places=places,
        numbers={outline.ids[place]: outline.turns[place] for place in places if outline.kinds[place] == "assistant"},
        earlier=outline.items[first] if first >= 0 else 0,
        later=(outline.items[leaf] - outline.items[last]) if leaf >= 0 and last >= 0 else 0,
    )


def _back(outline: Outline, last: int, most: int) -> list[int]:
    places: list[int] = []
    wanted = most
    for place in outline.up(last):
        places.append(place)
        wanted -= bool(outline.flags[place] & ITEM)
        if not wanted:
            break
    places.reverse()
    return places


def end_around(outline: Outline, leaf: int, around: int, most: int = MESSAGES) -> int | None:
    """Returns where a window on the path to ``leaf`` ends in which ``around`` has a few messages before it.

    None when ``around`` is not on that path.
    """
    last = outline.items[around] + most - BEFORE
    end = leaf
    for place in outline.up(leaf):
        if outline.items[place] >= last:
            end = place
        if place == around:
            return end
        if outline.items[place] < outline.items[around]:
            break
    return None


def stored_path(session: Session, entry_id: str | None) -> list[StoredEntry]:
    """Returns the way to an entry, each entry with its line, and behind it the side entries that hang on it."""
    outline = session.outline
    path = outline.path(session.position(entry_id))
    on_path = set(path)
    sides = [at for at in range(len(outline)) if outline.flags[at] & SIDE and outline.chain[at] in on_path]
    return [session.at(at) for at in (*path, *(at for at in sides if at not in on_path))]


def newest(outline: Outline, at: int, kind: str, within: int) -> int:
    """Returns the newest entry of a kind among the last ``within`` of a path; NONE when there is none."""
    return next((place for place in islice(outline.up(at), within) if outline.kinds[place] == kind), NONE)
