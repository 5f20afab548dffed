"""What the list of sessions says about one of them. Pure."""

from app.protocol.codec import clean_text
from app.protocol.entries import SessionHeader
from app.sessions.outline import Outline
from app.sessions.preview import preview
from app.sessions.store import SessionSummary
from app.sessions.times import iso_to_ms

_NAME_LENGTH = 200


def summary_of(
    session_id: str, header: SessionHeader, outline: Outline, *, file_time: int, problem: str = ""
) -> SessionSummary:
    """Returns the summary of a session; ``file_time`` (Unix milliseconds) serves when the file tells no time.

    ``modified`` is the time of the newest user or assistant message: a new name does not move a session up.
    """
    created = iso_to_ms(header.timestamp) or file_time
    return SessionSummary(
        id=clean_text(session_id),
        name=outline.name,
        first_text=outline.first_text,
        created=created,
        modified=outline.modified or created,
        message_count=outline.messages,
        problem=problem,
    )


def clean_name(name: str) -> str:
    """Returns a session's name as it is stored and shown: one line of at most 200 characters."""
    return preview(name, _NAME_LENGTH)
