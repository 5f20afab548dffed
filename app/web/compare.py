"""Two branches side by side, from where they part."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import Blueprint, render_template, request

from app.protocol.entries import Entry
from app.runs.errors import NotFound
from app.runs.picture import Snapshot
from app.sessions.compaction import files_of
from app.sessions.outline import ITEM
from app.sessions.preview import preview
from app.web.preferences import Preferences, preferences
from app.web.services import services
from app.web.session_page import shared_values, view_of
from app.web.transcript import MessageItem, transcript
from app.web.tree_words import words_of

compare = Blueprint("compare", __name__)

MOST = 50
"""Messages of a side that are shown, the oldest first."""


@dataclass(frozen=True)
class Side:
    """One branch from where the two part: its messages, how many more there are, and what was read and written."""

    entry_id: str
    label: str
    text: str
    time: int | None
    messages: int
    items: list[MessageItem]
    more: int
    read: list[str]
    written: list[str]
    is_leaf: bool


@compare.get("/sessions/<session_id>/compare")
def compare_page(session_id: str) -> str:
    """The branches that end at the entries ``a`` and ``b``, beside each other."""
    picture = services().supervisor.open(session_id).snapshot()
    outline = picture.session.outline
    ends = [_position(picture, request.args.get(name, "")) for name in ("a", "b")]
    paths = [list(outline.up(end)) for end in ends]
    shared = set(paths[0]) & set(paths[1])
    fork = next((place for place in paths[0] if place in shared and outline.shown[place] == place), None)
    prefs = Preferences(show="lesson", lang=preferences().lang, theme=preferences().theme)
    return render_template(
        "pages/compare.html",
        session=picture,
        sides=[_side(picture, [place for place in path if place not in shared]) for path in paths],
        fork=_first_words([picture.session.at(fork).entry]) if fork is not None else "",
        at_start=fork is None,
        fixed=picture.state == "running" or picture.read_only or picture.deleted,
        **{**shared_values(picture.session_id, view_of(prefs, None, beside=False)), "prefs": prefs},
    )


def _position(picture: Snapshot, entry_id: str) -> int:
    at = picture.session.outline.position(entry_id)
    if at is None:
        raise NotFound("unknown_entry", f"There is no entry {entry_id!r} in this session to compare.")
    return at


def _side(picture: Snapshot, newest_first: list[int]) -> Side:
    outline = picture.session.outline
    places = newest_first[::-1]
    entries = [picture.session.at(place).entry for place in places[: MOST * 4]]
    items: list[MessageItem] = transcript(
        entries, picture.workings, services().render, numbers={}, sent={}, context_after={}
    )
    files = files_of(entries)
    end = places[-1] if places else -1
    labels = [outline.labels[outline.ids[place]] for place in places if outline.ids[place] in outline.labels]
    messages = sum(bool(outline.flags[place] & ITEM) for place in places)
    return Side(
        entry_id=outline.ids[end] if places else "",
        label=labels[0] if labels else "",
        text=_first_words(entries[:20]),
        time=outline.times[end] if places else None,
        messages=messages,
        items=items[:MOST],
        more=max(0, messages - len(items[:MOST])),
        read=files.read_only,
        written=sorted(files.modified),
        is_leaf=end == picture.leaf,
    )


def _first_words(entries: Sequence[Entry]) -> str:
    """Returns how the first of these entries with words begins; a tool's output only where nobody speaks."""
    spoken = [(kind == "tool", preview(text)) for text, kind in map(words_of, entries)]
    return next((text for _, text in sorted(spoken, key=lambda said: said[0]) if text), "")
