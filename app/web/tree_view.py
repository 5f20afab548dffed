"""A session's tree as the rows that a page lists; pure, linear in the entries, never recursive."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.protocol.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.sessions.preview import preview
from app.sessions.times import iso_to_ms, usable_ms
from app.sessions.tree import ShownEntry, build_tree, index_of, path_to
from app.web.ids import dom_id

LINE = 80
"""Characters of a row's preview."""
LONGER = 400
"""Characters of what opens under a row that the lesson does not show."""
_SILENCE = UserMessage(content="")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tree: one entry, or ``steps`` that are folded into one line (``id`` is then empty).

    ``kind`` is user, tutor, tool, summary, note or steps. ``text`` is a preview of one line, ``more`` a longer one
    where the entry is not on the path and has more to say. ``tools`` are the names of the tools asked for, or of the
    one whose result it is. ``anchor`` is the id of its element in the lesson, empty where the lesson does not show it.
    ``time`` is in Unix milliseconds. ``depth`` counts the forks above; ``branch`` of ``branches`` is given on the first
    row of each branch (else 0), and ``forks`` is how many branches begin below. ``mark`` is failed, stopped, cut or
    empty; ``failed`` counts the failed among the steps. ``left_out`` rows before this one are not shown, and the first
    ``steps_left_out`` of its steps neither.
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
    steps: "tuple[Row, ...]" = ()
    failed: int = 0
    steps_left_out: int = 0
    left_out: int = 0

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

    ``total`` counts all rows, those left out included, ``left_out`` those behind the last one shown. ``branches`` is
    the number of ends, ``roots`` how many branches begin at the start. ``at_start`` says that no entry stands above
    the next message.
    """

    rows: list[Row]
    total: int
    left_out: int
    branches: int
    roots: int
    at_start: bool


class _Place(NamedTuple):
    """Where a shown entry stands."""

    entry: ShownEntry
    depth: int
    branch: int
    branches: int
    forks: int
    is_end: bool


class _Line(NamedTuple):
    """Entries that share a row; without ``folded`` it is one."""

    places: Sequence[_Place]
    folded: bool


def tree_rows(entries: Sequence[Entry], leaf_id: str | None, *, show: str, limit: int) -> TreeView:
    """Returns the tree of a session's entries as at most ``limit`` rows, and at most ``limit`` folded steps in them.

    ``leaf_id`` is where the session goes on. With ``show`` "lesson" what the tutor did between question and answer is
    folded, otherwise each entry has a row. Of a tree with more rows those near the leaf on its path come first, then
    the branch points.
    """
    path = path_to(index_of(entries), leaf_id)
    on_path = {entry.id for entry in path}
    leaf = next((entry.id for entry in reversed(path) if isinstance(entry, ShownEntry)), None)
    places, roots = _places(entries)
    lines = list(_lines(places, leaf if show == "lesson" else None, fold=show == "lesson"))
    kept = _kept(lines, on_path, leaf, limit)
    return TreeView(
        rows=_rows(lines, kept, on_path, leaf, limit),
        total=len(lines),
        left_out=len(lines) - 1 - kept[-1] if kept else 0,
        branches=sum(place.is_end for place in places),
        roots=roots,
        at_start=leaf is None,
    )


def branch_count(entries: Sequence[Entry]) -> int:
    """Returns how many branches a session's tree has: the number of its ends."""
    return sum(place.is_end for place in _places(entries)[0])


def anchor_of(entry: Entry) -> str:
    """Returns the id of the element that shows an entry in the lesson when it is on the path; empty if none does."""
    if isinstance(entry, MessageEntry):
        if isinstance(entry.message, ToolResultMessage):
            return dom_id("c", entry.message.tool_call_id)
        if isinstance(entry.message, CustomMessage) and not entry.message.display:
            return ""
        return dom_id("m", entry.id)
    return dom_id("m", entry.id) if isinstance(entry, ShownEntry) else ""


def _places(entries: Sequence[Entry]) -> tuple[list[_Place], int]:
    """Returns each shown entry's place, depth first with siblings in file order, and the number of roots."""
    index = index_of(entries)
    roots = build_tree([_without_text(entry) for entry in entries])
    places: list[_Place] = []
    stack = [(roots, 0, 0)]  # siblings, the next of them, the depth of what they hang on
    while stack:
        siblings, next_one, depth_above = stack.pop()
        if next_one == len(siblings):
            continue
        stack.append((siblings, next_one + 1, depth_above))
        node, forked = siblings[next_one], len(siblings) > 1
        depth = depth_above + forked
        entry = index[node.id]
        assert isinstance(entry, ShownEntry)
        places.append(
            _Place(
                entry,
                depth,
                branch=next_one + 1 if forked else 0,
                branches=len(siblings) if forked else 0,
                forks=len(node.children) if len(node.children) > 1 else 0,
                is_end=not node.children,
            )
        )
        stack.append((node.children, 0, depth))
    return places, len(roots)


def _without_text(entry: Entry) -> Entry:
    """Returns an entry of the same place: labels of all nodes take 20 times as long as finding where they stand."""
    if not isinstance(entry, ShownEntry):
        return entry
    return MessageEntry(id=entry.id, parent_id=entry.parent_id, timestamp="", message=_SILENCE)


def _lines(places: Iterable[_Place], leaf: str | None, *, fold: bool) -> Iterator[_Line]:
    """Folds what does not stand alone. It has exactly one child, so a fold never goes beyond its branch."""
    waiting: list[_Place] = []
    for place in places:
        if fold and not _stands_alone(place, leaf):
            waiting.append(place)
            continue
        if waiting:
            yield _Line(waiting, True)
            waiting = []
        yield _Line([place], False)


