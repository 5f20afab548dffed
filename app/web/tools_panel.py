"""The tools that a model is offered, as a page shows them; pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.agent.guards import RULES, Rule
from app.protocol.tools import ToolDefinition

READERS = frozenset({"list_files", "read_file", "search_files"})
WRITERS = frozenset({"write_note"})
MAX_DEPTH = 4


@dataclass(frozen=True)
class Kind:
    """What a parameter may be.

    ``name`` is string, integer, number, boolean, null, array, object, choice (of ``choices``) or any. ``of`` is the
    kind of an array's items; ``nullable`` says that null will do, too.
    """

    name: str
    choices: Sequence[str] = ()
    of: "Kind | None" = None
    nullable: bool = False


@dataclass(frozen=True)
class Parameter:
    """One parameter; ``default`` is JSON, None when there is none or when it only says that nothing is given."""

    name: str
    kind: Kind
    required: bool
    meaning: str
    default: str | None
    minimum: int | float | None
    maximum: int | float | None


@dataclass(frozen=True)
class ToolItem:
    """A tool. ``rules`` are those of the guards; ``reads`` and ``writes`` say what of the workspace it may touch."""

    id: str
    name: str
    description: str
    parameters: Sequence[Parameter]
    rules: Sequence[Rule]
    reads: bool
    writes: bool
    schema: str


def tools_values(tools: Sequence[ToolDefinition], rules: Sequence[Rule] = RULES) -> dict[str, Any]:
    """Returns what partials/tools.html needs, beside ``prefs`` and ``oob``."""
    return {"tools": [tool_item(tool, rules) for tool in tools]}


def tool_item(tool: ToolDefinition, rules: Sequence[Rule] = RULES) -> ToolItem:
    """Returns the item of one tool."""
    schema = tool.spec().parameters
    required = set(schema.get("required", ()))
    definitions = schema.get("$defs", {})
    return ToolItem(
        id=f"tool-{tool.name}",
        name=tool.name,
        description=tool.description,
        parameters=[
            _parameter(name, _resolved(property_, definitions), name in required, definitions)
            for name, property_ in schema.get("properties", {}).items()
        ],
        rules=[rule for rule in rules if rule.tool == tool.name],
        reads=tool.name in READERS,
        writes=tool.name in WRITERS,
        schema=json.dumps(schema, ensure_ascii=False, indent=2),
    )


def _parameter(name: str, schema: Mapping[str, Any], required: bool, definitions: Mapping[str, Any]) -> Parameter:
    ways = [schema, *(_resolved(way, definitions) for way in schema.get("anyOf", ()))]
    default = schema.get("default")
    return Parameter(
        name=name,
        kind=_kind(schema, definitions),
        required=required,
        meaning=_first(ways, "description") or "",
        default=None if default is None else json.dumps(default, ensure_ascii=False),
        minimum=_first(ways, "minimum"),
        maximum=_first(ways, "maximum"),
    )


def _first(schemas: Sequence[Mapping[str, Any]], key: str) -> Any:
    return next((schema[key] for schema in schemas if key in schema), None)


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema that a reference stands for; what stands beside the reference, such as a default, stays."""
    name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
    return {**definitions[name], **schema} if name in definitions else schema


def _kind(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0) -> Kind:
    schema = _resolved(schema, definitions)
    if depth >= MAX_DEPTH:
        return Kind("any")
    if "enum" in schema:
        return Kind("choice", [str(choice) for choice in schema["enum"]])
    ways = [_kind(way, definitions, depth + 1) for way in schema.get("anyOf", ())]
    some = [way for way in ways if way.name != "null"]
    if len(some) == 1:
        return Kind(some[0].name, some[0].choices, some[0].of, nullable=len(ways) > 1)
    if "items" in schema and isinstance(schema["items"], Mapping):
        return Kind("array", of=_kind(schema["items"], definitions, depth + 1))
    kind = schema.get("type")
    return Kind(kind if isinstance(kind, str) else "any")
