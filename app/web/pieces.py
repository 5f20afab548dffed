"""Events as pieces of HTML that htmx swaps into an open page.

Every piece has a stable id, so that a piece sent twice replaces itself; appended text is safe because a reader's
cursor is the ``n`` up to which its page was rendered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from flask import Flask
from markupsafe import Markup

from app.protocol.entries import CompactionEntry, MessageEntry
from app.protocol.events import (
    AgentStart,
    Compaction,
    EntryLabelled,
    LeafMoved,
    MainLineMarked,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueChanged,
    RunDone,
    SessionDeleted,
    SessionRenamed,
    ToolDecisionMade,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from app.protocol.messages import AssistantMessage, ToolResultMessage, UserMessage, tool_calls_of
from app.render.streaming import Piece, combine
from app.runs.buffer import Record
from app.runs.live import LiveSession
from app.runs.picture import Snapshot
from app.web.calls import calls_item
from app.web.context_fill import nearly_full
from app.web.ids import dom_id
from app.web.sent import Sent
from app.web.services import Services
from app.web.session_page import (
    View,
    moved_of,
    panel_values,
    requests_of,
    shared_values,
    transcript_values,
)
from app.web.transcript import being_written, message_item, results_of, summary_item

CHANGES_STATUS = (AgentStart, TurnStart, RunDone, QueueChanged, SessionDeleted, LeafMoved, Compaction)
CALL_EVENTS = (ToolExecutionStart, ToolDecisionMade, ToolExecutionUpdate, ToolExecutionEnd)
CHANGES_PANEL = {
    "passages": (MessageEnd, LeafMoved),
    "timeline": (*CALL_EVENTS, AgentStart, MessageStart, MessageEnd, TurnEnd, RunDone, LeafMoved, Compaction),
    "tree": (AgentStart, MessageEnd, RunDone, LeafMoved, Compaction, EntryLabelled, MainLineMarked),
    "tools": (),
}

NumberedPiece = tuple[int, str]
"""A piece and the number of the event up to which a page is that has it."""


@dataclass(frozen=True)
class Writer:
    """Makes the pieces of one session for one view. Its methods need the app's context and the reader's language."""

    live: LiveSession
    app: Flask
    services: Services
    view: View

    def piece(self, partial: str, **values: Any) -> str:
        """Returns a partial, rendered to replace the element of its id."""
        shared = {**shared_values(self.live.id, self.view), "oob": True}
        template = self.app.jinja_env.get_template(f"partials/{partial}.html")
        return Markup(template.render(**{**shared, **values}))

    def status(self) -> str:
        """Returns what the session does now."""
        status = self.live.status()
        window = self.services.supervisor.equipment.model.context_window
        return self.piece("status", session=status, nearly_full=nearly_full(status.tokens, window))

    def panel(self, picture: Snapshot) -> str:
        """Returns the panel of the view; of the tree's own page, which knows how it is shown, that it has changed."""
        if self.view.panel == "tree" and not self.view.beside:
            return self.piece("changed", n=picture.n)
        return self.piece(self.view.panel, session=picture, **panel_values(picture, self.services, self.view))

    def everything(self, picture: Snapshot) -> list[str]:
        """Returns all that is live on the page."""
        pieces = [self.panel(picture)]
        if self.view.beside:
            pieces += [
                self.piece("moved", moved=moved_of(picture), session=picture),
                self.piece("transcript", **transcript_values(picture, self.services, self.view)),
                self.piece("name", name=picture.name),
                self.piece("branches", branches=picture.branches, session=picture),
                self.status(),
            ]
        return pieces

    def of(self, records: Sequence[Record]) -> list[NumberedPiece]:
        """Returns what records that follow one another change; deltas in a row are one piece."""
        return _Chunk(self, records).pieces()


