"""A session's tree as the rows that a page lists: the shape comes from the outline, only rows shown are read."""

import heapq
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from app.sessions.outline import CUT, FAILED, STOPPED, Outline
from app.sessions.preview import preview
from app.sessions.store import Session
from app.web.found_words import excerpt
from app.web.ids import dom_id
from app.web.tree_shape import Shape, main_line_of, nodes_of, shape_of, since_fork, stands_alone
from app.web.tree_words import anchor_of, mark_of, tools_of, type_of, words_of

LINE = 80
"""Characters of a row's preview."""
LONGER = 400
"""Characters of what opens under a row that the lesson does not show."""
PARTS = ("mine", "labelled")
"""Filters that leave of a branch so little that its last row says nothing about its end."""
SHAPES_KEPT = 4
"""Trees whose shape stays worked out, for the next look at them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tree: one entry, or ``steps`` that are folded into one line (``id`` is then empty).

    ``kind`` is user, tutor, tool, summary, note or steps. ``text`` is a preview of one line, ``more`` a longer one
    where the entry is not on the path and has more to say. ``tools`` are the names of the tools asked for, or of the
    one whose result it is. ``anchor`` is the id of its element in the lesson, empty where the lesson does not show it.
    ``time`` is in Unix milliseconds. ``depth`` counts the forks above; ``branch`` of ``branches`` is given on the first
    row of each branch (else 0), and ``forks`` is how many branches begin below. ``mark`` is failed, stopped, cut or
    empty; ``failed`` counts the failed among the steps. ``label`` is the name that a person gave, ``main`` says that it
    is on the main line, ``messages`` how many its branch has up to it; ``is_end`` and ``messages`` are told of the
    session's branches, not of what a search or a filter leaves of them. ``fold`` is the entry below which all can
    be hidden, or shown again, from this row, else empty; ``folded`` how many rows are hidden below it.
    ``left_out`` rows before this one are not shown, ``gap`` names one of them; the first ``steps_left_out`` of its
    steps neither.
    """

    id: str
    kind: str
    text: str = ""
    more: str = ""
    tools: tuple[str, ...] = ()
    anchor: str = ""
    entry_type: str = ""
    time: int | None = None
    depth: int = 0
    on_path: bool = False
    is_leaf: bool = False
    is_end: bool = False
    branch: int = 0
    branches: int = 0
    forks: int = 0
    mark: str = ""
    label: str = ""
    main: bool = False
    fold: str = ""
    folded: int = 0
    messages: int = 0
    steps: "tuple[Row, ...]" = ()
    failed: int = 0
    steps_left_out: int = 0
    left_out: int = 0
    gap: str = ""

    @property
    def node_id(self) -> str:
        """The id of its own element in the tree; that of folded steps goes with the oldest one listed."""
        return dom_id("n", self.id) if self.id else dom_id("f", self.steps[0].id if self.steps else "")

    @property
    def step_count(self) -> int:
        return len(self.steps) + self.steps_left_out


@dataclass(frozen=True, slots=True)
class TreeView:
    """The rows of a tree, parents before their children.

    ``total`` counts all rows, those left out included, ``left_out`` those behind the last one shown, ``gap`` names one
    of these. ``branches`` is the number of ends, ``roots`` how many branches begin at the start. ``at_start`` says that
    no entry stands above the next message.
    """

    rows: list[Row]
    total: int
    left_out: int
    gap: str
    branches: int
    roots: int
    at_start: bool


class _Line(NamedTuple):
    """Nodes, from one number in the shape up to another, that share a row; without ``folded`` it is one."""

    first: int
    end: int
    folded: bool

    @property
    def nodes(self) -> range:
        return range(self.first, self.end)


def tree_rows(
    session: Session,
    leaf: int,
    *,
    count: int,
    keep: str,
    limit: int,
    around: int | None = None,
    folded: AbstractSet[int] = frozenset(),
    nodes: bytearray | None = None,
    words: str = "",
) -> TreeView:
    """Returns the tree of a session's first ``count`` entries as at most ``limit`` rows, and as many steps in them.

    ``leaf`` is the position where the session goes on. ``keep`` is one of FILTERS; with "lesson" what the tutor did
    between question and answer is folded, otherwise each node has a row. ``nodes`` overrides which entries are nodes,
    namely those where ``words`` were found.
    Of a tree with more rows those near ``around`` (by default the leaf) on its path come first, then the branch points.
    Below the entries of ``folded`` nothing is shown.
    """
    outline = session.outline
    here = outline.shown[leaf] if leaf >= 0 else leaf
    if nodes is None:
        shape, lines = _shaped(outline, count, keep, here, frozenset(folded))
    else:
        shape = shape_of(outline, nodes, folded)
        lines = _lines(outline, shape, here, fold=False)
    on_path = set(outline.up(leaf))
    centre = here if around is None else around
    kept = _kept(lines, shape, set(outline.up(centre)), centre, limit)
    last = lines[-1].first if lines else 0
    left_out = len(lines) - 1 - kept[-1] if kept else 0
    reader = _Reader(
        session,
        shape,
        on_path=on_path,
        leaf=here,
        main=main_line_of(outline, count),
        since=since_fork(outline, shape),
        whole=nodes is None and keep not in PARTS,
        words=words,
    )
    return TreeView(
        rows=reader.rows(lines, kept, limit),
        total=len(lines),
        left_out=left_out,
        gap=outline.ids[shape.places[last]] if left_out else "",
        branches=shape.all_ends,
        roots=shape.roots,
        at_start=here < 0,
    )


