"""The session tree: its page, the panel beside a lesson, and what can be done at one of its entries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, redirect, request

from app.protocol.entries import MessageEntry
from app.protocol.messages import UserMessage
from app.runs.errors import NotFound
from app.runs.picture import Snapshot
from app.runs.supervisor import Started
from app.sessions.outline import Outline, Size
from app.sessions.store import Session
from app.web.errors import ApiError, wants_piece
from app.web.found_words import marked
from app.web.ids import dom_id, end_of, session_url
from app.web.rendering import Renderer
from app.web.services import services
from app.web.texts import _
from app.web.tree_search import find
from app.web.tree_shape import FILTERS, main_line_of, nodes_of, shape_of
from app.web.tree_view import tree_rows
from app.web.tree_words import anchor_of, mark_of, tools_of, words_of

PANEL_ROWS = 120
"""Rows beside the lesson, where the tree is sent again with each change."""
PAGE_ROWS = 250
NODE_CHARACTERS = 1_500
"""How much of an entry's text stands beside the tree."""

tree = Blueprint("tree", __name__)


@dataclass(frozen=True)
class TreeQuery:
    """What the tree's page is asked to show: see ``read_query``."""

    keep: str = ""
    find: str = ""
    node: str = ""
    around: str = ""
    folds: tuple[str, ...] = ()

    def address(self, session_id: str, **changes: Any) -> str:
        """Returns the address of the page with some of this changed."""
        changed = replace(self, **changes)
        named = {"filter": changed.keep, "find": changed.find, "around": changed.around, "node": changed.node}
        named["fold"] = ",".join(changed.folds)
        query = urlencode({name: value for name, value in named.items() if value})
        return session_url(session_id, "tree") + (f"?{query}" if query else "")

    def toggled(self, entry_id: str) -> tuple[str, ...]:
        """Returns the folds with that of one entry opened or closed."""
        if entry_id in self.folds:
            return tuple(fold for fold in self.folds if fold != entry_id)
        return (*self.folds, entry_id)


def read_query(arguments: Mapping[str, str]) -> TreeQuery:
    """Returns what an address asks for.

    ``filter`` is one of FILTERS, ``find`` words, ``node`` the entry that is opened, ``around`` one to have in view,
    ``fold`` entries, separated by commas, below which nothing is shown. What cannot be is passed over.
    """
    keep = arguments.get("filter", "")
    return TreeQuery(
        keep=keep if keep in FILTERS else "",
        find=" ".join(arguments.get("find", "").split())[:200],
        node=arguments.get("node", ""),
        around=arguments.get("around", ""),
        folds=tuple(filter(None, arguments.get("fold", "").split(","))),
    )


def tree_values(
    picture: Snapshot,
    *,
    base: str,
    everything: bool,
    show: str,
    query: TreeQuery | None = None,
    render: Renderer | None = None,
) -> dict[str, Any]:
    """Returns what partials/tree.html needs.

    ``base`` is the address of the lesson that rows link into, empty beside it; ``everything`` is for the page, which
    has more room and does what ``query`` asks for; ``show`` is the dial's stop. ``fixed`` says why nothing can be
    moved: running, read_only, deleted or empty.
    """
    asked = query or TreeQuery()
    keep = asked.keep or ("lesson" if show == "lesson" else "all")
    fixed = {"running": picture.state == "running", "read_only": picture.read_only, "deleted": picture.deleted}
    outline = picture.session.outline
    found = find(picture.session, picture.count, asked.find) if asked.find else None
    selected = _shown(picture, asked.node)
    around = _shown(picture, asked.around)
    folded = {at for fold in asked.folds if (at := outline.position(fold)) is not None}
    rows = tree_rows(
        picture.session,
        picture.leaf,
        count=picture.count,
        keep="all" if found else keep,
        limit=PAGE_ROWS if everything else PANEL_ROWS,
        around=around if around is not None else selected,
        folded=frozenset() if found else folded,
        nodes=found.nodes if found else None,
        words=asked.find,
    )
    return {
        "session_id": picture.session_id,
        "tree": rows,
        "base": base,
        "everything": everything,
        "show": show,
        "query": asked,
        "keep": keep,
        "filters": FILTERS,
        "found": found,
        "marked": marked,
        "node": _node(picture, selected, render) if everything and render is not None else None,
        "leaf_id": picture.leaf_id,
        "tree_branches": picture.branches,
        "fixed": next((why for why, holds in fixed.items() if holds), ""),
        "read_only": picture.read_only,
    }


def tree_shape(picture: Snapshot, asked: TreeQuery) -> dict[str, Any]:
    """Returns the tree for a program: all nodes, parents before children, without their texts."""
    outline = picture.session.outline
    leaf = outline.shown[picture.leaf] if picture.leaf >= 0 else picture.leaf
    found = find(picture.session, picture.count, asked.find) if asked.find else None
    nodes = found.nodes if found else nodes_of(outline, picture.count, asked.keep or "all", leaf)
    shape = shape_of(outline, nodes)
    on_path, main = set(outline.up(picture.leaf)), main_line_of(outline, picture.count)
    rows = []
    for at, depth, ends in zip(shape.places, shape.depths, shape.ends, strict=True):
        parent = _node_above(outline, nodes, at)
        entry_id = outline.ids[at]
        row = {"id": entry_id, "parentId": parent, "kind": outline.kinds[at], "depth": depth, "isEnd": ends}
        row |= {"time": outline.times[at] or None, "label": outline.labels.get(entry_id)}
        rows.append({**row, "onPath": at in on_path, "onMainLine": at in main})
    return {
        "leafId": picture.leaf_id,
        "mainLine": outline.main_line or None,
        "branches": picture.branches,
        "nodes": rows,
    }


