"""What a request tells the offline tutor: what is asked, what its tools have returned, what came before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.protocol.codec import clean_text
from app.protocol.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)


@dataclass(frozen=True)
class Step:
    """A tool call that has its result."""

    name: str
    arguments: dict[str, Any]
    text: str
    is_error: bool


@dataclass
class Asked:
    """One wish of a person with what has been done about it.

    ``tool_turns`` counts the responses that asked for tools; ``finished`` says whether it got an answer.
    """

    text: str
    steps: list[Step] = field(default_factory=list)
    tool_turns: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Situation:
    """``now`` is the last wish, ``before`` the earlier ones on this branch, oldest first."""

    now: Asked
    before: list[Asked]
    call_ids: list[str]

    @property
    def history(self) -> list[Step]:
        """The steps of all earlier wishes, oldest first."""
        return [step for asked in self.before for step in asked.steps]


def situation_of(messages: Sequence[Message]) -> Situation:
    """Returns the situation at the end of ``messages``; without any wish, ``now`` has an empty text."""
    asks = [Asked("")]
    calls: dict[str, ToolCall] = {}
    ids: list[str] = []
    for message in messages:
        match message:
            case UserMessage():
                asks.append(Asked(_plain(message.content)))
            case CustomMessage() if asks[-1].finished:
                # Between a call and its result it is only a remark; after an answer it asks for a new one.
                asks.append(Asked(_plain(message.content)))
            case AssistantMessage():
                made = tool_calls_of(message)
                calls.update((call.id, call) for call in made)
                ids.extend(call.id for call in made)
                asks[-1].tool_turns += bool(made)
                asks[-1].finished = not made and message.stop_reason not in ("aborted", "error")
            case ToolResultMessage():
                asks[-1].steps.append(_step(message, calls.get(message.tool_call_id)))
            case _:
                pass
    return Situation(asks[-1], asks[:-1], ids)


def _step(result: ToolResultMessage, call: ToolCall | None) -> Step:
    name, arguments = (call.name, call.arguments) if call else (result.tool_name, {})
    return Step(name, arguments, _plain(result.content), result.is_error)


def _plain(content: Any) -> str:
    return clean_text(text_of(content)).replace("\r\n", "\n").replace("\r", "\n")
