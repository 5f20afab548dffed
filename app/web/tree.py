"""The session tree: what its piece shows, and moving to one of its entries."""

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, redirect, request

from app.protocol.entries import Entry, MessageEntry
from app.protocol.messages import UserMessage
from app.runs.errors import NotFound
from app.runs.picture import Snapshot
from app.sessions.tree import index_of
from app.web.errors import ApiError, wants_piece
from app.web.ids import session_url
from app.web.services import services
from app.web.texts import _
from app.web.tree_view import anchor_of, tree_rows

PANEL_ROWS = 120
"""Rows beside the lesson, where the tree is sent again with each change."""
PAGE_ROWS = 5_000

tree = Blueprint("tree", __name__)


def tree_values(picture: Snapshot, *, base: str, everything: bool, show: str) -> dict[str, Any]:
    """Returns what partials/tree.html needs.

    ``base`` is the address of the lesson that rows link into, empty beside it; ``everything`` is for the page, which
    has more room; ``show`` is the dial's stop. ``fixed`` says why nothing can be moved: running, read_only, deleted or
    empty.
    """
    entries = [stored.entry for stored in picture.stored]
    fixed = {"running": picture.state == "running", "read_only": picture.read_only, "deleted": picture.deleted}
    return {
        "session_id": picture.session_id,
        "tree": tree_rows(entries, picture.leaf_id, show=show, limit=PAGE_ROWS if everything else PANEL_ROWS),
        "base": base,
        "everything": everything,
        "show": show,
        "fixed": next((why for why, holds in fixed.items() if holds), ""),
        "read_only": picture.read_only,
    }


@tree.post("/sessions/<session_id>/branch")
def branch(session_id: str) -> Any:
    """Moves to an entry (form field ``entry``; empty for before the first), so that the next message hangs below it.

    With ``edit``, the id of a message of the person's own, it moves to before that message instead, and the lesson
    opens with its text to be changed. htmx needs nothing back, since the move comes through the stream; a plain form
    gets the lesson.
    """
    target, edit = request.form.get("entry"), request.form.get("edit")
    if target is None and not edit:
        raise ApiError(
            422,
            "missing_entry",
            _("Say where to go on: the form field entry must be an entry's id, or empty for the start."),
        )
    live = services().supervisor.open(session_id, to_write=True)
    index = index_of(stored.entry for stored in live.snapshot().stored)
    if edit:
        target = _parent_of_own(index, edit)
    live.move(target or None)
    if wants_piece():
        return Response(status=204)
    lesson = session_url(live.id)
    if edit:
        return redirect(f"{lesson}?{urlencode({'edit': edit})}#text", 303)
    anchor = anchor_of(index[target]) if target in index else ""
    return redirect(f"{lesson}#{anchor}" if anchor else lesson, 303)


def _parent_of_own(index: dict[str, Entry], entry_id: str) -> str | None:
    """Returns what a message of the person's own hangs on; None where that is nothing, or is lost."""
    entry = index.get(entry_id)
    if entry is None:
        raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session to ask differently.")
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage):
        raise ApiError(422, "not_own", _("Only a message of your own can be asked differently."))
    return entry.parent_id if entry.parent_id in index else None
