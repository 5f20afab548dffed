"""About how many tokens a text, a message or a request is, by a rule that needs no tokeniser."""

import re
from collections.abc import Sequence

from app.protocol.codec import encode_line
from app.protocol.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    ImageContent,
    Message,
    ThinkingContent,
    ToolCall,
)
from app.protocol.model import ModelRequest

HAN = r"[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
CHARACTERS_A_TOKEN = 4
TOKENS_AN_IMAGE = 1200
"""What an image is taken for, as in Pi; no model here looks at one."""

_HAN = re.compile(HAN)


def estimate_tokens(text: str) -> int:
    """Returns about how many tokens ``text`` is: one for a Chinese character, one for four others."""
    han = 0 if text.isascii() else len(_HAN.findall(text))
    return han + -(-(len(text) - han) // CHARACTERS_A_TOKEN)


def estimate_request(request: ModelRequest) -> int:
    """Returns about how many tokens a model would be given."""
    return estimate_fixed(request) + sum(map(estimate_message, request.messages))


def estimate_fixed(request: ModelRequest) -> int:
    """Returns about how many tokens of a request are instructions and tools."""
    tools = sum(estimate_tokens(encode_line(tool).decode()) for tool in request.tools)
    return estimate_tokens(request.system_prompt) + tools


def estimate_message(message: Message) -> int:
    """Returns about how many tokens of a message go to the model."""
    match message:
        case BashExecutionMessage():
            if message.exclude_from_context:
                return 0
            return estimate_tokens(message.command) + estimate_tokens(message.output)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return estimate_tokens(message.summary)
        case _:
            return estimate_content(message.content)


def estimate_content(content: str | Sequence[object]) -> int:
    """Returns about how many tokens the content of a message is: text, reasoning, calls and images."""
    if isinstance(content, str):
        return estimate_tokens(content)
    return sum(map(_block_tokens, content))


def _block_tokens(block: object) -> int:
    match block:
        case ToolCall():
            return estimate_tokens(block.name) + estimate_tokens(encode_line(block.arguments).decode())
        case ThinkingContent():
            return estimate_tokens(block.thinking)
        case ImageContent():
            return TOKENS_AN_IMAGE
        case _:
            return estimate_tokens(getattr(block, "text", ""))
