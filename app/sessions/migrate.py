"""Older lines made into lines of format version 3: plain JSON objects in, plain JSON objects out."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from app.protocol.entries import FORMAT_VERSION
from app.sessions.times import ms_to_iso, usable_ms

JsonObject = dict[str, Any]


def id_in(value: Any) -> str | None:
    """Returns a value as an entry id: a non-empty string, or a whole number as text; else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def derived_id(line_number: int, raw: bytes, used: set[str]) -> str:
    """Returns an id for a line that has none, the same at each load, and not in ``used``."""
    digest = hashlib.sha256(b"%d\n%b" % (line_number, raw)).hexdigest()
    return next((digest[:n] for n in range(8, len(digest)) if digest[:n] not in used), digest)


def version_in(header: Mapping[str, Any]) -> int:
    """Returns the format version that a header states; absent or unusable means 1."""
    version = header.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int | float) or version != version:
        return 1
    # An infinite or huge number is a future version like any other.
    return int(min(max(version, 1), 1_000_000))


def migrated_header(header: JsonObject, fallback_id: str, fallback_time: str) -> JsonObject:
    """Returns a header with sound fields and the version at least 3; fields that we do not know are kept."""
    sound = dict(header)
    sound["type"] = "session"
    sound["version"] = max(FORMAT_VERSION, version_in(header))
    for key, fallback in (("id", fallback_id), ("timestamp", fallback_time), ("cwd", "")):
        if not isinstance(sound.get(key), str):
            sound[key] = fallback
    if not sound["id"]:
        sound["id"] = fallback_id
    if not isinstance(sound.get("parentSession", ""), str):
        del sound["parentSession"]
    return sound


def migrated_entry(value: JsonObject, ids_by_position: Sequence[str | None]) -> JsonObject:
    """Returns an entry of version 1 or 2 as version 3 names things; the same object when nothing changes.

    ``ids_by_position``: the id of each object of the file, header included (its own is None), by position.
    """
    message = value.get("message")
    if value.get("type") == "message" and isinstance(message, dict) and message.get("role") == "hookMessage":
        return {**value, "message": {**message, "role": "custom"}}
    if value.get("type") == "compaction" and "firstKeptEntryIndex" in value:
        rest = {key: item for key, item in value.items() if key != "firstKeptEntryIndex"}
        first_kept = _id_at(value["firstKeptEntryIndex"], ids_by_position)
        return {"firstKeptEntryId": first_kept, **rest} if first_kept else rest
    return value


def _id_at(position: Any, ids_by_position: Sequence[str | None]) -> str | None:
    """None for an index that points nowhere or at the header: such a compaction keeps nothing."""
    if isinstance(position, bool) or not isinstance(position, int):
        return None
    return ids_by_position[position] if 0 <= position < len(ids_by_position) else None


def time_in(value: Mapping[str, Any], fallback: str) -> str:
    """Returns an entry's time as ISO text: its own, else its message's, else ``fallback``."""
    own = value.get("timestamp")
    if isinstance(own, str):
        return own
    message = value.get("message")
    stamps = [own, message.get("timestamp") if isinstance(message, dict) else None]
    milliseconds = next((usable for stamp in stamps if (usable := usable_ms(stamp)) is not None), None)
    return fallback if milliseconds is None else ms_to_iso(milliseconds)
