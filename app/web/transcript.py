"""A session's path as things that a page shows; pure."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from app.protocol.codec import encode_line
from app.protocol.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from app.protocol.events import Event, MessageUpdate
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.protocol.model import TextDelta

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

NOTES = {
    "max_turns_exceeded": "The tutor used up its turns for this message. Say how to go on.",
}


def dom_id(prefix: str, name: str) -> str:
    """Returns an element id for an entry or call id, which may be any text."""
    if not _PLAIN_ID.fullmatch(name):
        name = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{prefix}-{name}"


def session_url(session_id: str, *parts: str) -> str:
    """Returns a path below a session's page; for pieces that are rendered outside of a request, in the stream."""
    return "/" + "/".join(quote(part, safe="") for part in ("sessions", session_id, *parts))


@dataclass(frozen=True)
class CallItem:
    """A tool call and, once there is one, its result."""

    id: str
    name: str
    arguments: str
    state: str = "waiting"
    text: str = ""


@dataclass(frozen=True)
class MessageItem:
    """A message with its tool calls. ``note`` says how it ended when that was not well."""

    id: str
    role: str
    text: str
    note: str = ""
    writing: bool = False
    calls: list[CallItem] = field(default_factory=list)


def transcript(path: Sequence[Entry], partial_id: str | None, partial: Sequence[Event]) -> list[MessageItem]:
    """Returns the items of a path, the message that is being written included."""
    results = {
        entry.message.tool_call_id: entry.message
        for entry in path
        if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage)
    }
    items: list[MessageItem] = []
    for entry in path:
        if isinstance(entry, MessageEntry):
            item = message_item(entry.id, entry.message)
            if item is not None:
                items.append(_with_results(item, entry.message, results))
        elif isinstance(entry, CompactionEntry | BranchSummaryEntry):
            items.append(MessageItem(dom_id("m", entry.id), "summary", entry.summary))
    if partial_id is not None:
        text = "".join(delta_of(event) for event in partial)
        items.append(MessageItem(dom_id("m", partial_id), "assistant", text, writing=True))
    return items


def message_item(entry_id: str, message: Message) -> MessageItem | None:
    """Returns the item of one message; None for a tool result, which stands with its call."""
    item_id = dom_id("m", entry_id)
    match message:
        case AssistantMessage():
            calls = [call_item(call) for call in tool_calls_of(message)]
            return MessageItem(item_id, "assistant", text_of(message.content), _note_of(message), calls=calls)
        case UserMessage():
            return MessageItem(item_id, "user", text_of(message.content))
        case ToolResultMessage():
            return None
        case CustomMessage():
            return MessageItem(item_id, "note", text_of(message.content)) if message.display else None
        case BashExecutionMessage():
            return MessageItem(item_id, "note", f"$ {message.command}\n{message.output}")
        case _:
            return MessageItem(item_id, "summary", message.summary)


def _with_results(item: MessageItem, message: Message, results: dict[str, ToolResultMessage]) -> MessageItem:
    if not isinstance(message, AssistantMessage):
        return item
    return replace(item, calls=[call_item(call, results.get(call.id)) for call in tool_calls_of(message)])


def call_item(call: ToolCall, result: ToolResultMessage | None = None) -> CallItem:
    """Returns the item of a call."""
    arguments = encode_line(call.arguments).decode("utf-8")
    if result is None:
        return CallItem(dom_id("c", call.id), call.name, arguments)
    state = "failed" if result.is_error else "done"
    return CallItem(dom_id("c", call.id), call.name, arguments, state, text_of(result.content))


def _note_of(message: AssistantMessage) -> str:
    error = message.error_message or ""
    if message.stop_reason == "aborted":
        return "Stopped here."
    if message.stop_reason == "error":
        return NOTES.get(error) or f"The model failed: {error or 'it gave no reason'}"
    if message.stop_reason == "length":
        return "The model's answer was cut off at its length limit."
    return ""


def delta_of(event: Event) -> str:
    """Returns the text that a message_update adds; empty for every other event."""
    if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta):
        return event.assistant_message_event.delta
    return ""
