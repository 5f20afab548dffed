"""A session, or one branch of it, as a file to keep: JSON lines, or Markdown to read. Pure, line by line."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.protocol.codec import clean_text, encode_line
from app.protocol.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    UnknownEntry,
)
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from app.sessions.lines import StoredEntry
from app.sessions.preview import preview
from app.sessions.rewriting import line_of, object_of_line
from app.sessions.times import iso_to_ms, ms_to_iso, usable_ms

LEFT_OUT = "[left out]"
_KEPT_OF_OUTPUT = {
    "toolResult": ("role", "toolCallId", "toolName", "isError", "timestamp"),
    "bashExecution": ("role", "command", "exitCode", "cancelled", "truncated", "excludeFromContext", "timestamp"),
}
"""Fields that stay where output is left out; any other may hold some of it."""
_THOUGHTS = ("thinking", "redacted_thinking")
_LINE_END = re.compile(r"\r\n|\r|\n")


def jsonl(header_raw: bytes, entries: Iterable[StoredEntry], *, slim: bool) -> Iterator[bytes]:
    """Yields the lines of a session file, each with its end: byte for byte as they are stored.

    With ``slim`` the output of tools and what the model thought are left out; such lines are written anew.
    """
    yield header_raw + b"\n"
    for stored in entries:
        yield (slim_line(stored) if slim else stored.raw) + b"\n"


def slim_line(stored: StoredEntry) -> bytes:
    """Returns the line of an entry without the output of tools and without thinking; as it is if it has neither.

    A message that does not fit the vocabulary is read as it stands, so that nothing of it slips through.
    """
    entry = stored.entry
    if isinstance(entry, MessageEntry):
        if not _has_output(entry.message):
            return stored.raw
    elif not (isinstance(entry, UnknownEntry) and entry.type == "message"):
        return stored.raw
    value = object_of_line(stored.raw)
    message = value.get("message")
    if message is None:
        return stored.raw
    slim = _slim_message(message) if isinstance(message, dict) else LEFT_OUT
    return stored.raw if slim == message else line_of({**value, "message": slim})


def _has_output(message: Message) -> bool:
    match message:
        case ToolResultMessage() | BashExecutionMessage():
            return True
        case AssistantMessage(content=list() as blocks):
            return any(isinstance(block, ThinkingContent) for block in blocks)
    return False


def _slim_message(message: dict[str, Any]) -> dict[str, Any]:
    role, content = message.get("role"), message.get("content")
    fields = _KEPT_OF_OUTPUT.get(role) if isinstance(role, str) else None
    if fields is not None:
        kept = {key: item for key, item in message.items() if key in fields}
        left = {"output": LEFT_OUT} if role == "bashExecution" else {"content": [{"type": "text", "text": LEFT_OUT}]}
        return {**kept, **left}
    if isinstance(content, list):
        return {**message, "content": [block for block in content if not _is_thought(block)]}
    return message


def _is_thought(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _THOUGHTS


def markdown(title: str, parts: Iterable[tuple[str, Iterable[tuple[Entry, str]]]], *, slim: bool) -> Iterator[str]:
    """Yields Markdown of a session in pieces.

    ``parts`` are its branches, each with a line that says where it begins ("" for none), and entries with their
    labels. ``slim`` leaves out what tools gave.
    """
    yield f"# {clean_text(title)}\n"
    for heading, entries in parts:
        if heading:
            yield f"\n---\n\n*{_escaped(heading)}*\n"
        for entry, label in entries:
            body = "\n\n".join(filter(None, _body(entry, slim=slim)))
            if body:
                yield f"\n{_head(entry, label)}\n\n{clean_text(body)}\n"


def _head(entry: Entry, label: str) -> str:
    stated = usable_ms(entry.message.timestamp) if isinstance(entry, MessageEntry) else None
    moment = stated or usable_ms(iso_to_ms(entry.timestamp))
    time = f" · {ms_to_iso(moment)[:16].replace('T', ' ')}" if moment else ""
    return f"## {_speaker(entry)}{time}{f' · {_escaped(label)}' if label else ''}"


def _speaker(entry: Entry) -> str:
    match entry:
        case CompactionEntry():
            return "Summary of older parts"
        case BranchSummaryEntry():
            return "Summary of another branch"
        case MessageEntry(message=UserMessage()):
            return "Person"
        case MessageEntry(message=AssistantMessage()):
            return "Tutor"
        case MessageEntry(message=ToolResultMessage(tool_name=name)):
            return f"Result of {_escaped(name) or 'a tool'}"
        case MessageEntry(message=BashExecutionMessage()):
            return "Shell"
    return "Note"


def _body(entry: Entry, *, slim: bool) -> Sequence[str]:
    match entry:
        case CompactionEntry() | BranchSummaryEntry():
            return [_quoted(entry.summary)]
        case CustomMessageEntry(display=True):
            return [text_of(entry.content)]
        case MessageEntry():
            return _said(entry.message, slim=slim)
    return []


def _said(message: Message, *, slim: bool) -> Sequence[str]:
    match message:
        case UserMessage():
            return [text_of(message.content)]
        case AssistantMessage():
            return _of_tutor(message)
        case ToolResultMessage():
            return [] if slim else [_fenced(text_of(message.content))]
        case BashExecutionMessage():
            return [_fenced(f"$ {message.command}" + ("" if slim else f"\n{message.output}"))]
        case CustomMessage():
            return [text_of(message.content)] if message.display else []
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return [_quoted(message.summary)]


def _of_tutor(message: AssistantMessage) -> list[str]:
    blocks = [TextContent(text=message.content)] if isinstance(message.content, str) else message.content
    said = []
    for block in blocks:
        if isinstance(block, TextContent):
            said.append(block.text)
        elif isinstance(block, ToolCall):
            said.append(f"*asks for {_escaped(block.name)}:* {_code(encode_line(block.arguments).decode())}")
    if message.stop_reason in ("error", "aborted"):
        said.append(f"*({_escaped(message.error_message or 'stopped')})*")
    return said


def _fenced(text: str) -> str:
    """A block of code that its text cannot end: the fence is longer than any in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def _code(text: str) -> str:
    longest = _longest_run(text)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in _LINE_END.split(text))


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]#])", r"\\\1", preview(clean_text(text), 200))
