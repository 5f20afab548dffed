"""What the model was sent for each of its answers, by size; pure.

An estimate like the fill of the context. Instructions and tools are those of now, since no session keeps them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.protocol.estimate import estimate_message
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
from app.runs.picture import Snapshot
from app.sessions.context import build_context
from app.sessions.outline import Outline
from app.sessions.preview import preview
from app.sessions.store import Session
from app.sessions.window import Window


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
        return estimate_message(self.message)


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


def sent_of(picture: Snapshot, window: Window, fixed: int, partial_id: str | None = None) -> Mapping[str, Sent]:
    """Returns what was sent for each answer of a window, by its entry, the one that is being written included.

    ``fixed`` are the tokens of instructions and tools.
    """
    outline = picture.session.outline
    found = {
        outline.ids[place]: _request(picture.session, outline.parents[place], fixed)
        for place in window.places
        if outline.kinds[place] == "assistant"
    }
    if partial_id is not None and partial_id not in found:
        found[partial_id] = _request(picture.session, picture.leaf, fixed)
    return found


def _request(session: Session, at: int, fixed: int) -> Sent:
    size = session.outline.context_size(at)
    new = build_context([session.at(place).entry for place in _new(session.outline, at)]).messages
    return Sent(size.messages, size.tokens + fixed, fixed, [Part(message) for message in new])


def _new(outline: Outline, at: int) -> list[int]:
    """What the model had not been sent before: from its last answer on, after a compaction everything."""
    new: list[int] = []
    for place in outline.up(at):
        if outline.kinds[place] == "compaction":
            return outline.in_context(at)
        new.append(place)
        if outline.kinds[place] == "assistant":
            break
    new.reverse()
    return new
