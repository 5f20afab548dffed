"""Events as pieces of HTML that htmx swaps into an open page.

Every piece has a stable id, so that a piece sent twice replaces itself; appended text is safe because a reader's
cursor is the ``n`` up to which its page was rendered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
)
from app.protocol.messages import AssistantMessage, ToolCall, ToolResultMessage
from app.runs.buffer import Record
from app.runs.live import LiveSession, Snapshot
from app.web import sse
from app.web.transcript import call_item, delta_of, dom_id, message_item, transcript

CHANGES_STATUS = (AgentStart, RunDone, QueueChanged, SessionRenamed, SessionDeleted, LeafMoved, ToolExecutionStart)


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
        return self._deleted or self.live.log.buffer.closed

    def render(self, records: list[Record]) -> bytes:
        """Returns one SSE message with all pieces for ``records``; its id is the cursor to go on from."""
        records = [record for record in records if record.n > self.n]
        if not records:
            return b""
        if any(isinstance(record.event, LeafMoved) for record in records):
            picture = self.live.snapshot()
            self.n = picture.n
            pieces = self._whole(picture)
        else:
            self.n = records[-1].n
            pieces = self._pieces([record.event for record in records])
        message = sse.frame("".join(pieces).encode(), event_id=self.n)
        if any(isinstance(record.event, SessionDeleted) for record in records):
            self._deleted = True
            message += sse.frame(b"end", event="close")
        return message

    def _template(self, name: str, **values: Any) -> Markup:
        return Markup(self.environment.get_template(f"partials/{name}.html").render(**values))

    def _whole(self, picture: Snapshot) -> list[str]:
        items = transcript(picture.path, picture.partial_id, picture.partial)
        return [self._template("transcript", items=items, oob=True), self._status()]

    def _status(self) -> str:
        return self._template("status", session=self.live.snapshot(), oob=True)

    def _pieces(self, events: Sequence[Event]) -> list[str]:
        pieces: list[str] = []
        deltas: dict[str, str] = {}

        def flush() -> None:
            for entry_id, text in deltas.items():
                pieces.append(self._template("delta", target=dom_id("t", entry_id), text=text))
            deltas.clear()

        for event in events:
            text = delta_of(event)
            if text:
                entry_id = event.entry_id or ""
                deltas[entry_id] = deltas.get(entry_id, "") + text
                continue
            flush()
            piece = self._piece(event)
            if piece:
                pieces.append(piece)
        flush()
        if any(isinstance(event, CHANGES_STATUS) for event in events):
            pieces.append(self._status())
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
        for stored in reversed(list(self.live.session.entries)):
            message = getattr(stored.entry, "message", None)
            if isinstance(message, AssistantMessage):
                content = message.content if isinstance(message.content, list) else []
                for block in content:
                    if isinstance(block, ToolCall) and block.id == result.tool_call_id:
                        return block
        return ToolCall(id=result.tool_call_id, name=result.tool_name, arguments={})
