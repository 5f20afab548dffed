"""JSON as one line of bytes, and back.

msgspec is strict UTF-8: it refuses lone surrogates, which occur in real session files and in model output. The json
module is the fallback in both directions, so that such a line is neither lost nor fatal.
"""

import functools
import json
import re
from collections.abc import Hashable
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def encode_line(value: Any) -> bytes:
    """Returns ``value`` (struct, dict, list...) as JSON bytes without a newline; lone surrogates become escapes."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        return json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Kept, since making one takes longer than decoding a line with it."""
    return msgspec.json.Decoder(kind)


def decode_as(data: bytes, kind: type[T]) -> T:
    """Returns ``data`` decoded as ``kind`` (a struct or a union of structs).

    Lone surrogates are replaced by U+FFFD in the returned view. Raises msgspec.ValidationError with the path of what
    does not fit, or ValueError when it is not JSON.
    """
    try:
        return cast(T, _decoder(cast(Hashable, kind)).decode(data))
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.convert(clean(json.loads(data)), kind)


def clean_text(text: str) -> str:
    """Returns ``text`` with lone surrogates replaced by U+FFFD, so that it can be encoded as UTF-8 everywhere."""
    return text if text.isascii() else _LONE_SURROGATE.sub("�", text)


def clean(value: Any) -> Any:
    """Returns plain JSON values with ``clean_text`` applied to every string, keys included."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(key)): clean(item) for key, item in value.items()}
    return value
