"""How full the model's context is, by an estimate that needs no tokeniser; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.protocol.codec import encode_line
from app.protocol.entries import Entry
from app.protocol.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from app.sessions.context import build_context

CHARACTERS_A_TOKEN = 4
RULER = 100.0
"""Width of the ruler's fill when the window is full."""


@dataclass(frozen=True)
class Fill:
    """How full the context is: estimated tokens, the window (None unknown) and the ruler's fill, of ``RULER``."""

    tokens: int
    window: int | None
    width: float


def fill(path: Sequence[Entry], window: int | None) -> Fill | None:
    """Returns how much of the model's window the messages at the end of a path fill; None when there are none.

    An estimate: one token for ``CHARACTERS_A_TOKEN`` characters, images, prompt and tools not counted.
    """
    tokens = sum(characters_of(message) for message in build_context(path).messages) // CHARACTERS_A_TOKEN
    if not tokens:
        return None
    known = window if window and window > 0 else None
    return Fill(tokens, known, round(min(tokens / known, 1.0) * RULER, 2) if known else 0.0)


def characters_of(message: Message) -> int:
    """Returns how many characters of a message go to the model; images count as none."""
    match message:
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return len(message.summary)
        case BashExecutionMessage():
            return 0 if message.exclude_from_context else len(message.command) + len(message.output)
        case _:
            if isinstance(message.content, str):
                return len(message.content)
            return sum(_block_characters(block) for block in message.content)


def _block_characters(block: object) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case ThinkingContent():
            return len(block.thinking)
        case ToolCall():
            return len(block.name) + len(encode_line(block.arguments))
        case _:
            return 0
