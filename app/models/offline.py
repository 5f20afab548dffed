"""The offline tutor: a model of rules, without key, network or AI, that asks for tools as any model does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.models.pieces import reading_pieces
from app.protocol.cancel import CancelToken
from app.protocol.estimate import estimate_content, estimate_request
from app.protocol.messages import AssistantContent, TextContent, ToolCall, Usage
from app.protocol.model import (
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamStart,
    aborted,
    block_events,
)

if TYPE_CHECKING:
    from app.models.offline_desk import Turn


class OfflineModel:
    """A pure function of the request: no clock, chance or memory; the same request gives the same events."""

    name = "Offline tutor: rules, no AI"
    id = "offline"
    provider = "hornbook"
    api = "rules"
    context_window = 32_000

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        """Yields one response in small deltas; once cancelled it ends with StreamError ``aborted``."""
        content = _summary(request) if request.purpose == "summary" else _answer(request)
        usage = Usage(input=estimate_request(request), output=estimate_content(content))
        yield StreamStart()
        for event in block_events(content, reading_pieces):
            if cancel.cancelled:
                yield aborted(cancel, usage)
                return
            yield event
        asks = any(isinstance(block, ToolCall) for block in content)
        yield StreamDone(reason="toolUse" if asks else "stop", usage=usage)


def _summary(request: ModelRequest) -> list[AssistantContent]:
    from app.models.offline_summary import summarise

    return [TextContent(text=summarise(request))]


def _answer(request: ModelRequest) -> list[AssistantContent]:
    # Its rules are a table of patterns, which take a while to compile: not before the first question.
    from app.models.offline_plan import plan

    turn, taken = plan(request)
    return _content(turn, taken)


def _content(turn: Turn, taken: list[str]) -> list[AssistantContent]:
    """Returns the blocks of a turn; the calls are numbered on from those in the conversation."""
    content: list[AssistantContent] = [TextContent(text=turn.text)] if turn.text else []
    used = set(taken)
    number = len(taken)
    for wanted in turn.calls:
        number += 1
        while f"offline-{number}" in used:
            number += 1
        content.append(ToolCall(id=f"offline-{number}", name=wanted.name, arguments=wanted.arguments))
    return content
