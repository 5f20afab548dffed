"""What the list of sessions says about one of them. Pure."""

from collections.abc import Sequence

from app.protocol.codec import clean_text
from app.protocol.entries import Entry, MessageEntry, SessionHeader, SessionInfoEntry
from app.protocol.messages import AssistantMessage, UserMessage, text_of
from app.sessions.preview import preview
from app.sessions.store import SessionSummary
from app.sessions.times import iso_to_ms, usable_ms

_NAME_LENGTH = 200


def summary_of(
    session_id: str, header: SessionHeader, entries: Sequence[Entry], *, file_time: int, problem: str = ""
) -> SessionSummary:
    """Returns the summary of a session; ``file_time`` (Unix milliseconds) serves when the file tells no time.

    ``modified`` is the time of the newest user or assistant message: a new name does not move a session up.
    """
    created = iso_to_ms(header.timestamp) or file_time
    messages = [
        entry
        for entry in entries
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage | AssistantMessage)
    ]
    times = [time for entry in messages if (time := _time_of(entry)) is not None]
    return SessionSummary(
        id=clean_text(session_id),
        name=session_name(entries),
        first_text=_first_text(messages),
        created=created,
        modified=max(times, default=created),
        message_count=len(messages),
        problem=problem,
    )


def clean_name(name: str) -> str:
    """Returns a session's name as it is stored and shown: one line of at most 200 characters."""
    return preview(name, _NAME_LENGTH)


def session_name(entries: Sequence[Entry]) -> str:
    """Returns the name that a person gave the session: the latest that is not empty, on one line."""
    names = (e.name for e in reversed(entries) if isinstance(e, SessionInfoEntry) and e.name)
    return next((shown for name in names if (shown := clean_name(name))), "")


def _time_of(entry: MessageEntry) -> int | None:
    return usable_ms(entry.message.timestamp) or usable_ms(iso_to_ms(entry.timestamp))


def _first_text(messages: Sequence[MessageEntry]) -> str:
    texts = (text_of(entry.message.content) for entry in messages if isinstance(entry.message, UserMessage))
    return next((shown for text in texts if (shown := preview(text))), "")
