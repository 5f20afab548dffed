"""What the model was sent for each of its answers, by size; pure.

An estimate like the fill of the context: one token for four characters. Instructions and tools are those of now, since
no session keeps them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.protocol.entries import CompactionEntry, Entry, MessageEntry
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.sessions.context import build_context
from app.sessions.preview import preview
from app.web.context_fill import CHARACTERS_A_TOKEN, characters_of


@dataclass(frozen=True)
class Part:
    """A message in a request."""

    message: Message

    @property
    def kind(self) -> str:
        """Whose it is: user, tutor, tool, summary or note."""
        match self.message:
            case UserMessage():
                return "user"
            case AssistantMessage():
                return "tutor"
            case ToolResultMessage():
                return "tool"
            case CustomMessage() | BashExecutionMessage():
                return "note"
            case _:
                return "summary"

    @property
    def text(self) -> str:
        """How it begins, on one line; for a message of calls alone, which tools it calls."""
        match self.message:
            case BashExecutionMessage():
                return preview(self.message.command)
            case AssistantMessage():
                calls = " ".join(call.name for call in tool_calls_of(self.message))
                return preview(text_of(self.message.content)) or calls
            case UserMessage() | ToolResultMessage() | CustomMessage():
                return preview(text_of(self.message.content))
            case _:
                return preview(self.message.summary)

    @property
    def tokens(self) -> int:
        """Its size, estimated."""
        return tokens_of(characters_of(self.message))


@dataclass(frozen=True)
class Sent:
    """One request: its messages and ``tokens`` in all, ``fixed`` for instructions and tools among them.

    ``new`` are the messages that the request before had not.
    """

    messages: int
    tokens: int
    fixed: int
    new: Sequence[Part]

    @property
    def earlier(self) -> int:
        """How many messages were sent before already."""
        return self.messages - len(self.new)


def sent_of(path: Sequence[Entry], fixed_characters: int, partial_id: str | None = None) -> Mapping[str, Sent]:
    """Returns what was sent for each answer on a path, by its entry, the one that is being written included."""
    found: dict[str, Sent] = {}
    count = characters = 0
    new: list[Part] = []

    def request() -> Sent:
        return Sent(count, tokens_of(characters + fixed_characters), tokens_of(fixed_characters), tuple(new))

    for index, entry in enumerate(path):
        if isinstance(entry, CompactionEntry):
            messages = build_context(path[: index + 1]).messages
            count, characters, new = 0, 0, []
        else:
            messages = build_context([entry]).messages
        for message in messages:
            if isinstance(message, AssistantMessage) and isinstance(entry, MessageEntry):
                found[entry.id] = request()
                new = []
            count, characters = count + 1, characters + characters_of(message)
            new.append(Part(message))
    if partial_id is not None and partial_id not in found:
        found[partial_id] = request()
    return found


def tokens_of(characters: int) -> int:
    """Returns how many tokens so many characters are, about."""
    return -(-characters // CHARACTERS_A_TOKEN)
