"""What an entry says in the tree: its words and who speaks, its tools, how it ended, where the lesson shows it."""

from app.protocol.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.sessions.outline import CUT, FAILED, STOPPED
from app.sessions.preview import preview
from app.web.ids import dom_id

ShownEntry = MessageEntry | CompactionEntry | BranchSummaryEntry

TOOL_NAME = 80
"""Characters of a tool's name."""
MOST_TOOLS = 20
"""Tools of one message that are named."""


def anchor_of(entry: Entry) -> str:
    """Returns the id of the element that shows an entry in the lesson when it is on the path; empty if none does."""
    if isinstance(entry, MessageEntry):
        if isinstance(entry.message, ToolResultMessage):
            return dom_id("c", entry.message.tool_call_id)
        if isinstance(entry.message, CustomMessage) and not entry.message.display:
            return ""
        return dom_id("m", entry.id)
    return dom_id("m", entry.id) if isinstance(entry, ShownEntry) else ""


def words_of(entry: Entry) -> tuple[str, str]:
    """Returns an entry's text and the kind of row that it makes."""
    if isinstance(entry, CompactionEntry | BranchSummaryEntry):
        return entry.summary, "summary"
    if not isinstance(entry, MessageEntry):
        return "", "note"
    match entry.message:
        case UserMessage() as message:
            return text_of(message.content), "user"
        case AssistantMessage() as message:
            text = text_of(message.content)
            return (text if text.strip() else message.error_message or ""), "tutor"
        case ToolResultMessage() as message:
            return text_of(message.content), "tool"
        case BashExecutionMessage() as message:
            return f"$ {message.command}", "note"
        case BranchSummaryMessage() | CompactionSummaryMessage() as message:
            return message.summary, "summary"
        case CustomMessage() as message:
            return text_of(message.content), "note"


def tools_of(entry: Entry) -> tuple[str, ...]:
    """Returns the names of the tools that a message asks for, or of the one whose result it is."""
    if not isinstance(entry, MessageEntry):
        return ()
    if isinstance(entry.message, ToolResultMessage):
        return (preview(entry.message.tool_name, TOOL_NAME),)
    if isinstance(entry.message, AssistantMessage):
        return tuple(preview(call.name, TOOL_NAME) for call in tool_calls_of(entry.message)[:MOST_TOOLS])
    return ()


def mark_of(flags: int) -> str:
    """Returns how a message ended when that was not well."""
    return "failed" if flags & FAILED else "stopped" if flags & STOPPED else "cut" if flags & CUT else ""


def type_of(entry: Entry) -> str:
    """Returns an entry's type as the file has it, of a message with its role."""
    match entry:
        case CompactionEntry():
            return "compaction"
        case BranchSummaryEntry():
            return "branch_summary"
        case MessageEntry():
            return f"message {entry.message.__struct_config__.tag}"
    return str(entry.__struct_config__.tag or "unknown")
