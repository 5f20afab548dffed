"""Messages and content blocks as Pi's session format v3 names them.

All structs are frozen values; JSON field names are camelCase. Fields that a file may lack have defaults, so that
reading an old file never fails for want of a field.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]


class Block(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"):
    """Base of the content blocks; ``type`` is the tag in JSON."""


class TextContent(Block, tag="text", frozen=True, kw_only=True):
    """Text of a message; ``textSignature`` is opaque metadata of a provider."""

    text: str
    text_signature: str | None = None


class ThinkingContent(Block, tag="thinking", frozen=True, kw_only=True):
    """Reasoning text; when ``redacted``, the signature holds an encrypted payload."""

    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False


class ImageContent(Block, tag="image", frozen=True, kw_only=True):
    """An image: base64 ``data`` without a ``data:`` prefix."""

    data: str
    mime_type: str


class ToolCall(Block, tag="toolCall", frozen=True, kw_only=True):
    """A call that the model asks for; ``arguments`` is the JSON object as the model sent it."""

    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | None = None


AssistantContent = TextContent | ThinkingContent | ToolCall | ImageContent
UserContent = TextContent | ImageContent


class Cost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Money in US dollars for each kind of token."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Token counts of one model response. ``input`` excludes cached tokens; ``totalTokens`` is summed when absent."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int | None = None
    cost: Cost = Cost()

    def __post_init__(self) -> None:
        if self.total_tokens is None:
            total = self.input + self.output + self.cache_read + self.cache_write
            msgspec.structs.force_setattr(self, "total_tokens", total)


class MessageBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="role"):
    """Base of the messages; ``role`` is the tag in JSON."""


class UserMessage(MessageBase, tag="user", frozen=True, kw_only=True):
    """What a person said. ``timestamp`` in Unix milliseconds, as in every message."""

    content: str | list[UserContent]
    timestamp: int | float = 0


class AssistantMessage(MessageBase, tag="assistant", frozen=True, kw_only=True):
    """What the model said and which tools it asks for; ``stopReason`` says how it ended."""

    content: str | list[AssistantContent]
    api: str | None = None
    provider: str | None = None
    model: str | None = None
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    error_message: str | None = None
    timestamp: int | float = 0


class ToolResultMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="role", tag="toolResult"):
    """The one result of a tool call; ``details`` is for people and pages and is never sent to a model."""

    tool_call_id: str
    tool_name: str = ""
    content: str | list[UserContent]
    details: Any | UnsetType = UNSET
    is_error: bool = False
    timestamp: int | float = 0


class BashExecutionMessage(MessageBase, tag="bashExecution", frozen=True, kw_only=True):
    """A shell command that a person ran in Pi; read, never written by us."""

    command: str
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    exclude_from_context: bool = False
    timestamp: int | float = 0


class CustomMessage(MessageBase, tag="custom", frozen=True, kw_only=True):
    """A message of an extension: goes to the model as a user message, is shown when ``display``."""

    custom_type: str
    content: str | list[UserContent]
    display: bool = True
    details: Any = None
    timestamp: int | float = 0


class BranchSummaryMessage(MessageBase, tag="branchSummary", frozen=True, kw_only=True):
    """Summary of a branch that was left; made while building a context, never stored as a message."""

    summary: str
    from_id: str = ""
    timestamp: int | float = 0


class CompactionSummaryMessage(MessageBase, tag="compactionSummary", frozen=True, kw_only=True):
    """Summary of what a compaction replaced; made while building a context, never stored as a message."""

    summary: str
    tokens_before: int = 0
    timestamp: int | float = 0


Message = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
)


def text_of(content: "str | Sequence[AssistantContent]") -> str:
    """Returns the text blocks of a content, joined by newlines; thinking, images and calls are left out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def tool_calls_of(message: AssistantMessage) -> list[ToolCall]:
    """Returns the tool calls of an assistant message in source order."""
    if isinstance(message.content, str):
        return []
    return [block for block in message.content if isinstance(block, ToolCall)]


def unanswered_calls(messages: Sequence[Message]) -> tuple[AssistantMessage | None, list[ToolCall]]:
    """Returns the last assistant message and its calls without a result, if only results and custom messages follow.

    Input: messages in order of the conversation. Output: (None, []) when the last assistant message is followed by
    anything else, since its calls can then no longer be answered in place.
    """
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            return message, [call for call in tool_calls_of(message) if call.id not in answered]
        elif not isinstance(message, CustomMessage):
            break
    return None, []
