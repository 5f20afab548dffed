"""Where math stands in Markdown: ``$..$``, ``$$..$$``, ``\\(..\\)``, ``\\[..\\]``, found in the Markdown parse itself.

The plug-in ``dollarmath`` is not used: with digits kept out it takes the text's last character for the one before its
first, so ``$x$ is 5`` stays text, and an unclosed formula makes it look through the rest of the text each time.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

MAX_MATH_LINES = 100
ENDS = {"$$": "$$", r"\[": r"\]"}
# Each pattern stops at the next opening of its own kind, so all attempts together read a text a few times at most.
PRICE = re.compile(r"\$(?=[^\s$])((?:[^\\$`]++|\\.)++)(?<!\s)\$(?!\d)", re.DOTALL)
INLINE = (
    ("$$", re.compile(r"\$\$((?:[^\\$]++|\\.|\$(?!\$))++)\$\$", re.DOTALL)),
    ("$", PRICE),
    (r"\(", re.compile(r"\\\(((?:[^\\]++|\\[^()])++)\\\)", re.DOTALL)),
    (r"\[", re.compile(r"\\\[((?:[^\\]++|\\[^\[\]])++)\\\]", re.DOTALL)),
)


def math_plugin(parser: MarkdownIt) -> None:
    """Adds tokens ``math_inline``, ``math_display`` (in a paragraph) and ``math_block``; the LaTeX is their content."""
    parser.inline.ruler.before("escape", "math", _inline)
    parser.block.ruler.before("fence", "math", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _inline(state: StateInline, silent: bool) -> bool:
    at = state.pos
    if state.src[at] not in "$\\":
        return False
    opening, pattern = next((kind for kind in INLINE if state.src.startswith(kind[0], at)), ("", PRICE))
    # A digit right before the dollar makes it a price: 5$ or 6$.
    if not opening or (opening == "$" and state.src[max(0, at - 1) : at].isdecimal()):
        return False
    found = pattern.match(state.src, at, state.posMax)
    if found is None or not found[1].strip():
        return False
    if not silent:
        token = state.push("math_display" if opening in ENDS else "math_inline", "math", 0)
        token.content = found[1].strip()
        token.markup = opening
    state.pos = found.end()
    return True


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Display math on lines of its own. Blank lines may stand in it only if its opening stands alone on the line."""
    at = state.bMarks[start] + state.tShift[start]
    opening = state.src[at : at + 2]
    closing = ENDS.get(opening)
    if closing is None or state.is_code_block(start):
        return False
    text = state.src[at + 2 : state.eMarks[start]].rstrip()
    alone = not text
    lines = [text]
    line = start
    while not lines[-1].endswith(closing):
        line += 1
        if line >= min(end, start + MAX_MATH_LINES):
            return False
        if state.isEmpty(line):
            if not alone:
                return False
            continue
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()
        if state.sCount[line] < state.blkIndent or (text.startswith(opening) and text != closing):
            return False
        lines.append(text)
    lines[-1] = lines[-1].removesuffix(closing)
    content = "\n".join(lines).strip()
    if not content or closing in content:
        return False
    if not silent:
        token = state.push("math_block", "math", 0)
        token.block = True
        token.content = content
        token.markup = opening
        token.map = [start, line + 1]
    state.line = line + 1
    return True
