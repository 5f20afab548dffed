"""Numbers, times and names as a person reads them, in the language of the page."""

from datetime import UTC, datetime

from babel.dates import format_datetime, format_skeleton
from babel.numbers import format_decimal
from flask import Flask

from app.protocol.model import AnyModel
from app.web.texts import _, as_code, locale_name

KIB = 1024


def clock(milliseconds: int | None, now: datetime | None = None) -> str:
    """Returns a moment (Unix milliseconds) in this computer's time: "20:31" today, else with the day."""
    if not milliseconds:
        return ""
    moment = _local(milliseconds)
    today = (now or datetime.now()).date()
    name = locale_name()
    time: str = format_datetime(moment, "HH:mm", locale=name)
    if moment.date() == today:
        return time
    if abs((today - moment.date()).days) < 7:
        day = format_datetime(moment, "EEE", locale=name)
    else:
        day = format_skeleton("MMMd" if moment.year == today.year else "yMMMd", moment, locale=name)
    return f"{day} {time}"


def _local(milliseconds: int) -> datetime:
    """Returns a moment in this computer's time; one that no local time can tell, at the end of all years, in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(milliseconds / 1000, UTC)


def iso(milliseconds: int | None) -> str:
    """Returns a moment (Unix milliseconds) for a ``datetime`` attribute."""
    return _local(milliseconds).isoformat("T", "seconds") if milliseconds else ""


def duration(milliseconds: int | None) -> str:
    """Returns a length of time: "3 ms" below a tenth of a second, else seconds or minutes; "" when unknown."""
    if milliseconds is None:
        return ""
    if milliseconds < 100:
        return _("%(number)s ms", number=number(milliseconds))
    seconds = milliseconds / 1000
    if seconds < 100:
        return _("%(number)s s", number=format_decimal(round(seconds, 1), locale=locale_name()))
    return _("%(number)s min", number=number(round(seconds / 60)))


def size(count: int) -> str:
    """Returns a number of bytes: "312 bytes", "4.2 KiB"."""
    if count < KIB:
        return _("%(number)s bytes", number=number(count))
    unit, value = ("KiB", count / KIB) if count < KIB * KIB else ("MiB", count / KIB / KIB)
    return f"{format_decimal(round(value, 1), locale=locale_name())} {unit}"


def number(value: int) -> str:
    """Returns a whole number with the language's separators."""
    shown: str = format_decimal(value, locale=locale_name())
    return shown


def model_words(model: AnyModel) -> str:
    """Returns who answers; that something is no AI is never hidden."""
    match model.api:
        case "rules":
            return _("Offline tutor: rules, no AI")
        case "script":
            return _("%(name)s: plays a script, no AI", name=model.name)
        case _:
            return f"{model.name} ({model.provider})"


def install(app: Flask) -> None:
    """Gives templates these as filters."""
    for word in (clock, iso, duration, size, number, model_words):
        app.jinja_env.filters[word.__name__] = word
    app.jinja_env.filters["code"] = as_code
