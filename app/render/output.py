"""How each kind of token is written as HTML: the rules that differ from markdown-it's own."""

import re
from collections.abc import MutableMapping, Sequence
from typing import Any

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from app.render.code import highlight
from app.render.math import as_source, formula
from app.render.parts import Parts
from app.render.text import attribute, escape

HIGHEST = 3
"""The level of a text's highest heading, whatever the text uses: what is above it is the page's."""
ALIGNED = re.compile(r"text-align:(left|center|right)")
WEB_RELATION = "noopener noreferrer nofollow"

Environment = MutableMapping[str, Any]


def place_headings(tokens: Sequence[Token]) -> None:
    """Gives headings the levels from h3 on that they have among each other, none more than one below the last."""
    used = sorted({token.tag for token in tokens if token.type == "heading_open"})
    last = HIGHEST - 1
    for token in tokens:
        if token.type == "heading_open":
            last = min(used.index(token.tag) + HIGHEST, last + 1, 6)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{last}"


class Output(RendererHTML):
    """Takes from the environment ``parts``, a Parts. Its public methods are called by the type of a token."""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return f"{_anchors(tokens[idx], env)}<{tokens[idx].tag}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return f"</{tokens[idx].tag}>\n"

    def paragraph_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return _anchors(tokens[idx], env) + self.renderToken(tokens, idx, options, env)

    def hr(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return f"{_anchors(tokens[idx], env)}<hr>\n"

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        first = (tokens[idx].map or [0])[0] + 1
        return "<li>" + _parts(env).anchors(first)

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        first = (tokens[idx].map or [0])[0]
        return f'{_parts(env).anchors(first)}<div class="table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return self.td_open(tokens, idx, options, env)

    def td_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        token = tokens[idx]
        aligned = ALIGNED.fullmatch(str(token.attrGet("style") or ""))
        shown = f' class="{aligned[1]}"' if aligned else ""
        # An anchor may stand in a cell only: the parser moves all else out of a table.
        anchors = _anchors(tokens[idx - 1], env) if tokens[idx - 1].type == "tr_open" else ""
        return f"<{token.tag}{shown}>{anchors}"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        token = tokens[idx]
        return _anchors(token, env) + _parts(env).put(highlight(token.content, token.info))

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return self.fence(tokens, idx, options, env)

    def math_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return f'{_anchors(tokens[idx], env)}<div class="math">{_math(tokens[idx], True, env)}</div>\n'

    def math_display(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return f'<span class="math">{_math(tokens[idx], True, env)}</span>'

    def math_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return _math(tokens[idx], False, env)

    def host(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        return f' <span class="host">({escape(tokens[idx].content)})</span>'

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Environment) -> str:
        token = tokens[idx]
        alt = _text(token.children or [])
        own, web = token.meta["own"], token.meta["web"]
        if own:
            return f'<img src="{attribute(own)}" alt="{attribute(alt)}" loading="lazy">'
        shown = f'<span class="image">{escape(alt or web or "")}</span>'
        return f'<a href="{attribute(web)}" rel="{WEB_RELATION}">{shown}</a>' if web else shown


def _parts(env: Environment) -> Parts:
    parts: Parts = env["parts"]
    return parts


def _anchors(token: Token, env: Environment) -> str:
    return _parts(env).anchors(token.map[1]) if token.map else ""


def _math(token: Token, display: bool, env: Environment) -> str:
    parts = _parts(env)
    drawn = formula(token.content, display) if parts.may_draw(token.content) else as_source(token.content)
    parts.has_math = parts.has_math or drawn.startswith("<math")
    return parts.put(drawn)


def _text(tokens: Sequence[Token]) -> str:
    """Returns the text of a picture's description, math as its source."""
    written: list[str] = []
    for token in tokens:
        if token.type == "image":
            written.append(_text(token.children or []))
        elif token.type in ("softbreak", "hardbreak"):
            written.append(" ")
        else:
            written.append(token.content)
    return "".join(written)
