"""What a session's page and its live pieces are made of: one picture of the session, seen by one reader."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.agent.guards import RULES
from app.protocol.codec import encode_line
from app.protocol.entries import LEAF, CustomEntry, MessageEntry, is_side_entry
from app.protocol.messages import AssistantMessage, UserMessage, text_of, tool_calls_of
from app.protocol.model import ModelRequest
from app.runs.picture import Snapshot
from app.sessions.context import build_context
from app.sessions.preview import preview
from app.sessions.tree import index_of, leaf_of, path_to
from app.web.calls import Passage, passage_of
from app.web.ids import session_url
from app.web.preferences import Preferences
from app.web.sent import Sent, sent_of
from app.web.services import Services
from app.web.texts import _
from app.web.timeline import timeline_values, turn_numbers
from app.web.tools_panel import tools_values
from app.web.transcript import MessageItem, results_of, transcript
from app.web.tree import tree_values
from app.web.tree_view import branch_count

PANELS = ("timeline", "tree", "tools")
PASSAGES = 12
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


def items_of(picture: Snapshot, services: Services, view: View) -> list[MessageItem]:
    """Returns the messages of the path, the one that is being written included."""
    return transcript(
        picture.path,
        picture.workings,
        services.render,
        numbers=turn_numbers(picture.path, picture.partial_id),
        sent=requests_of(picture, services, view, picture.partial_id),
        partial_id=picture.partial_id,
        partial=picture.partial_pieces,
    )


def requests_of(picture: Snapshot, services: Services, view: View, partial_id: str | None = None) -> Mapping[str, Sent]:
    """Returns what the model was sent for each answer, by entry; nothing for a view that does not show it."""
    if view.prefs.show == "lesson":
        return {}
    equipment = services.supervisor.equipment
    fixed = len(equipment.system_prompt) + sum(len(encode_line(tool.spec())) for tool in equipment.tools)
    return sent_of(picture.path, fixed, partial_id)


def request_before(picture: Snapshot, services: Services, entry_id: str) -> ModelRequest | None:
    """Returns the request that an answer was made to, made again from the session; None when it is no answer here.

    Instructions and tools are those of now.
    """
    index = index_of(stored.entry for stored in picture.stored)
    entry = index.get(entry_id)
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, AssistantMessage):
        return None
    equipment = services.supervisor.equipment
    messages = build_context(path_to(index, entry.parent_id)).messages
    return ModelRequest(
        system_prompt=equipment.system_prompt, messages=messages, tools=[tool.spec() for tool in equipment.tools]
    )


def shared_values(session_id: str, view: View) -> dict[str, Any]:
    """Returns what every piece of a session's page may need."""
    return {
        "prefs": view.prefs,
        "session_id": session_id,
        "links": view.links(session_id),
        "panel": view.panel,
        "rule_sentences": _RULE_SENTENCES,
    }


def panel_values(picture: Snapshot, services: Services, view: View) -> dict[str, Any]:
    """Returns the variables of the panel's piece."""
    shared = shared_values(picture.session_id, view)
    links = shared["links"]
    match view.panel:
        case "timeline":
            window = services.supervisor.equipment.model.context_window
            values = timeline_values(picture, everything=view.everything, window=window)
            return {**shared, **values, "base": links["transcript"], "tree_base": links["tree"]}
        case "tree":
            show, everything = view.prefs.show, view.everything
            return {**shared, **tree_values(picture, base=links["transcript"], everything=everything, show=show)}
        case "tools":
            return {**shared, **tools_values(services.supervisor.equipment.tools)}
        case _:
            return {**shared, "passages": passages_of(picture)}


def passages_of(picture: Snapshot) -> list[Passage]:
    """Returns what was read on the way here, each once, the newest last, at most twelve."""
    results = results_of(picture.path)
    found: dict[str, Passage] = {}
    for entry in picture.path:
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
    entries = [stored.entry for stored in picture.stored]
    moves = 0
    while entries and is_side_entry(entries[-1]):
        moves += _is_move(entries.pop())
    before = leaf_of(entries)
    if not moves or before == picture.leaf_id:
        return None
    said = [entry for entry in picture.path if isinstance(entry, MessageEntry)]
    texts = (text_of(entry.message.content) for entry in reversed(said) if isinstance(entry.message, UserMessage))
    return Moved(preview(next(texts, "")), not said, before or "")


def _is_move(entry: object) -> bool:
    return isinstance(entry, CustomEntry) and entry.custom_type == LEAF


def branches_of(picture: Snapshot) -> int:
    """Returns how many ends the tree has."""
    return branch_count([stored.entry for stored in picture.stored])


def text_to_edit(picture: Snapshot, entry_id: str | None) -> str:
    """Returns the text of a person's message, to be asked differently.

    "" when there is no such message, or when something was said since: then it has been asked.
    """
    index = index_of(stored.entry for stored in picture.stored)
    entry = index.get(entry_id or "")
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage):
        return ""
    above = entry.parent_id if entry.parent_id in index else None
    return text_of(entry.message.content) if picture.leaf_id == above else ""


def starters() -> list[str]:
    """Returns messages to begin with that any tutor understands."""
    return [
        _("List the files"),
        _("Read README.md"),
        _("Search for tree"),
        _("Write a note about the loop"),
        _("How do you work?"),
    ]
