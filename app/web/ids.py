"""Element ids and addresses that pieces of a session's page share."""

import hashlib
import re
from urllib.parse import quote

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def dom_id(prefix: str, name: str) -> str:
    """Returns an element id for an entry or call id, which may be any text."""
    if not _PLAIN_ID.fullmatch(name):
        name = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{prefix}-{name}"


def session_url(session_id: str, *parts: str) -> str:
    """Returns a path below a session's page; for pieces that are rendered outside of a request, in the stream."""
    return "/" + "/".join(quote(part, safe="") for part in ("sessions", session_id, *parts))


def node_url(base: str, entry_id: str) -> str:
    """Returns where an entry stands in the tree; ``base`` is the address of its page, "" where it is on this one."""
    return (f"{base}?node={quote(entry_id, safe='')}" if base else "") + f"#{dom_id('n', entry_id)}"


def place_url(base: str, entry_id: str, anchor: str) -> str:
    """Returns where an entry stands in the lesson; ``base`` is the address of its page, "" where it is on this one."""
    return (f"{base}?around={quote(entry_id, safe='')}" if base else "") + f"#{anchor}"


def end_of(session_id: str) -> str:
    """Returns the address of a session's end, where one acts."""
    return f"{session_url(session_id)}?at=end#act"
