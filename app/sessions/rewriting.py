"""A line of a session file written anew: its object with every field, also those that we do not know. Pure."""

import json
from typing import Any

import msgspec

from app.protocol.codec import encode_line


def object_of_line(raw: bytes) -> dict[str, Any]:
    """Returns the object of an entry's or header's line; bytes that are not UTF-8 become U+FFFD."""
    try:
        value: dict[str, Any] = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # lone surrogates, or bytes that are not UTF-8
        value = json.loads(raw.decode(errors="replace"))
    return value


def line_of(value: dict[str, Any]) -> bytes:
    """Returns the line of an object, without its end. Numbers that JSON cannot write become null."""
    try:
        return encode_line(value)
    except ValueError:  # they stand beside a lone surrogate; alone the encoder writes null by itself
        return encode_line(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and value - value != 0 else value