def _stands_alone(place: _Place, leaf: str | None) -> bool:
    entry = place.entry
    if place.forks or place.is_end or entry.id == leaf or not isinstance(entry, MessageEntry):
        return True
    match entry.message:
        case ToolResultMessage():
            return False
        case CustomMessage() as message:
            return message.display
        case AssistantMessage() as message:
            answers = bool(text_of(message.content).strip()) and not tool_calls_of(message)
            return answers or bool(_mark(entry))
    return True


def _kept(lines: Sequence[_Line], on_path: set[str], leaf: str | None, limit: int) -> list[int]:
    """Returns the positions of the lines to show, in order."""
    if len(lines) <= limit:
        return list(range(len(lines)))
    here = next((n for n, line in enumerate(lines) if any(place.entry.id == leaf for place in line.places)), 0)

    def near(positions: Iterable[int], count: int) -> list[int]:
        return heapq.nsmallest(count, positions, key=lambda position: abs(position - here))

    path = (n for n, line in enumerate(lines) if n <= here and line.places[0].entry.id in on_path)
    points = (n for n, line in enumerate(lines) if line.places[0].forks)
    kept = {*near(path, limit // 2), *near(points, limit // 2)}
    kept.update(near((n for n in range(len(lines)) if n not in kept), limit - len(kept)))
    return sorted(kept)


def _rows(
    lines: Sequence[_Line], kept: Sequence[int], on_path: set[str], leaf: str | None, step_limit: int
) -> list[Row]:
    """Returns the rows of the lines kept; of the folded steps the newest ``step_limit`` in all."""
    rows: list[Row] = []
    for position, previous in zip(reversed(kept), reversed([-1, *kept[:-1]]), strict=False):
        places, folded = lines[position]
        if folded:
            row = _folded(places, on_path, max(0, len(places) - step_limit))
            step_limit -= len(row.steps)
        else:
            row = _row(places[0], on_path, leaf)
        rows.append(replace(row, left_out=position - previous - 1))
    rows.reverse()
    return rows


def _folded(places: Sequence[_Place], on_path: set[str], left_out: int) -> Row:
    first = places[0]
    return Row(
        id="",
        kind="steps",
        depth=first.depth,
        on_path=first.entry.id in on_path,
        branch=first.branch,
        branches=first.branches,
        steps=tuple(replace(_row(place, on_path), branch=0, branches=0) for place in places[left_out:]),
        failed=sum(bool(_mark(place.entry)) for place in places),
        steps_left_out=left_out,
    )


def _row(place: _Place, on_path: set[str], leaf: str | None = None) -> Row:
    entry = place.entry
    shown = entry.id in on_path
    text, kind = _words(entry)
    line = preview(text, LINE)
    more = "" if shown else preview(text, LONGER)
    return Row(
        id=entry.id,
        kind=kind,
        text=line,
        more=more if more != line else "",
        tools=_tools(entry),
        anchor=anchor_of(entry) if shown else "",
        entry_type=_type(entry),
        time=_time(entry),
        depth=place.depth,
        on_path=shown,
        is_leaf=entry.id == leaf,
        is_end=place.is_end,
        branch=place.branch,
        branches=place.branches,
        forks=place.forks,
        mark=_mark(entry),
    )


def _words(entry: ShownEntry) -> tuple[str, str]:
    """Returns an entry's text and the kind of row that it makes."""
    if not isinstance(entry, MessageEntry):
        return entry.summary, "summary"
    match entry.message:
        case UserMessage() as message:
            return text_of(message.content), "user"
        case AssistantMessage() as message:
            text = text_of(message.content)
            return (text if text.strip() else message.error_message or ""), "tutor"
        case ToolResultMessage() as message:
            return text_of(message.content), "tool"
        case BashExecutionMessage() as message:
            return f"$ {message.command}", "note"
        case BranchSummaryMessage() | CompactionSummaryMessage() as message:
            return message.summary, "summary"
        case CustomMessage() as message:
            return text_of(message.content), "note"


def _tools(entry: ShownEntry) -> tuple[str, ...]:
    if not isinstance(entry, MessageEntry):
        return ()
    if isinstance(entry.message, ToolResultMessage):
        return (preview(entry.message.tool_name, LINE),)
    if isinstance(entry.message, AssistantMessage):
        return tuple(preview(call.name, LINE) for call in tool_calls_of(entry.message)[:20])
    return ()


def _mark(entry: ShownEntry) -> str:
    """Returns how a message ended when that was not well."""
    match entry:
        case MessageEntry(message=ToolResultMessage(is_error=True)):
            return "failed"
        case MessageEntry(message=AssistantMessage(stop_reason=reason)):
            return {"error": "failed", "aborted": "stopped", "length": "cut"}.get(reason or "", "")
    return ""


def _type(entry: ShownEntry) -> str:
    """Returns an entry's type as the file has it, of a message with its role."""
    match entry:
        case CompactionEntry():
            return "compaction"
        case BranchSummaryEntry():
            return "branch_summary"
        case MessageEntry():
            return f"message {entry.message.__struct_config__.tag}"


def _time(entry: ShownEntry) -> int | None:
    stated = usable_ms(entry.message.timestamp) if isinstance(entry, MessageEntry) else None
    return stated or usable_ms(iso_to_ms(entry.timestamp))
