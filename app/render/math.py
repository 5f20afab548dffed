"""LaTeX to MathML Core, strictly: what is not on the lists here does not reach a page.

The converter's output is parsed as XML and written anew. Its style attributes, which our content security policy would
block, become classes. A formula with anything that is not listed, an unknown command included, is shown as its source.
"""

import html
import re
from functools import cache
from xml.etree import ElementTree

from math_core import LatexError, LatexToMathML

from app.render.text import CONTROLS, attribute, escape

MAX_FORMULA = 5_000
MAX_SWELL = 60
"""MathML has up to so many characters for each of the source and 2,000 more; macros of macros would make any number."""
MAX_DEPTH = 60
_TAGS = (
    "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace msqrt msub "
    "msubsup msup mtable mtd mtext mtr munder munderover"
)
TAGS = frozenset(_TAGS.split())
LENGTH = re.compile(r"-?\d{0,4}(?:\.\d{1,12})?(?:em|ex|px|pt|mu|%)?")
WORDS = {
    "accent",
    "accentunder",
    "displaystyle",
    "fence",
    "largeop",
    "movablelimits",
    "separator",
    "stretchy",
    "symmetric",
}
LENGTHS = {"depth", "height", "linethickness", "lspace", "maxsize", "minsize", "rspace", "voffset", "width"}
VALUES = {
    **{name: re.compile("true|false") for name in WORDS},
    **{name: LENGTH for name in LENGTHS},
    "display": re.compile("block"),
    "form": re.compile("prefix|infix|postfix"),
    "mathvariant": re.compile("normal"),
    "scriptlevel": re.compile(r"[+-]?\d"),
    "columnspan": re.compile(r"\d{1,3}"),
    "rowspan": re.compile(r"\d{1,3}"),
}
STYLES = {
    "text-align:left": "m-left",
    "text-align:right": "m-right",
    "justify-items:start": "",
    "justify-items:end": "",
    "padding-left:0": "m-no-left",
    "padding-right:0": "m-no-right",
    "padding-left:0.1em": "m-near-left",
    "padding-right:0.1em": "m-near-right",
    "padding-left:1em": "m-space-left",
    "padding-top:0": "",
    "padding-bottom:0": "",
    "padding-top:0.1667em": "m-space-top",
    "width:100%": "m-wide",
    "width:50%": "m-half",
    "width:7.5%": "",
    **{f"border-{side}:0.05em solid currentcolor": f"m-line-{side}" for side in ("left", "right", "top")},
    **{f"border-{side}:0.05em dashed currentcolor": f"m-dash-{side}" for side in ("left", "right", "top")},
    "margin-left:-0.16666667em": "m-back-3",
    "margin-left:-0.22222222em": "m-back-4",
    "margin-left:-0.2777778em": "m-back-5",
}
COLOUR = re.compile(r"color:(#[0-9A-Fa-f]{6})")
ENCLOSURES = {
    "box": "m-box",
    "updiagonalstrike": "m-up",
    "downdiagonalstrike": "m-down",
    "updiagonalstrike downdiagonalstrike": "m-cross",
}
FONTS = {"b": "m-bold", "i": "m-italic"}
ROW_SPACE = re.compile(r"\\\\\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm|mu)\s*\]")
NUMBERED = re.compile(r"\\(begin|end)\{(equation|align|gather|multline)\}")
TEXT = re.compile(r"\\(?:text|mbox|textrm)\{([^{}\\]*)\}")

APPLY = "&ApplyFunction;"
"""The converter's name, which XML does not know, for the invisible sign between \\sin and its argument."""


class NotListed(ValueError):
    """The converter's output holds what may not be on a page."""


def formula(source: str, display: bool) -> str:
    """Returns ``source``, LaTeX without its delimiters, as a ``math`` element; what cannot be drawn as its source."""
    if len(source) <= MAX_FORMULA:
        try:
            made = _converter().convert_with_local_state(prepared(source, display), displaystyle=display)
            return serialise(made, source)
        except (LatexError, ElementTree.ParseError, ValueError):
            pass
    return as_source(source)


def as_source(source: str) -> str:
    """Returns ``source`` to be read as it is."""
    return f'<code class="math">{escape(source)}</code>'