@lru_cache(maxsize=SHAPES_KEPT)
def _shaped(
    outline: Outline, count: int, keep: str, leaf: int, folded: frozenset[int]
) -> tuple[Shape, Sequence[_Line]]:
    """The shape and its lines, kept while nothing is added: a look at another row needs no look at all of them."""
    shape = shape_of(outline, nodes_of(outline, count, keep, leaf), folded)
    return shape, _lines(outline, shape, leaf, fold=keep == "lesson")


def _lines(outline: Outline, shape: Shape, leaf: int, *, fold: bool) -> list[_Line]:
    """Folds what does not stand alone. It has exactly one child, so a fold never goes beyond its branch."""
    if not fold:
        return [_Line(node, node + 1, False) for node in range(len(shape.places))]
    lines: list[_Line] = []
    first = 0
    for node, at in enumerate(shape.places):
        if stands_alone(outline, at, leaf, shape, node):
            if first < node:
                lines.append(_Line(first, node, True))
            lines.append(_Line(node, node + 1, False))
            first = node + 1
    return lines


def _kept(lines: Sequence[_Line], shape: Shape, path: AbstractSet[int], centre: int, limit: int) -> list[int]:
    """Returns the numbers of the lines to show, in order."""
    if len(lines) <= limit:
        return list(range(len(lines)))
    here = _line_of(lines, shape, path, centre)

    def near(numbers: Iterable[int], most: int) -> list[int]:
        return heapq.nsmallest(most, numbers, key=lambda number: abs(number - here))

    on_path = (n for n, line in enumerate(lines) if n <= here and shape.places[line.first] in path)
    points = (n for n, line in enumerate(lines) if shape.forks[line.first])
    kept = {*near(on_path, limit // 2), *near(points, limit // 2)}
    kept.update(near((n for n in range(len(lines)) if n not in kept), limit - len(kept)))
    return sorted(kept)


def _line_of(lines: Sequence[_Line], shape: Shape, path: AbstractSet[int], centre: int) -> int:
    """The line with the entry, else the last one of its path."""
    found = 0
    for number, line in enumerate(lines):
        for node in line.nodes:
            at = shape.places[node]
            if at == centre:
                return number
            if at in path:
                found = number
    return found


@dataclass(frozen=True)
class _Reader:
    """Makes rows, reading the entries that they show."""

    session: Session
    shape: Shape
    on_path: AbstractSet[int]
    leaf: int
    main: AbstractSet[int]
    since: Sequence[int]
    whole: bool
    words: str

    def rows(self, lines: Sequence[_Line], kept: Sequence[int], step_limit: int) -> list[Row]:
        """Returns the rows of the lines kept; of the folded steps the newest ``step_limit`` in all."""
        rows: list[Row] = []
        for number, previous in zip(reversed(kept), reversed([-1, *kept[:-1]]), strict=False):
            line = lines[number]
            if line.folded:
                row = self._folded(line.nodes, max(0, len(line.nodes) - step_limit))
                step_limit -= len(row.steps)
            else:
                row = self._row(line.first)
            left_out = number - previous - 1
            middle = lines[number - 1 - left_out // 2].first if left_out else 0
            rows.append(replace(row, left_out=left_out, gap=self._id(middle) if left_out else ""))
        rows.reverse()
        return rows

    def _id(self, node: int) -> str:
        return self.session.outline.ids[self.shape.places[node]]

    def _folded(self, nodes: Sequence[int], left_out: int) -> Row:
        first = nodes[0]
        number, of = self.shape.branches[first]
        failed = sum(
            bool(self.session.outline.flags[self.shape.places[node]] & (FAILED | STOPPED | CUT)) for node in nodes
        )
        return Row(
            id="",
            kind="steps",
            depth=self.shape.depths[first],
            on_path=self.shape.places[first] in self.on_path,
            main=self.shape.places[first] in self.main,
            branch=number,
            branches=of,
            fold=self._id(first) if number else "",
            steps=tuple(replace(self._row(node), branch=0, branches=0, fold="") for node in nodes[left_out:]),
            failed=failed,
            steps_left_out=left_out,
        )

    def _row(self, node: int) -> Row:
        at = self.shape.places[node]
        outline = self.session.outline
        entry = self.session.at(at).entry
        shown = at in self.on_path
        text, kind = words_of(entry)
        line = excerpt(text, self.words, LINE)
        more = "" if shown else preview(text, LONGER)
        number, of = self.shape.branches[node]
        ends, folded = self.shape.ends[node], self.shape.folded[node]
        return Row(
            id=entry.id,
            kind=kind,
            text=line,
            more=more if more != line else "",
            tools=tools_of(entry),
            anchor=anchor_of(entry) if shown else "",
            entry_type=type_of(entry),
            time=outline.times[at] or None,
            depth=self.shape.depths[node],
            on_path=shown,
            is_leaf=at == self.leaf,
            is_end=ends and (self.whole or not outline.children[at]),
            branch=number,
            branches=of,
            forks=self.shape.forks[node],
            mark=mark_of(outline.flags[at]),
            label=outline.labels.get(entry.id, ""),
            main=at in self.main,
            fold=entry.id if folded or (number and not ends) else "",
            folded=folded,
            messages=self.since[node] if self.whole else 0,
        )