def _node_above(outline: Outline, nodes: bytearray, at: int) -> str | None:
    return next((outline.ids[place] for place in outline.up(outline.parents[at]) if nodes[place]), None)


def _shown(picture: Snapshot, entry_id: str) -> int | None:
    at = picture.session.outline.position(entry_id) if entry_id else None
    return at if at is not None and at < picture.count else None


@dataclass(frozen=True)
class Node:
    """One entry as it stands beside the tree: what it says, and what there is here and where the session is now.

    ``html`` is a tutor's text, ``text`` another's; ``cut`` says that there is more. ``own`` is a message of the
    person's, ``anchor`` its element in the lesson when it is on the path.
    """

    id: str
    kind: str
    text: str
    html: str
    cut: bool
    time: int | None
    label: str
    tools: tuple[str, ...]
    mark: str
    own: bool
    is_leaf: bool
    main: bool
    anchor: str
    here: Size
    now: Size
    messages: int
    messages_now: int


def _node(picture: Snapshot, selected: int | None, render: Renderer) -> Node | None:
    at = picture.leaf if selected is None else selected
    outline = picture.session.outline
    if at < 0:
        return None
    entry = picture.session.at(at).entry
    text, kind = words_of(entry)
    shown = text[:NODE_CHARACTERS]
    written = kind in ("tutor", "summary") and bool(shown.strip())
    return Node(
        id=entry.id,
        kind=kind,
        text="" if written else shown,
        html=render(shown).html if written else "",
        cut=len(text) > len(shown),
        time=outline.times[at] or None,
        label=outline.labels.get(entry.id, ""),
        tools=tools_of(entry),
        mark=mark_of(outline.flags[at]),
        own=isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage),
        is_leaf=at == picture.leaf,
        main=outline.main_line == entry.id,
        anchor=anchor_of(entry) if outline.is_above(at, picture.leaf) else "",
        here=outline.context_size(at),
        now=picture.context_size,
        messages=outline.items[at],
        messages_now=outline.items[picture.leaf] if picture.leaf >= 0 else 0,
    )


@tree.post("/sessions/<session_id>/branch")
def branch(session_id: str) -> Any:
    """Moves to an entry (form field ``entry``; empty for before the first), so that the next message hangs below it.

    With ``edit``, the id of a message of the person's own, it moves to before that message instead, and the lesson
    opens with its text to be changed. With ``summary`` ("yes", or "focus" and words in ``focus``) what is left is
    summarised first. htmx needs nothing back, since the move comes through the stream; a plain form gets the lesson.
    """
    target, edit = request.form.get("entry"), request.form.get("edit")
    if target is None and not edit:
        raise ApiError(
            422,
            "missing_entry",
            _("Say where to go on: the form field entry must be an entry's id, or empty for the start."),
        )
    live = services().supervisor.open(session_id, to_write=True)
    if edit:
        target = _parent_of_own(live.session, edit)
    summary = request.form.get("summary", "")
    focus = request.form.get("focus", "").strip()[:500] if summary == "focus" else ""
    moved = services().supervisor.move(live.id, target or None, summary=summary in ("yes", "focus"), focus=focus)
    if wants_piece():
        return Response(status=204)
    if isinstance(moved, Started):
        return redirect(end_of(live.id), 303)
    lesson = session_url(live.id)
    if edit:
        return redirect(f"{lesson}?{urlencode({'edit': edit})}#text", 303)
    entry = live.session.get(target) if target else None
    anchor = anchor_of(entry) if entry is not None else ""
    return redirect(f"{lesson}#{anchor}" if anchor else lesson, 303)


def _parent_of_own(session: Session, entry_id: str) -> str | None:
    """Returns what a message of the person's own hangs on; None where that is nothing, or is lost."""
    entry = session.get(entry_id)
    if entry is None:
        raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session to ask differently.")
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage):
        raise ApiError(422, "not_own", _("Only a message of your own can be asked differently."))
    above = session.outline.parents[session.position(entry_id)]
    return session.outline.ids[above] if above >= 0 else None


@tree.post("/sessions/<session_id>/label")
def label(session_id: str) -> Any:
    """Names the entry of the form field ``entry`` by ``label``; an empty one takes its name away."""
    entry_id = request.form.get("entry", "")
    services().supervisor.open(session_id, to_write=True).label(entry_id, request.form.get("label", ""))
    return _back(session_id, entry_id)


@tree.post("/sessions/<session_id>/main-line")
def main_line(session_id: str) -> Any:
    """Says that the branch of the entry ``entry`` is the main line; with ``off`` that there is none."""
    entry_id = request.form.get("entry", "")
    marked_entry = "" if request.form.get("off") else entry_id
    services().supervisor.open(session_id, to_write=True).mark_main_line(marked_entry)
    return _back(session_id, entry_id)


@tree.post("/sessions/<session_id>/fork")
def fork(session_id: str) -> Any:
    """Copies the way to the entry ``entry`` into a new session and opens that."""
    made = services().supervisor.fork(session_id, request.form.get("entry", ""))
    return redirect(end_of(made.id), 303)


def _back(session_id: str, entry_id: str) -> Any:
    """Leads back to the tree as it was shown (form field ``query``), with the entry in view."""
    asked = read_query(request.form)
    return redirect(f"{replace(asked, node=entry_id).address(session_id)}#{dom_id('n', entry_id)}", 303)
