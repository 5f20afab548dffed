"""The HTML of what the model writes, made once for all readers, by the worker and outside of every lock."""

import logging
from collections.abc import Callable

from app.protocol.events import LoopEvent, MessageEnd, MessageStart, MessageUpdate
from app.protocol.messages import AssistantMessage, text_of
from app.protocol.model import TextDelta, ThinkingStart, ToolCallStart
from app.render.markdown import Rendered
from app.render.streaming import Piece, StreamRenderer
from app.render.text import clean, escape
from app.runs.buffer import NOTHING_SHOWN, Shown

LOGGER = logging.getLogger("hornbook.runs")

Render = Callable[[str], Rendered]


class MessageRenderer:
    """Renders the messages of one run, one after another, from the events of the loop. Never raises."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._stream = StreamRenderer(render)
        self._other: set[int] = set()
        self._index: int | None = None

    def shown(self, event: LoopEvent) -> Shown:
        """Returns what readers are shown of the next event: a piece for a text delta, the whole at a message's end.

        The pieces of a message with several text blocks read as ``text_of`` joins these.
        """
        match event:
            case MessageUpdate(assistant_message_event=TextDelta() as delta):
                return Shown(piece=self._piece(delta))
            case MessageUpdate(assistant_message_event=ThinkingStart() | ToolCallStart() as other):
                self._other.add(other.content_index)
            case MessageStart(message=AssistantMessage()):
                self._stream = StreamRenderer(self._render)
                self._other.clear()
                self._index = None
            case MessageEnd(message=AssistantMessage() as message):
                return Shown(rendered=self._whole(text_of(message.content)))
            case _:
                pass
        return NOTHING_SHOWN

    def _piece(self, delta: TextDelta) -> Piece | None:
        if delta.content_index in self._other or not delta.delta:
            return None
        new_block = self._index not in (None, delta.content_index)
        self._index = delta.content_index
        text = "\n" + delta.delta if new_block else delta.delta
        try:
            return self._stream.feed(text)
        except Exception:
            LOGGER.exception("a piece of an answer could not be rendered and is shown as plain text")
            return Piece(blocks="", tail=escape(clean(text)), fresh=False)

    def _whole(self, text: str) -> Rendered | None:
        if not text:
            return None
        try:
            return self._render(text)
        except Exception:
            LOGGER.exception("an answer could not be rendered while its run worked")
            return None
