"""The tree of a session as stretches between its forks: every entry once, however long, and never recursive."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.sessions.outline import NONE, SHADOWED, SIDE, Outline


@dataclass(frozen=True)
class Stretch:
    """Entries that follow one another without a fork: ``places`` in the outline.

    It hangs on the last entry of the stretch ``above`` (None at the start), as branch ``number`` of ``of``; ``below``
    are the stretches that go on from its end.
    """

    places: Sequence[int]
    above: int | None
    number: int
    of: int
    below: Sequence[int]


def stretches_of(outline: Outline, count: int) -> list[Stretch]:
    """Returns the stretches of the first ``count`` entries, depth first, siblings in file order.

    Side entries are left out.
    """
    below: dict[int, list[int]] = {}
    for at in range(count):
        if not outline.flags[at] & (SIDE | SHADOWED):
            parent = outline.parents[at]
            # What hangs on a side entry, as Pi writes it behind a label, hangs on what that hangs on.
            below.setdefault(max(outline.chain[parent], NONE) if parent >= 0 else NONE, []).append(at)
    found: list[tuple[list[int], int | None, int, int]] = []
    children: dict[int, list[int]] = {}
    roots = below.get(NONE, [])
    waiting: list[tuple[int, int | None, int, int]] = []
    waiting.extend([(at, None, number, len(roots)) for number, at in enumerate(roots, 1)][::-1])
    while waiting:
        at, above, number, of = waiting.pop()
        places = [at]
        following = below.get(at, [])
        while len(following) == 1:
            places.append(following[0])
            following = below.get(following[0], [])
        own = len(found)
        found.append((places, above, number, of))
        if above is not None:
            children.setdefault(above, []).append(own)
        waiting.extend([(child, own, place, len(following)) for place, child in enumerate(following, 1)][::-1])
    return [
        Stretch(places, above, number, of, children.get(own, ()))
        for own, (places, above, number, of) in enumerate(found)
    ]
