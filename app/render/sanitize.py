"""The second line behind a renderer that escapes: a closed list of tags and attributes over the final HTML.

MathML, SVG, style, forms, ids and everything that a script library reads (``hx-``, ``data-``) are not on the list, so
the tricks that need a change of the parser's namespace have nothing to work with.
"""

from functools import cache

from bleach.sanitizer import Cleaner

from app.render.addresses import own_address, web_address

_TAGS = "a blockquote br code div em h3 h4 h5 h6 hr img li ol p pre s span strong table tbody td th thead tr ul"
TAGS = frozenset(_TAGS.split())
CLASSES = frozenset({"center", "control", "host", "image", "left", "math", "plain", "right", "table"})
FIXED = {"rel": "noopener noreferrer nofollow", "loading": "lazy"}


def sanitize(html: str) -> str:
    """Returns ``html`` with all but the listed tags and attributes taken out; what they held as text stays."""
    return _cleaner().clean(html)


@cache
def _cleaner() -> Cleaner:
    return Cleaner(tags=TAGS, attributes=_allowed, protocols={"http", "https", "mailto"}, strip=True)


def _allowed(tag: str, name: str, value: str) -> bool:
    if name == "class":
        return value in CLASSES
    match tag, name:
        case "a", "href":
            return (own_address(value) or web_address(value)) is not None
        case "img", "src":
            return value.startswith("/") and own_address(value) is not None
        case ("a", "rel") | ("img", "loading"):
            return value == FIXED[name]
        case ("a" | "img", "title") | ("img", "alt"):
            return True
        case "ol", "start":
            return value.isdecimal() and len(value) < 10
    return False
