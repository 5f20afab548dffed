"""Checks the arguments of a tool call against the tool's parameters, naming everything that is wrong at once.

msgspec stops at the first error, and a model that is told of one error at a time needs a turn for each of
them.
"""

import json
import types
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from app.protocol.codec import clean
from app.protocol.tools import ToolError

S = TypeVar("S", bound=msgspec.Struct)

MAX_ECHO = 4000
"""Characters of the received arguments that an error repeats; the model has the whole call anyway."""

_MISSING = object()


def validate(arguments: object, parameters: type[S]) -> S:
    """Returns ``arguments`` (a JSON object as decoded) as an instance of ``parameters``.

    Harmless differences are mended: ``"5"`` for a number, ``"true"`` or 1 for a boolean, null for an optional
    property (then its default holds). Unknown properties are ignored. Raises ToolError that names the path of
    every value that is wrong, says what was expected there, and repeats the received arguments as JSON.
    """
    problems: list[str] = []
    try:
        fitted = _fit(arguments, parameters, "", problems)
        if not problems:
            return msgspec.convert(fitted, parameters, strict=False)
    except msgspec.ValidationError as error:
        problems.append(f"- {error}")
    except RecursionError:
        problems.append("- the arguments are nested too deeply")
    listed = "\n".join(problems)
    raise ToolError(f"The arguments do not fit the tool:\n{listed}\nReceived: {_echo(arguments)}")


def _fit(value: Any, kind: Any, path: str, problems: list[str]) -> Any:
    """Returns ``value`` without the nulls of optional properties; adds what is wrong to ``problems``."""
    inner, metas = _plain_kind(kind, value)
    if _is_object_struct(inner) and isinstance(value, dict):
        return _fit_struct(value, inner, path, problems)
    if get_origin(inner) is list and isinstance(value, list):
        _convert([None] * len(value), _annotated(list[Any], metas), path, problems)
        (item_kind,) = get_args(inner)
        return [_fit(item, item_kind, f"{path}[{index}]", problems) for index, item in enumerate(value)]
    if get_origin(inner) is dict and isinstance(value, dict):
        _convert(value, _annotated(dict[str, Any], metas), path, problems)
        _, item_kind = get_args(inner)
        return {key: _fit(item, item_kind, _join(path, key), problems) for key, item in value.items()}
    _convert(value, kind, path, problems)
    return value


def _fit_struct(value: dict[Any, Any], kind: type[msgspec.Struct], path: str, problems: list[str]) -> dict[Any, Any]:
    known = {field.encode_name: field for field in fields(kind)}
    fitted = {key: item for key, item in value.items() if key not in known}
    for name, field in known.items():
        item = value.get(name, _MISSING)
        where = _join(path, name)
        if item is _MISSING:
            if field.required:
                problems.append(f"- {where}: missing, expected {_expected(field)}")
        elif item is not None or field.required or _takes_null(field.type):
            fitted[name] = _fit(item, field.type, where, problems)
    return fitted


def _plain_kind(kind: Any, value: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the type under Annotated, or the union member that ``value`` is meant for, and annotations."""
    metas: tuple[Any, ...] = ()
    while True:
        if get_origin(kind) is Annotated:
            kind, *extra = get_args(kind)
            metas += tuple(extra)
            continue
        member = _member(kind, value) if get_origin(kind) in (Union, types.UnionType) else None
        if member is None:
            return kind, metas
        kind = member


def _member(union: Any, value: Any) -> Any:
    """Returns the one member beside null, or the struct whose tag ``value`` carries, or None."""
    members = [member for member in get_args(union) if member is not type(None)]
    if len(members) == 1:
        return members[0]
    for member in members:
        if isinstance(value, dict) and _is_object_struct(member):
            config = member.__struct_config__
            if config.tag_field is not None and value.get(config.tag_field) == config.tag:
                return member
    return None


def _is_object_struct(kind: Any) -> bool:
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return is_struct and not kind.__struct_config__.array_like


def _takes_null(kind: Any) -> bool:
    try:
        msgspec.convert(None, kind)
    except msgspec.ValidationError:
        return False
    return True


def _annotated(kind: Any, metas: Iterable[Any]) -> Any:
    for meta in metas:
        kind = Annotated[kind, meta]
    return kind


def _convert(value: Any, kind: Any, path: str, problems: list[str]) -> None:
    try:
        msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        text, _, inner = str(error).partition(" - at `$")
        where = path + inner.rstrip("`")
        problems.append(f"- {where or 'arguments'}: {text[:1].lower()}{text[1:]}")


def _expected(field: FieldInfo) -> str:
    """Returns the field's type and description in the words of its JSON schema."""
    schema = msgspec.json.schema(field.type)
    kind = str(schema.get("type", "object"))
    text = schema.get("description")
    return f"{kind} ({text})" if text else kind


def _join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def _echo(arguments: object) -> str:
    try:
        text = json.dumps(clean(arguments), ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        text = "(cannot be shown as JSON)"
    if len(text) <= MAX_ECHO:
        return text
    return f"{text[:MAX_ECHO]}... ({len(text)} characters in all)"
