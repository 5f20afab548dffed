"""What a session's page and its live pieces are made of: one picture of the session, seen by one reader."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.agent.guards import RULES
from app.protocol.entries import BranchSummaryEntry, Entry, MessageEntry
from app.protocol.estimate import estimate_fixed
from app.protocol.messages import AssistantMessage, UserMessage, text_of, tool_calls_of
from app.protocol.model import ModelRequest
from app.runs.errors import NotFound
from app.runs.picture import Snapshot
from app.sessions.outline import MOVES
from app.sessions.preview import preview
from app.sessions.window import Window, end_around, newest, window_of
from app.web.calls import Passage, passage_of
from app.web.ids import session_url
from app.web.preferences import Preferences
from app.web.sent import Sent, sent_of
from app.web.services import Services
from app.web.texts import _
from app.web.timeline import timeline_values
from app.web.tools_panel import tools_values
from app.web.transcript import MessageItem, results_of, transcript
from app.web.tree import TreeQuery, tree_values

PANELS = ("timeline", "tree", "tools")
PASSAGES = 12
ASKED_WITHIN = 500
"""How many entries back the newest message of the person's is looked for."""
_RULE_SENTENCES = {rule.name: rule.sentence for rule in RULES}


@dataclass(frozen=True)
class View:
    """What one reader of a session sees: how much, which panel, and whether the panel stands beside the text.

    ``everything``: the panel is a page of its own and shows what there is no room for beside the text.
    """

    prefs: Preferences
    panel: str
    beside: bool = True
    everything: bool = False

    def links(self, session_id: str) -> dict[str, str]:
        """Returns where things of a session are found from here; "" is this page itself."""
        page = session_url(session_id)
        return {
            "session": page,
            "transcript": "" if self.beside else page,
            "workings": "" if self.panel == "timeline" else session_url(session_id, "workings"),
            "tree": "" if self.panel == "tree" else session_url(session_id, "tree"),
            "tools": "" if self.panel == "tools" else session_url(session_id, "tools"),
        }


def view_of(prefs: Preferences, panel: str | None, *, beside: bool = True, everything: bool = False) -> View:
    """Returns the view with the panel asked for; a lesson has the passages beside it and nothing else."""
    if beside and prefs.show == "lesson":
        return View(prefs, "passages")
    chosen = panel if panel in PANELS else PANELS[0]
    return View(prefs, chosen, beside, not beside and (everything or chosen == "tree"))


def items_of(picture: Snapshot, services: Services, view: View, window: Window | None = None) -> list[MessageItem]:
    """Returns the messages of a part of the path, by default its end, the one that is being written included."""
    part = window or picture.recent
    partial_id = None if part.later else picture.partial_id
    return transcript(
        part.entries,
        picture.workings,
        services.render,
        numbers=picture.numbers_in(part),
        sent=requests_of(picture, services, view, partial_id, part),
        context_after=_context_after(picture, part),
        partial_id=partial_id,
        partial=picture.partial_pieces,
    )


def _context_after(picture: Snapshot, window: Window) -> dict[str, int]:
    """Returns how many tokens the context had right after each compaction of a window, by entry."""
    outline = picture.session.outline
    return {
        outline.ids[place]: outline.context_size(place).tokens
        for place in window.places
        if outline.kinds[place] == "compaction"
    }


def transcript_values(
    picture: Snapshot, services: Services, view: View, window: Window | None = None
) -> dict[str, Any]:
    """Returns the variables of the transcript's piece: a part of the path, by default its end, and what lies around."""
    part = window or picture.recent
    ids = [entry.id for entry in part.entries]
    return {
        "items": items_of(picture, services, view, part),
        "earlier": part.earlier,
        "later": part.later,
        "first_entry": ids[0] if ids else "",
        "last_entry": ids[-1] if ids else "",
    }


def window_asked_for(picture: Snapshot, arguments: Mapping[str, str]) -> Window | None:
    """Returns the part of the path that an address asks for; None for its end.

    ``around`` names an entry that is to be in it, ``until`` the one right behind it. Raises NotFound for one that is
    not on the path.
    """
    outline = picture.session.outline
    named = arguments.get("around") or arguments.get("until")
    if not named:
        return None
    at = outline.position(named)
    if at is None or not outline.is_above(at, picture.leaf):
        raise NotFound("not_on_path", f"The entry {named!r} is not on the way to where this session is now.")
    if arguments.get("around") and (not picture.recent.places or at in picture.recent.places):
        return None
    end = end_around(outline, picture.leaf, at) if arguments.get("around") else outline.parents[at]
    return window_of(picture.session, picture.leaf, end=end)


def requests_of(
    picture: Snapshot, services: Services, view: View, partial_id: str | None = None, window: Window | None = None
) -> Mapping[str, Sent]:
    """Returns what the model was sent for each answer, by entry; nothing for a view that does not show it."""
    if view.prefs.show == "lesson":
        return {}
    fixed = estimate_fixed(services.supervisor.equipment.request([]))
    return sent_of(picture, window or picture.recent, fixed, partial_id)


