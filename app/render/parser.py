"""The Markdown parser: CommonMark with tables, strike-through, math, bare web addresses, and emphasis beside CJK."""

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token

from app.render.addresses import web_address
from app.render.math_rules import math_plugin
from app.render.output import Output

DEEPEST = 16
"""Levels of lists and quotes (a list counts two). What lies deeper is read as one paragraph."""
MAX_CELLS = 10_000
CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u303f\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\ufe30-\ufe4f\uff00-\uffef\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
BARE = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?#@!$&'()*+,;=%-]*", re.IGNORECASE)
NOT_LAST = "?!.,:;*_~'"


@cache
def parser() -> MarkdownIt:
    """Returns the one parser. It keeps nothing of what it parses, so threads may share it."""
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=Output).disable(["html_block", "html_inline"])
    made.inline = _Inline()
    made.inline.ruler.disable(["html_inline", "linkify"])
    made.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    made.enable("table")
    made.block.ruler.before("table", "deep", _deep)
    made.inline.ruler.push("bare", _bare)
    math_plugin(made)
    return made


class _State(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        """CommonMark's flanking rules, with a CJK character as good as a space beside punctuation.

        Chinese sets no space around emphasis: ``**重点。**是`` and ``是**“重点”**`` fail by the letter of those rules.
        As the CJK-friendly amendment to CommonMark proposes, CJK punctuation does not count as punctuation, and a
        CJK character allows what a space allows. Within Latin text nothing changes.
        """
        plain = super().scanDelims(start, canSplitWord)
        if not canSplitWord:
            return plain
        before = self.src[start - 1 : start] if start else ""
        after = self.src[start + plain.length : self.posMax][:1] if start + plain.length < self.posMax else ""
        if not CJK.match(before) and not CJK.match(after):
            return plain
        return Scanned(bool(after) and not after.isspace(), bool(before) and not before.isspace(), plain.length)


class _Inline(ParserInline):
    def parse(self, src: str, md: MarkdownIt, env: object, tokens: list[Token]) -> list[Token]:
        state = _State(src, md, env, tokens)  # type: ignore[arg-type]
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """markdown-it's rule, cut off where a text has had its share of cells: a row of one letter fills all columns."""
    columns = state.src.count("|", state.bMarks[start], state.eMarks[start]) + 1
    left = state.env.setdefault("cells", MAX_CELLS)
    if columns == 1 or left < columns or not table(state, start, min(end, start + 2 + left // columns), silent):
        return False
    if not silent:
        state.env["cells"] -= columns * (state.line - start)
    return True


def _deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Reads what is nested too deeply as a paragraph; markdown-it itself would leave it out."""
    if silent or state.level < DEEPEST:
        return False
    line = start
    while line < end and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
        line += 1
    state.push("paragraph_open", "p", 1).map = [start, line]
    token = state.push("inline", "", 0)
    token.content = state.getLines(start, line, state.blkIndent, False).strip()
    token.map = [start, line]
    token.children = []
    state.push("paragraph_close", "p", -1)
    state.line = line
    return True


def _bare(state: StateInline, silent: bool) -> bool:
    """A web address as it stands in a text becomes a link. It ends before the first character that is not ASCII."""
    if silent or state.linkLevel or not state.src.startswith("://", state.pos):
        return False
    scheme = re.search(r"(?<![A-Za-z0-9])https?\Z", state.pending[-6:], re.IGNORECASE)
    if scheme is None:
        return False
    found = BARE.match(state.src, state.pos - len(scheme[0]), state.posMax)
    if found is None:
        return False
    address = _trimmed(found[0])
    href = state.md.normalizeLink(address)
    if web_address(href) is None:
        return False
    state.pending = state.pending[: -len(scheme[0])]
    state.push("link_open", "a", 1).attrs = {"href": href}
    state.push("text", "", 0).content = address
    state.push("link_close", "a", -1)
    state.pos += len(address) - len(scheme[0])
    return True


def _trimmed(address: str) -> str:
    """Returns ``address`` without the punctuation of the sentence around it."""
    while address[-1] in NOT_LAST or (address[-1] == ")" and address.count(")") > address.count("(")):
        address = address[:-1]
    return address
