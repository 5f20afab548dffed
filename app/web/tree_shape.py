"""The shape of a session's tree under a filter: which entries are nodes, in which order, how deep. Pure.

Works on the columns of an outline alone: no entry is read, and nothing recurs however deep a session is.
"""

from array import array
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from app.sessions.outline import CALLS, CUT, FAILED, HIDDEN, SHADOWED, SHOWN, STOPPED, TEXT, Outline

FILTERS = ("lesson", "no-tools", "mine", "labelled", "all")
_NOTHING = -1
_NONE: Sequence[int] = ()
_NO_BRANCH = (0, 0)


@dataclass(frozen=True)
class Shape:
    """The nodes depth first, siblings in file order; columns of one length.

    ``places`` are positions in the outline. ``depths`` count the forks above; ``branches`` are (number, of how many)
    where a branch begins, else (0, 0); ``forks`` how many branches begin below, 0 where there is no fork. ``ends``
    says where nothing follows, ``folded`` how many nodes are hidden below one that is folded. ``roots`` counts the
    branches of the start, ``all_ends`` the ends of the tree, folded ones included.
    """

    places: list[int]
    depths: list[int]
    branches: list[tuple[int, int]]
    forks: list[int]
    ends: list[bool]
    folded: list[int]
    roots: int
    all_ends: int


def nodes_of(outline: Outline, count: int, keep: str, leaf: int) -> bytearray:
    """Returns, by position, which of the first ``count`` entries are nodes under a filter of FILTERS.

    Where the session goes on (``leaf``) is a node under each but "mine" and "labelled".
    """
    shown = bytearray(bool(flags & SHOWN and not flags & SHADOWED) for flags in outline.flags[:count])
    if keep == "no-tools":
        # Messages of tools, and answers that only ask for them.
        for at in range(count):
            silent = outline.kinds[at] == "assistant" and not outline.flags[at] & (TEXT | FAILED | STOPPED | CUT)
            if (silent or outline.kinds[at] == "toolResult") and at != leaf:
                shown[at] = 0
    elif keep == "mine":
        for at in range(count):
            shown[at] &= outline.kinds[at] == "user"
    elif keep == "labelled":
        labelled = {outline.position(entry_id) for entry_id in list(outline.labels)}
        for at in range(count):
            shown[at] &= at in labelled
    return shown


def shape_of(outline: Outline, nodes: bytearray, folded: AbstractSet[int] = frozenset()) -> Shape:
    """Returns the shape of the tree of these nodes; each hangs on the nearest node above it.

    Below a node of ``folded`` nothing is shown.
    """
    below = _children(outline, nodes)
    found = Shape([], [], [], [], [], [], len(below.get(_NOTHING, ())), sum(nodes) - _with_children(below))
    waiting = [(at, 0, place) for at, place in _places(below.get(_NOTHING, []))]
    waiting.reverse()
    while waiting:
        at, depth, branch = waiting.pop()
        depth += branch[1] > 0
        while True:  # along a chain, without a detour over what waits
            children = below.get(at, _NONE)
            hidden = _count_below(below, at) if at in folded else 0
            found.places.append(at)
            found.depths.append(depth)
            found.branches.append(branch)
            found.forks.append(len(children) if len(children) > 1 else 0)
            found.ends.append(not children)
            found.folded.append(hidden)
            if hidden or len(children) != 1:
                break
            at, branch = children[0], _NO_BRANCH
        if not hidden:
            waiting.extend((child, depth, place) for child, place in reversed(_places(children)))
    return found


def _children(outline: Outline, nodes: bytearray) -> dict[int, list[int]]:
    """The nodes that hang on each node, in file order; those of the start under -1."""
    count = len(nodes)
    nearest = array("i", [_NOTHING - 1]) * count
    parents = outline.parents
    below: dict[int, list[int]] = {}
    for at, is_node in enumerate(nodes):
        if not is_node:
            continue
        # Up to the next node; what lies between is remembered, so that no entry is passed twice.
        passed = []
        here = parents[at]
        while 0 <= here < count and not nodes[here] and nearest[here] < _NOTHING:
            passed.append(here)
            here = parents[here]
        found = _NOTHING if not 0 <= here < count else here if nodes[here] else nearest[here]
        for hidden in passed:
            nearest[hidden] = found
        below.setdefault(found, []).append(at)
    return below


def _with_children(below: dict[int, list[int]]) -> int:
    return sum(1 for at in below if at != _NOTHING)


def _places(siblings: Sequence[int]) -> list[tuple[int, tuple[int, int]]]:
    if len(siblings) == 1:
        return [(siblings[0], _NO_BRANCH)]
    return [(at, (number, len(siblings))) for number, at in enumerate(siblings, 1)]


def _count_below(below: dict[int, list[int]], at: int) -> int:
    count = 0
    waiting = [at]
    while waiting:
        children = below.get(waiting.pop(), [])
        count += len(children)
        waiting.extend(children)
    return count


def stands_alone(outline: Outline, at: int, leaf: int, shape: Shape, node: int) -> bool:
    """Returns whether a node has a row of its own in a lesson; the others are steps between question and answer."""
    if shape.forks[node] or shape.ends[node] or shape.folded[node] or at == leaf or outline.ids[at] in outline.labels:
        return True
    flags = outline.flags[at]
    match outline.kinds[at]:
        case "toolResult":
            return False
        case "assistant":
            return bool(flags & (FAILED | STOPPED | CUT) or (flags & TEXT and not flags & CALLS))
        case "custom":
            return not flags & HIDDEN
    return True


def main_line_of(outline: Outline, count: int) -> set[int]:
    """Returns the positions of the main line: the way to the marked entry, and on from it to its newest end."""
    marked = outline.position(outline.main_line) if outline.main_line else None
    if marked is None or marked >= count:
        return set()
    below = bytearray(count)
    below[marked] = 1
    newest = marked
    for at in range(marked + 1, count):
        parent = outline.parents[at]
        if 0 <= parent < at and below[parent]:
            below[at] = 1
            if outline.shown[at] == at:
                newest = at
    return set(outline.up(newest))


def since_fork(outline: Outline, shape: Shape) -> list[int]:
    """Returns, for each node, how many messages its branch has up to it: since the fork above, or the start."""
    since: list[int] = []
    at_fork = {0: 0}  # by the depth of the branches that begin there
    for place, depth, forks in zip(shape.places, shape.depths, shape.forks, strict=True):
        since.append(outline.items[place] - at_fork.get(depth, 0))
        if forks:
            at_fork[depth + 1] = outline.items[place]
    return since
