"""What several test modules need: small models, tools and traces."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.protocol.cancel import CancelToken
from app.protocol.codec import encode_line
from app.protocol.entries import Entry
from app.protocol.events import Event, MessageEnd, MessageStart, MessageUpdate, ToolDecisionMade
from app.protocol.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, text_of
from app.protocol.model import ModelEvent, ModelRequest, events_of_message
from app.protocol.tools import ToolContext, ToolDefinition, ToolResult
from app.sessions.lines import StoredEntry
from app.sessions.outline import outline_of

Turn = AssistantMessage | Exception | Callable[[ModelRequest, CancelToken], Iterable[ModelEvent]]

SILENT = {"text": "one two", "fault": {"kind": "hang", "afterDeltas": 1}}
"""A scripted turn whose model falls silent after its first words."""


def say(text: str) -> AssistantMessage:
    """A turn that only speaks."""
    return AssistantMessage(content=[TextContent(text=text)], stop_reason="stop")


def call(*calls: tuple[str, str, dict[str, Any]], text: str = "") -> AssistantMessage:
    """A turn that asks for tools: (id, name, arguments) each."""
    blocks: list[Any] = [TextContent(text=text)] if text else []
    blocks += [ToolCall(id=call_id, name=name, arguments=arguments) for call_id, name, arguments in calls]
    return AssistantMessage(content=blocks, stop_reason="toolUse")


class FakeModel:
    """Plays turns in order and remembers what it was asked."""

    name = "Fake"
    id = "fake-1"
    provider = "tests"
    api = "fake"
    context_window = 32_000

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        self.requests.append(request)
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        yield from events_of_message(turn) if isinstance(turn, AssistantMessage) else turn(request, cancel)


class EchoParameters(msgspec.Struct):
    x: int = 0


def tool(name: str, execute: Callable[[Any, ToolContext], Any] | None = None, **more: Any) -> ToolDefinition:
    """A tool with one integer parameter ``x``; answers "<name> ok" unless told otherwise."""
    run = execute or (lambda parameters, context: ToolResult.of_text(f"{name} ok"))
    return ToolDefinition(name, f"Tool {name}.", EchoParameters, run, **more)


def trace(events: Iterable[Event]) -> list[str]:
    """Events as short words, as in: turn_start, upd:text_delta, message_end:assistant[stop]."""
    return [_word(event) for event in events]


def _word(event: Event) -> str:
    kind = str(event.__struct_config__.tag)
    match event:
        case MessageUpdate():
            return f"upd:{event.assistant_message_event.__struct_config__.tag}"
        case MessageStart(message=ToolResultMessage() as result):
            return f"message_start:toolResult#{result.tool_call_id}"
        case MessageEnd(message=ToolResultMessage() as result):
            mark = "!" if result.is_error else ""
            return f"message_end:toolResult#{result.tool_call_id}[{text_of(result.content)}{mark}]"
        case MessageEnd(message=AssistantMessage() as message):
            return f"message_end:assistant[{message.stop_reason}]"
        case MessageStart() | MessageEnd():
            return f"{kind}:{event.message.__struct_config__.tag}" if event.message else f"{kind}:discarded"
        case ToolDecisionMade():
            return f"tool_decision#{event.tool_call_id}:{event.decision}"
    if hasattr(event, "tool_call_id"):
        return f"{kind}#{event.tool_call_id}"
    return f"{kind}({len(event.tool_results)})" if kind == "turn_end" else kind


def swap_for_link(place: Path, target: Path) -> None:
    """What an attacker does between check and use: a link stands in this place."""
    os.replace(place, place.with_name(place.name + ".gone"))  # not rename, which a test patches
    place.symlink_to(target)


class Read:
    """A session that is read from memory: what pages ask of one, with the entries as given."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.outline = outline_of(entries)
        self._stored = [StoredEntry(entry, encode_line(entry)) for entry in entries]

    @property
    def session(self) -> "Read":
        return self

    @property
    def leaf(self) -> int:
        return self.outline.leaf

    def at(self, place: int) -> StoredEntry:
        return self._stored[place]

    def line(self, place: int) -> bytes:
        return self._stored[place].raw