def prepared(source: str, display: bool) -> str:
    """Returns ``source`` in words that the converter knows, where models and books use others.

    Row spacing goes; a number that nobody gave goes, as each formula would be number 1; math within ``\\text`` moves
    out of it; ``split`` and ``smallmatrix`` become their nearest kin; a lone ``\\tag`` gets an equation around it.
    """
    source = CONTROLS.sub("\ufffd", source)
    source = NUMBERED.sub(r"\\\1{\2*}", ROW_SPACE.sub(r"\\\\ ", source))
    source = source.replace("{split}", "{aligned}").replace("{smallmatrix}", "{matrix}")
    source = TEXT.sub(lambda found: _text(found[1]), source)
    if display and r"\tag" in source and r"\begin" not in source:
        return rf"\begin{{equation*}}{source}\end{{equation*}}"
    return source


def _text(content: str) -> str:
    """Returns ``content`` of a ``\\text`` whose dollars and underscores the converter would not take."""
    if content.count("$") % 2:
        return rf"\text{{{content}}}"
    return "".join(
        f"{{{part}}}" if at % 2 else r"\text{" + part.replace("_", r"\_") + "}"
        for at, part in enumerate(content.split("$"))
        if part
    )


@cache
def _converter() -> LatexToMathML:
    return LatexToMathML(ignore_unknown_commands=True, fancy_error=False)


def serialise(mathml: str, source: str) -> str:
    """Returns ``mathml`` written anew from listed tags and attributes, with ``source`` as alternative text.

    Raises NotListed for anything else in it and ElementTree.ParseError when it is not well-formed.
    """
    if len(mathml) > 2_000 + MAX_SWELL * len(source):
        raise NotListed("too long")
    root = ElementTree.fromstring(mathml.replace(APPLY, "\u2061"))
    if root.tag != "math":
        raise NotListed(root.tag)
    parts: list[str] = []
    _write(root, parts, f' alttext="{attribute(source)}"', 0)
    return "".join(parts)


def _write(node: ElementTree.Element, parts: list[str], more: str, depth: int) -> None:
    if node.tag not in TAGS or depth > MAX_DEPTH:
        raise NotListed(node.tag)
    if node.tag == "mtext" and len(node):
        parts.append(_mtext(node))
        return
    parts.append(f"<{node.tag}{_attributes(node)}{more}>{attribute(node.text or '')}")
    for child in node:
        # The strokes of an enclosure, which its class draws.
        if not (child.tag == "mrow" and child.get("class", "").startswith("menclose-")):
            _write(child, parts, "", depth + 1)
        if child.tail:
            raise NotListed("text between elements")
    parts.append(f"</{node.tag}>")


def _mtext(node: ElementTree.Element) -> str:
    """Returns a text in bold or italics, which the converter writes in HTML's elements."""
    fonts = {child.tag for child in node.iter()} - {"mtext"}
    if not fonts <= FONTS.keys() or node.text or any(child.tail for child in node.iter() if child is not node):
        raise NotListed("mtext")
    classes = " ".join(FONTS[font] for font in sorted(fonts))
    return f'<mtext class="{classes}">{attribute("".join(node.itertext()))}</mtext>'


def _attributes(node: ElementTree.Element) -> str:
    written: list[str] = []
    classes: list[str] = []
    for name, value in node.attrib.items():
        if name == "style":
            for declaration in value.split(";"):
                _style(re.sub(r"\s*:\s*", ":", declaration.strip()), written, classes)
        elif name == "notation" and value in ENCLOSURES:
            classes.append(ENCLOSURES[value])
        elif name in VALUES and VALUES[name].fullmatch(value):
            written.append(f'{name}="{html.escape(value)}"')
        else:
            raise NotListed(name)
    shown = " ".join(name for name in classes if name)
    return "".join(f" {part}" for part in [*written, *([f'class="{shown}"'] if shown else [])])


def _style(declaration: str, written: list[str], classes: list[str]) -> None:
    if colour := COLOUR.fullmatch(declaration):
        written.append(f'mathcolor="{colour[1]}"')
    elif declaration:
        if declaration not in STYLES:
            raise NotListed(declaration)
        classes.append(STYLES[declaration])
