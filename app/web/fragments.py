"""Events as pieces of HTML that htmx swaps into an open page.

Every piece has a stable id, so that a piece sent twice replaces itself; appended text is safe because a reader's
cursor is the ``n`` up to which its page was rendered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from app.protocol.events import (
    AgentStart,
    Event,
    LeafMoved,
    MessageEnd,
    MessageStart,
    QueueChanged,
    RunDone,
    SessionDeleted,
    SessionRenamed,
    ToolExecutionStart,
    TurnStart,
)
from app.protocol.messages import AssistantMessage, ToolCall, ToolResultMessage
from app.runs.buffer import Record
from app.runs.live import LiveSession
from app.web import sse
from app.web.transcript import call_item, delta_of, dom_id, message_item, transcript

CHANGES_STATUS = (AgentStart, TurnStart, ToolExecutionStart, RunDone, QueueChanged, SessionDeleted, LeafMoved)


@dataclass
class PageCursor:
    """One reader of a session's page stream: what it has seen, and how new events look."""

    live: LiveSession
    environment: Environment
    n: int
    _deleted: bool = False

    def wait(self, seconds: float, hold: float) -> list[Record]:
        return [] if self._deleted else self.live.log.wait(self.n, seconds, hold=hold)

    def over(self) -> bool:
        return self._deleted or self.live.log.closed

    def greet(self) -> bytes:
        """Returns the state as it is now: after a restart no event tells a waiting page that its run has stopped."""
        if self.n > self.live.log.last:  # the log was lost, and its numbers begin again
            return self._show_all()
        return sse.frame(self._status().encode(), event_id=self.n)

    def render(self, records: list[Record]) -> bytes:
        """Returns an SSE message for each piece.

        htmx looks up all targets of a message before it swaps any, so a piece must not share a message with another
        that it lands in.
        """
        if any(isinstance(record.event, LeafMoved) for record in records):
            message = self._show_all()
        else:
            self.n = records[-1].n
            message = self._frames(self._pieces([record.event for record in records]))
        # One that was brought back has the event of its deletion in its past.
        if any(isinstance(record.event, SessionDeleted) for record in records) and self.live.status().deleted:
            self._deleted = True
            message += sse.frame(b"end", event="close")
        return message

    @staticmethod
    def _frames(pieces: Sequence[tuple[int, str]]) -> bytes:
        return b"".join(sse.frame(piece.encode(), event_id=n) for n, piece in pieces)

    def _template(self, partial: str, **values: Any) -> Markup:
        return Markup(self.environment.get_template(f"partials/{partial}.html").render(**values))

    def _show_all(self) -> bytes:
        picture = self.live.snapshot()
        self.n = picture.n
        items = transcript(picture.path, picture.partial_id, picture.partial)
        pieces = [
            self._template("transcript", items=items, oob=True),
            self._template("name", name=picture.name, oob=True),
            self._status(),
        ]
        return self._frames([(self.n, piece) for piece in pieces])

    def _status(self) -> str:
        return self._template("status", session=self.live.status(), oob=True)

    def _pieces(self, events: Sequence[Event]) -> list[tuple[int, str]]:
        """Returns the pieces, each with the number up to which the page then is; deltas that follow are one piece."""
        pieces: list[tuple[int, str]] = []
        for entry_id, group in groupby(events, lambda event: event.entry_id if delta_of(event) else None):
            run = list(group)
            if entry_id is not None:
                text = "".join(map(delta_of, run))
                pieces.append((run[-1].n, self._template("delta", target=dom_id("t", entry_id), text=text)))
            else:
                pieces += [(event.n, piece) for event in run if (piece := self._piece(event))]
        if any(isinstance(event, CHANGES_STATUS) for event in events):
            pieces.append((events[-1].n, self._status()))
        return pieces

    def _piece(self, event: Event) -> str:
        match event:
            case MessageStart(message=ToolResultMessage()):
                return ""
            case MessageStart():
                return self._started(event)
            case MessageEnd(message=ToolResultMessage() as result):
                # The call's own row is replaced; its arguments are those of the stored call.
                call = self._call(result)
                return self._template("call", call=call_item(call, result), oob=True)
            case MessageEnd(message=AssistantMessage() as message):
                return self._template("message", item=message_item(event.entry_id or "", message), oob=True)
            case MessageEnd(discarded=True):
                return self._template("discarded", id=dom_id("m", event.entry_id or ""))
            case SessionRenamed():
                return self._template("name", name=event.name, oob=True)
            case _:
                return ""

    def _started(self, event: MessageStart) -> str:
        item = message_item(event.entry_id or "", event.message)
        if item is None:
            return ""
        if isinstance(event.message, AssistantMessage):
            item = replace(item, writing=True)
        return self._template("append", item=item)

    def _call(self, result: ToolResultMessage) -> ToolCall:
        known = self.live.history.call(result.tool_call_id)
        return known or ToolCall(id=result.tool_call_id, name=result.tool_name, arguments={})
