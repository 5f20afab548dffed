"""The two clocks of a session file: entries carry ISO 8601 text, messages carry Unix milliseconds."""

import math
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 253_402_300_799_999  # the end of year 9999, the last that both forms can say


def usable_ms(value: object) -> int | None:
    """Returns a number of milliseconds as int, or None when it is not a number or no date after 1970."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 < value <= _LATEST_MS else None


def iso_to_ms(text: str) -> int | None:
    """Returns ISO 8601 text as Unix milliseconds, or None when it is no date; no zone means UTC."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def ms_to_iso(milliseconds: int) -> str:
    """Returns Unix milliseconds as ISO 8601 UTC text with milliseconds, as entries carry it."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_iso() -> str:
    """Returns the present moment as entries carry it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
