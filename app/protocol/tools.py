"""What a tool is to the loop, and what may be decided about a call before it runs."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from app.protocol.cancel import CancelToken
from app.protocol.messages import TextContent, ToolCall, UserContent
from app.protocol.model import ToolSpec


class ToolError(Exception):
    """A tool's refusal or failure; the text goes to the model as an error result, so it says what would be right."""


class OutcomeUnknown(ToolError):
    """An effect was begun before a crash and the target is neither as before nor as wanted."""


@dataclass(frozen=True)
class ToolResult:
    """What a tool gives back. ``details`` is for people and pages; a model sees ``content`` only."""

    content: list[UserContent]
    details: Any = None
    is_error: bool = False

    @classmethod
    def of_text(cls, text: str, details: Any = None, *, is_error: bool = False) -> "ToolResult":
        return cls([TextContent(text=text)], details, is_error)


@dataclass(frozen=True)
class Park:
    """Returned instead of a result when a person is needed: the run stops until there is a settlement.

    ``data`` is what the person is shown (the question, or the call to approve).
    """

    kind: Literal["interaction", "approval"]
    data: Any


@dataclass(frozen=True)
class Settlement:
    """How a parked call was settled by a person, with what they gave."""

    status: Literal["answered", "skipped", "approved", "denied", "setAside", "cancelled"]
    data: Any = None


@dataclass(frozen=True)
class Effect:
    """A change that a tool is about to make: the target and the hashes of its content before and after."""

    target: str
    before: str
    after: str


@dataclass(frozen=True)
class ToolContext:
    """What a running tool may use.

    ``before_effect`` must be called right before a change. It returns True when the change is to be made and False
    when it was already made by the same call before a crash; it raises OutcomeUnknown when neither can be told.
    ``update`` reports partial output (what is so far, not a delta).
    """

    cancel: CancelToken
    before_effect: Callable[[Effect], bool]
    update: Callable[[str], None]


Execute = Callable[[Any, ToolContext], ToolResult | Park]
Settle = Callable[[Any, Settlement, ToolContext], ToolResult]


@dataclass(frozen=True)
class ToolDefinition:
    """A tool: its parameters are a msgspec struct, which gives validation and the schema that a model sees.

    ``execute`` gets the validated parameters; ``settle`` is called instead of it when the call was parked and a person
    has answered.
    """

    name: str
    description: str
    parameters: type[msgspec.Struct]
    execute: Execute
    settle: Settle | None = None

    def spec(self) -> ToolSpec:
        """Returns the tool as a model sees it."""
        return ToolSpec(name=self.name, description=self.description, parameters=schema_of(self.parameters))


@functools.cache
def schema_of(parameters: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the JSON schema of a parameters struct as one flat object schema (no ``$ref`` at the top)."""
    schema = msgspec.json.schema(parameters)
    definitions = schema.get("$defs", {})
    top = definitions.pop(schema["$ref"].rsplit("/", 1)[-1]) if "$ref" in schema else schema
    top.pop("title", None)
    top.pop("description", None)
    if definitions:
        top["$defs"] = definitions
    return dict(top)


@dataclass(frozen=True)
class Allow:
    """The call may run as it is."""

    rule: str = ""


@dataclass(frozen=True)
class Block:
    """The call must not run; the reason goes to the model."""

    reason: str
    rule: str = ""


@dataclass(frozen=True)
class Rewrite:
    """The call runs with other arguments, which are validated again."""

    args: dict[str, Any]
    reason: str
    rule: str = ""


@dataclass(frozen=True)
class Confirm:
    """A person is asked first. ``args`` are rewritten arguments when an earlier hook rewrote them."""

    prompt: str
    rule: str = ""
    args: dict[str, Any] | None = None


ToolDecision = Allow | Block | Rewrite | Confirm
BeforeToolCall = Callable[[ToolCall], ToolDecision]
