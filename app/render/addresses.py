"""Where links may lead and pictures come from."""

import re
from collections.abc import Callable

from app.render.text import CONTROLS

Resolve = Callable[[str], str | None]

WEB = re.compile(
    r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:[/?#][^\s\\]*)?|mailto:[^\s\\]+", re.IGNORECASE
)
"""No user before the host: ``https://bank.example@other.example/`` leads to the second and looks like the first."""
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
CITED = re.compile(r"[^:/?#\s]+\.[^:/?#\s]+:[0-9]{1,9}(?:-[0-9]{1,9})?")
"""A file and its lines, as the tutor cites them: ``tides.md:41-52``. Looks like a scheme and is none."""
OWN = re.compile(r"/(?![/\\])[^\s\\]*|[#?][^\s\\]*")
UNSEEN = re.compile(r"[\x00-\x20\x7f-\x9f\xad\u200b-\u200f\u2028\u2029\u2060-\u2064]")
"""What browsers drop from an address, or a reader cannot see in it."""


def web_address(href: str) -> str | None:
    """Returns ``href`` if it is a http, https or mailto address that hides nothing, else None."""
    return None if not WEB.fullmatch(href) or UNSEEN.search(href) or CONTROLS.search(href) else href


def own_address(address: str | None) -> str | None:
    """Returns ``address`` when it is a path, query or fragment of this site, else None."""
    if not address or not OWN.fullmatch(address) or UNSEEN.search(address) or CONTROLS.search(address):
        return None
    return address


def is_relative(href: str) -> bool:
    """Returns whether ``href`` names neither a scheme nor another host, also after what browsers do to it."""
    seen = UNSEEN.sub("", href)
    if CITED.fullmatch(seen):
        return True
    return bool(seen) and not SCHEME.match(seen) and not seen.replace("\\", "/").startswith("//")


def link_address(href: str, link: Resolve | None) -> str | None:
    """Returns where a link to ``href`` leads; None when it must not be a link."""
    if is_relative(href):
        return own_address(link(href)) if link else None
    return web_address(href)


def picture_address(source: str, image: Resolve | None) -> str | None:
    """Returns the path on this site that shows ``source``; None when none does."""
    found = own_address(image(source)) if image else None
    return found if found and found.startswith("/") else None