def request_before(picture: Snapshot, services: Services, entry_id: str) -> ModelRequest | None:
    """Returns the request that an answer was made to, made again from the session; None when it is no answer here.

    Instructions and tools are those of now.
    """
    session, at = picture.session, picture.session.outline.position(entry_id)
    if at is None or session.outline.kinds[at] != "assistant":
        return None
    above = session.outline.parents[at]
    messages = session.context(session.outline.ids[above] if above >= 0 else None).messages
    return services.supervisor.equipment.request(messages)


def shared_values(session_id: str, view: View) -> dict[str, Any]:
    """Returns what every piece of a session's page may need."""
    return {
        "prefs": view.prefs,
        "session_id": session_id,
        "links": view.links(session_id),
        "panel": view.panel,
        "rule_sentences": _RULE_SENTENCES,
    }


def panel_values(picture: Snapshot, services: Services, view: View, query: TreeQuery | None = None) -> dict[str, Any]:
    """Returns the variables of the panel's piece; ``query`` is what the tree's page is asked to show."""
    shared = shared_values(picture.session_id, view)
    links = shared["links"]
    match view.panel:
        case "timeline":
            window = services.supervisor.equipment.model.context_window
            values = timeline_values(picture, everything=view.everything, window=window)
            return {**shared, **values, "base": links["transcript"], "tree_base": links["tree"]}
        case "tree":
            show, everything = view.prefs.show, view.everything
            base = links["transcript"]
            return {
                **shared,
                **tree_values(
                    picture, base=base, everything=everything, show=show, query=query, render=services.render
                ),
            }
        case "tools":
            return {**shared, **tools_values(services.supervisor.equipment.tools)}
        case _:
            return {**shared, "passages": passages_of(picture)}


def passages_of(picture: Snapshot) -> list[Passage]:
    """Returns what was read on the way here, each once, the newest last, at most twelve."""
    path = picture.recent.entries
    results = results_of(path)
    found: dict[str, Passage] = {}
    for entry in path:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
            for call in tool_calls_of(entry.message):
                passage = passage_of(call, results[call.id][1]) if call.id in results else None
                if passage is not None:
                    found.pop(passage.url, None)
                    found[passage.url] = passage
    return list(found.values())[-PASSAGES:]


@dataclass(frozen=True)
class Moved:
    """The person has gone to another point of the tree and said nothing there yet.

    ``back_to`` is where something was said last, whatever was visited since ("": before the first entry).
    """

    text: str
    to_start: bool
    back_to: str


def moved_of(picture: Snapshot) -> Moved | None:
    """Returns the moves since something was said last as one; None when there are none, or they led back there."""
    outline = picture.session.outline
    sides = list(outline.trailing_sides(picture.count))
    before = picture.count - len(sides) - 1
    left = _left_with_summary(picture, before)
    if left is not None:
        return left
    if before == picture.leaf or not any(outline.flags[at] & MOVES for at in sides):
        return None
    said = picture.leaf >= 0 and outline.shown[picture.leaf] >= 0
    return Moved(_last_asked(picture), not said, outline.ids[before] if before >= 0 else "")


def _left_with_summary(picture: Snapshot, newest_entry: int) -> Moved | None:
    """The last move, where a summary of what was left is the newest entry."""
    if newest_entry < 0 or newest_entry != picture.leaf:
        return None
    entry = picture.session.at(newest_entry).entry
    if not isinstance(entry, BranchSummaryEntry) or entry.from_id in ("", entry.parent_id):
        return None
    if picture.session.outline.position(entry.from_id) is None:
        return None
    return Moved(_last_asked(picture), entry.parent_id is None, entry.from_id)


def _last_asked(picture: Snapshot) -> str:
    """How the newest message of the person's on the path begins."""
    at = newest(picture.session.outline, picture.leaf, "user", ASKED_WITHIN)
    return preview(_own_text(picture.session.at(at).entry)) if at >= 0 else ""


def _own_text(entry: Entry) -> str:
    """The text of a message of the person's; "" for any other entry."""
    match entry:
        case MessageEntry(message=UserMessage() as message):
            return text_of(message.content)
    return ""


def text_to_edit(picture: Snapshot, entry_id: str | None) -> str:
    """Returns the text of a person's message, to be asked differently.

    "" when there is no such message, or when something was said since: then it has been asked.
    """
    outline = picture.session.outline
    at = outline.position(entry_id or "")
    if at is None or outline.parents[at] != picture.leaf:
        return ""
    return _own_text(picture.session.at(at).entry)


def starters() -> list[str]:
    """Returns messages to begin with that any tutor understands."""
    return [
        _("List the files"),
        _("Read README.md"),
        _("Search for tree"),
        _("Write a note about the loop"),
        _("How do you work?"),
    ]
