"""A session as one HTML file that needs nothing else: no script, no font, no address."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jinja2 import Environment

from app.protocol.entries import Entry, MessageEntry
from app.protocol.messages import AssistantMessage, BashExecutionMessage, ToolResultMessage, text_of, tool_calls_of
from app.render.markdown import render_markdown
from app.runs.workings import Workings
from app.sessions.branches import Stretch, stretches_of
from app.sessions.preview import preview
from app.sessions.store import Session
from app.settings import resource
from app.web.calls import pretty
from app.web.ids import dom_id
from app.web.transcript import MessageItem, transcript
from app.web.tree_words import words_of


@dataclass(frozen=True)
class ExportedCall:
    """A tool call: its name, its arguments as JSON and what it gave (None: no result here, or left out)."""

    name: str
    arguments: str
    result: str | None
    failed: bool


@dataclass(frozen=True)
class Piece:
    """One message with its label and its calls; a result whose call stands elsewhere is a call of its own."""

    item: MessageItem | None
    label: str
    calls: Sequence[ExportedCall]
    id: str


@dataclass(frozen=True)
class TreeLine:
    """A line of the file's tree: a branch, or a message of the person's in it."""

    href: str
    text: str
    depth: int
    number: int = 0
    of: int = 0
    messages: int = 0
    label: str = ""


def document_of(env: Environment, session: Session, entry_id: str, *, slim: bool, lang: str) -> Iterator[str]:
    """Yields the document in pieces: of the branch that ends at ``entry_id``, or of all.

    ``slim`` leaves out what tools gave and what the model thought; ``lang`` is the page's language tag.
    """
    outline = session.outline
    if entry_id:
        stretches = [Stretch(outline.path(session.position(entry_id)), None, 1, 1, ())]
    else:
        stretches = stretches_of(outline, len(outline))
    template = env.get_template("export.html")
    yield from template.generate(
        lang=lang,
        title=outline.name or outline.first_text,
        style="\n".join((resource("static") / name).read_text("utf-8") for name in ("app.css", "export.css")),
        tree=_tree(session, stretches, slim=slim),
        stretches=stretches,
        pieces=lambda stretch: _pieces(session, stretch, slim=slim),
        slim=slim,
        whole=not entry_id,
    )


def words_told(entry: Entry, *, slim: bool) -> str:
    """Returns the words that an entry is named by, with ``slim`` no output of a tool: its name instead."""
    if slim and isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage):
        return entry.message.tool_name
    return words_of(entry)[0]


def _tree(session: Session, stretches: Sequence[Stretch], *, slim: bool) -> Iterator[TreeLine]:
    outline = session.outline
    depths: list[int] = []
    for number, stretch in enumerate(stretches):
        above = depths[stretch.above] if stretch.above is not None else 0
        depths.append(above + (stretch.of > 1))
        if stretch.of > 1:
            said = sum(outline.kinds[place] in ("user", "assistant") for place in stretch.places)
            yield TreeLine(f"b-{number}", "", depths[-1], stretch.number, stretch.of, said)
        for place in stretch.places:
            label = outline.labels.get(outline.ids[place], "")
            if outline.kinds[place] == "user" or label:
                text = preview(words_told(session.at(place).entry, slim=slim), 80)
                yield TreeLine(dom_id("m", outline.ids[place]), text, depths[-1], label=label)


def _pieces(session: Session, stretch: Stretch, *, slim: bool) -> Iterator[Piece]:
    """The messages of a stretch, each with the results of its calls that stand in it."""
    entries = [session.at(place).entry for place in stretch.places]
    results = {
        entry.message.tool_call_id: entry.message
        for entry in entries
        if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage)
    }
    told: set[str] = set()
    for entry in entries:
        calls = _calls(entry, results, told, slim=slim)
        items = transcript([entry], Workings(), render_markdown, numbers={}, sent={}, context_after={})
        if items or calls:
            item = _without_output(items[0], entry) if items and slim else items[0] if items else None
            yield Piece(item, session.outline.labels.get(entry.id, ""), calls, dom_id("m", entry.id))


def _without_output(item: MessageItem, entry: Entry) -> MessageItem:
    if isinstance(entry, MessageEntry) and isinstance(entry.message, BashExecutionMessage):
        return replace(item, text=f"$ {entry.message.command}")
    return item


def _calls(entry: Entry, results: dict[str, ToolResultMessage], told: set[str], *, slim: bool) -> list[ExportedCall]:
    if not isinstance(entry, MessageEntry):
        return []
    if isinstance(entry.message, AssistantMessage):
        asked = [(call.id, call.name, pretty(call.arguments)) for call in tool_calls_of(entry.message)]
    elif isinstance(entry.message, ToolResultMessage) and entry.message.tool_call_id not in told:
        asked = [(entry.message.tool_call_id, entry.message.tool_name, "")]
    else:
        return []
    told.update(call_id for call_id, _, _ in asked)
    found = []
    for call_id, name, arguments in asked:
        result = results.get(call_id)
        text = None if slim or result is None else text_of(result.content)
        found.append(ExportedCall(name, arguments, text, result is not None and result.is_error))
    return found