class _Chunk:
    """The pieces of some records that follow one another; what they need of the session is looked up once."""

    def __init__(self, writer: Writer, records: Sequence[Record]) -> None:
        self._writer = writer
        self._records = records
        self._last = records[-1].n
        self._seen: Snapshot | None = None

    @property
    def _picture(self) -> Snapshot:
        if self._seen is None:
            self._seen = self._writer.live.snapshot()
        return self._seen

    def pieces(self) -> list[NumberedPiece]:
        found: list[NumberedPiece] = []
        view = self._writer.view
        if view.beside:
            for entry_id, group in groupby(self._records, _written_entry):
                run = list(group)
                if entry_id is not None:
                    so_far = combine(record.piece for record in run if record.piece is not None)
                    found.append((run[-1].n, self._delta(entry_id, so_far)))
                else:
                    found += [(record.n, piece) for record in run for piece in self._of_event(record)]
            found += [(self._last, piece) for piece in self._calls()]
            if self._has(CHANGES_STATUS):
                found.append((self._last, self._writer.status()))
        if self._has(CHANGES_PANEL[view.panel]):
            found.append((self._last, self._writer.panel(self._picture)))
        return found

    def _has(self, kinds: tuple[type, ...]) -> bool:
        return any(isinstance(record.event, kinds) for record in self._records)

    def _delta(self, entry_id: str, so_far: Piece) -> str:
        return self._writer.piece("delta", target=dom_id("tail", entry_id), piece=so_far)

    def _of_event(self, record: Record) -> list[str]:
        piece = self._writer.piece
        match record.event:
            case MessageStart(message=AssistantMessage(), entry_id=str(entry_id)):
                number = self._picture.turns + 1
                item = being_written(entry_id, Piece("", "", False), number, self._sent(entry_id))
                return [piece("append", item=item)]
            case MessageStart(message=UserMessage()):
                return [piece("moved", moved=None), *self._message(record, "append")]
            case MessageStart():
                return self._message(record, "append")
            case MessageEnd(message=UserMessage()):
                return [piece("branches", branches=self._picture.branches, session=self._picture)]
            case MessageEnd(message=AssistantMessage()):
                return self._message(record, "message")
            case Compaction(status="done", entry_id=str(entry_id), tokens_after=after):
                return self._compaction(entry_id, after)
            case MessageEnd(discarded=True, entry_id=str(entry_id)):
                return [piece("discarded", id=dom_id("m", entry_id))]
            case SessionRenamed(name=name):
                return [piece("name", name=name)]
            case _:
                return []

    def _message(self, record: Record, partial: str) -> list[str]:
        event = record.event
        if not isinstance(event, MessageStart | MessageEnd) or event.message is None or event.entry_id is None:
            return []
        rendered = record.rendered
        item = message_item(
            event.entry_id,
            event.message,
            self._writer.services.render if rendered is None else lambda text: rendered,
            results=results_of(self._picture.recent.entries),
            workings=self._picture.workings,
            number=self._picture.recent.numbers.get(event.entry_id),
            sent=self._sent(event.entry_id),
        )
        return [self._writer.piece(partial, item=item)] if item is not None else []

    def _compaction(self, entry_id: str, tokens_after: int) -> list[str]:
        entry = self._picture.session.get(entry_id)
        if not isinstance(entry, CompactionEntry):
            return []
        return [self._writer.piece("append", item=summary_item(entry, self._writer.services.render, tokens_after))]

    def _sent(self, entry_id: str) -> Sent | None:
        return requests_of(self._picture, self._writer.services, self._writer.view, entry_id).get(entry_id)

    def _calls(self) -> list[str]:
        """Returns anew the calls of each message that one of these events is about."""
        events = [record.event for record in self._records]
        touched = {event.tool_call_id for event in events if isinstance(event, CALL_EVENTS)}
        touched |= {
            event.message.tool_call_id
            for event in events
            if isinstance(event, MessageEnd) and isinstance(event.message, ToolResultMessage)
        }
        if not touched:
            return []
        path, workings = self._picture.recent.entries, self._picture.workings
        results = results_of(path)
        items = [
            calls_item(entry.id, entry.message, results, workings)
            for entry in path
            if isinstance(entry, MessageEntry)
            and isinstance(entry.message, AssistantMessage)
            and touched & {call.id for call in tool_calls_of(entry.message)}
        ]
        return [self._writer.piece("calls", calls=item) for item in items if item is not None]


def _written_entry(record: Record) -> str | None:
    """Returns the message that a record adds text to; None for every other record."""
    event = record.event
    return event.entry_id if isinstance(event, MessageUpdate) and record.piece is not None else None
