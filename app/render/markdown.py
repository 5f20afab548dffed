"""Model and course text to HTML: Markdown and math in one parse, raw HTML off, a closed list of tags over the result.

This is the only way for text of others to become HTML. markdown-it escapes; links and pictures are decided in
``addresses``; code and math, which are ours, wait behind placeholders while bleach passes over the rest.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from markdown_it.token import Token

from app.render.addresses import Resolve, link_address, picture_address, web_address
from app.render.output import WEB_RELATION, place_headings
from app.render.parser import parser
from app.render.parts import Parts
from app.render.sanitize import sanitize
from app.render.text import CONTROLS, clean, escape, show_controls

__all__ = ["Rendered", "Resolve", "plain", "render_markdown"]

MAX_TEXT = 1_000_000
MAX_SIGNS = 50_000
"""Text with more of the characters that Markdown or HTML give a meaning stays plain: each may cost up to 0.06 ms."""
SIGNS = re.compile(r'[\[\]!*_`~$\\<>&|"#\n]')
MAX_ELEMENTS = 20_000
"""Text with more of them stays plain: each costs the sanitiser 0.1 to 0.4 ms. A page of 100 KB has 2,000."""
DEEPEST_INLINE = 16
LOOKS_LIKE = re.compile(
    r"(?:https?:/*)?(?P<host>[\w-]+(?:\.[\w-]+)*\.[^\W\d]{2,})(?:[:/?#].*)?$", re.IGNORECASE | re.DOTALL
)
BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


@dataclass(frozen=True)
class Rendered:
    """``html`` to put into a page as it is; ``has_math`` when the page needs the math font."""

    html: str
    has_math: bool


def signs(text: str) -> int:
    """Returns how many characters of ``text`` Markdown or HTML give a meaning, newlines included: what it will cost."""
    return len(SIGNS.findall(text))


def plain(text: str) -> str:
    """Returns ``text`` as it is written, escaped, in a block that keeps its line breaks."""
    return f'<div class="plain">{escape(clean(text))}</div>'


def render_markdown(
    text: str, *, link: Resolve | None = None, image: Resolve | None = None, line_anchors: bool = False
) -> Rendered:
    """Returns ``text``, Markdown with math, as safe HTML. Never fails: what cannot be rendered is shown as written.

    ``link`` gets each address without a scheme, percent-encoded, and returns the path on this site to use, or None for
    no link; without it such links are dropped and their text stays. ``image`` does the same for pictures: they come
    from this site only, of any other the description is shown, and a link to it if it is on the web. With
    ``line_anchors`` the element ``#L41`` stands before the block that holds line 41 of ``text``, up to line 20,000.
    """
    if len(text) > MAX_TEXT or signs(text) > MAX_SIGNS:
        return Rendered(plain(text), False)
    try:
        return _render(clean(text), link, image, line_anchors)
    except Exception:  # a page must not fail for a text that breaks a library
        return Rendered(plain(text), False)


def _render(text: str, link: Resolve | None, image: Resolve | None, line_anchors: bool) -> Rendered:
    lines = text.count("\n") + 1 if line_anchors else 0
    parts = Parts(lines)
    env: dict[str, Any] = {"parts": parts}
    tokens = parser().parse(text, env)
    if _elements(tokens) > MAX_ELEMENTS:
        return Rendered(plain(text), False)
    for at, token in enumerate(tokens):
        if token.type == "inline" and token.children:
            token.children = _shape(token.children, link, image)
            if at > 1 and tokens[at - 2].type == "list_item_open":
                _mark_task(token.children[0])
    place_headings(tokens)
    html = show_controls(parser().renderer.render(tokens, parser().options, env)) + parts.anchors(lines)
    return Rendered(parts.fill(sanitize(html)), parts.has_math)


def _elements(tokens: Sequence[Token]) -> int:
    """Returns how many elements ``tokens`` make, text not counted."""
    return sum(
        _elements(token.children)
        if token.type == "inline" and token.children
        else token.type != "text" and token.nesting >= 0
        for token in tokens
    )


def _shape(children: Sequence[Token], link: Resolve | None, image: Resolve | None) -> list[Token]:
    """Decides where each link leads and each picture comes from; turns what is nested too deeply into its signs."""
    shaped: list[Token] = []
    opened: list[tuple[bool, int]] = []
    for token in children:
        shaped.append(token)
        if token.type == "image":
            source = str(token.attrGet("src") or "")
            token.meta = {"own": picture_address(source, image), "web": web_address(source)}
        elif token.nesting == 1:
            kept = (token.type != "link_open" or _aim(token, link)) and len(opened) < DEEPEST_INLINE
            opened.append((kept, len(shaped)))
            if not kept:
                _flatten(token)
        elif token.nesting == -1:
            kept, start = opened.pop()
            if not kept:
                _flatten(token)
            elif token.type == "link_close":
                shaped += _other_host(shaped[start - 1], shaped[start:])
    return shaped


def _aim(token: Token, link: Resolve | None) -> bool:
    """Puts the address of a link into ``token`` and returns whether there is one."""
    address = link_address(str(token.attrGet("href") or ""), link)
    title = CONTROLS.sub("\ufffd", str(token.attrGet("title") or ""))
    token.attrs = {"href": address or ""}
    if title:
        token.attrs["title"] = title
    if address and web_address(address):
        token.attrs["rel"] = WEB_RELATION
    return address is not None


def _flatten(token: Token) -> None:
    """Turns an opening or closing token into the signs that it was written with; of a link nothing is left."""
    content = "" if token.type.startswith("link_") else token.markup
    token.type, token.tag, token.nesting, token.content = "text", "", 0, content


def _other_host(opening: Token, inside: Sequence[Token]) -> list[Token]:
    """Returns what names the host of a link if its text looks like an address on another one."""
    address = str(opening.attrGet("href"))
    seen = LOOKS_LIKE.match("".join(token.content for token in inside).strip())
    if not seen or not web_address(address):
        return []
    real = (urlsplit(address).hostname or address.partition(":")[2]).removeprefix("www.")
    if seen["host"].lower().removeprefix("www.") == real:
        return []
    token = Token("host", "", 0)
    token.content = real
    return [token]


def _mark_task(first: Token) -> None:
    """Shows the box of a task in a list as a sign."""
    if first.type == "text" and first.content[:4] in BOXES:
        first.content = BOXES[first.content[:4]] + first.content[4:]
