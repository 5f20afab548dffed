"""Finds what a person would read in one language only: texts of templates and scripts that are in no catalogue."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from jinja2 import Environment, nodes

NAMES = ("Hornbook", "English", "中文", "KiB", "MiB")
"""Names and units, the same in every language."""
WIRE = ("n", "seq")
"""Fields of events, which the raw view shows by the names that they have there."""
TRANSLATED = frozenset({"_", "gettext", "ngettext"})
READ_ATTRIBUTES = frozenset(
    {"title", "alt", "placeholder", "label", "aria-label", "aria-description", "aria-roledescription", "aria-valuetext"}
)
BUTTONS = frozenset({"submit", "button", "reset"})
BLOCKS_IN_ATTRIBUTES = frozenset({"kind"})
"""Blocks that fill a class of the page."""
HOLE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands where a template puts in a value."""

_ALLOWED = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in (*NAMES, *WIRE))})\b")
_FORMAT = re.compile(r"%(?:\(\w+\))?[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z%]")


def in_template(source: str) -> list[str]:
    """Returns the bare texts of a Jinja template, in their order.

    They are letters in text nodes and in attributes that are read (``READ_ATTRIBUTES``, values of buttons, the
    description of a page), also where an expression puts them there as a constant; and constants that look like a
    sentence or a heading wherever an expression could show them later (``data-`` attributes, ``set``, arguments).
    """
    environment = Environment(extensions=["jinja2.ext.i18n"], autoescape=True)
    environment.newstyle_gettext = True  # type: ignore[attr-defined]  # as Flask-Babel sets it
    page = _Page()
    pieces, kept = [], []
    for node, is_shown in _parts(environment.parse(source)):
        if isinstance(node, nodes.TemplateData):
            pieces.append(node.data)
            continue
        shown = _constants_shown(node) if is_shown else []
        pieces.append(HOLE + "".join(_FORMAT.sub("", text) for text in shown) + HOLE if is_shown else "")
        kept += [text for text in _constants_kept(node) if text not in shown and _looks_read(text)]
    page.feed("".join(pieces))
    page.close()
    return [text.strip(f" \n{HOLE}") for text in page.found] + kept


def _parts(node: nodes.Node) -> Iterator[tuple[nodes.Node, bool]]:
    """Yields the data of a template and its expressions, each with whether it is put out, in source order.

    Of an ``if`` all branches come, one after the other. The names of other templates are left out.
    """
    for child in node.iter_child_nodes(exclude=("template",)):
        if isinstance(child, nodes.Block) and child.name in BLOCKS_IN_ATTRIBUTES:
            continue
        if isinstance(child, nodes.TemplateData | nodes.Expr):
            yield child, isinstance(node, nodes.Output)
        else:
            yield from _parts(child)


def _constants_shown(node: nodes.Node) -> list[str]:
    """Returns the strings that an expression may have as its value; those of a ``_()`` are none."""
    match node:
        case nodes.Const(value=str(text)):
            return [text]
        case nodes.CondExpr():
            return _constants_shown(node.expr1) + (_constants_shown(node.expr2) if node.expr2 else [])
        case nodes.Or() | nodes.And() | nodes.Add() | nodes.Mod():
            return _constants_shown(node.left) + _constants_shown(node.right)
        case nodes.Concat():
            return [text for part in node.nodes for text in _constants_shown(part)]
        case nodes.Getitem(node=nodes.Dict() as table):
            return [text for pair in table.items for text in _constants_shown(pair.value)]
        case nodes.Filter(name="default" | "d"):
            return [text for part in (node.node, *node.args) if part is not None for text in _constants_shown(part)]
        case nodes.Filter(name="code"):
            return []  # a command
        case nodes.Filter() if node.node is not None:
            return _constants_shown(node.node)
        case nodes.MarkSafe():
            return _constants_shown(node.expr)
        case nodes.Call(node=nodes.Name(name=name)) if name in TRANSLATED:
            return [text for keyword in node.kwargs for text in _constants_shown(keyword.value)]
        case _:
            return []


def _constants_kept(node: nodes.Node) -> list[str]:
    """Returns all strings of an expression but the texts to be translated and what is set as code (a command)."""
    if isinstance(node, nodes.Const):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, nodes.Filter) and node.name == "code":
        return []
    parts: list[nodes.Node] = list(node.iter_child_nodes())
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name in TRANSLATED:
        parts = list(node.kwargs)
    return [text for part in parts for text in _constants_kept(part)]


def _looks_read(text: str) -> bool:
    """Returns whether a string is more than one plain word: words with space between, a capital, or Chinese."""
    plain = _ALLOWED.sub("", text)
    return re.search(r"[A-Za-z]{2,},? [A-Za-z]|\b[A-Z][a-z]|[\u3400-\u9fff]", plain) is not None


class _Page(HTMLParser):
    """Gathers in ``found`` the texts with letters that someone reads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._end_text()
        given = {name: value or "" for name, value in attributes}
        for name, value in attributes:
            read = name in READ_ATTRIBUTES
            read |= name == "value" and (tag == "input" and given.get("type", "").strip(HOLE) in BUTTONS)
            read |= name == "content" and given.get("name") == "description"
            if (read and _has_letters(value or "")) or (name.startswith("data-") and _looks_read(value or "")):
                self.found.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._end_text()

    def handle_data(self, data: str) -> None:
        self._text += data

    def close(self) -> None:
        super().close()
        self._end_text()

    def _end_text(self) -> None:
        if _has_letters(self._text):
            self.found.append(" ".join(self._text.split()))
        self._text = ""


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in _ALLOWED.sub("", text))


_SCRIPT = re.compile(
    r"//[^\n]*|/\*.*?\*/|(?P<quoted>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)", re.DOTALL
)
_WRITTEN_OUT = re.compile(r"\.(?:textContent|innerText|title|placeholder|ariaLabel|ariaDescription|alt)\s*\+?=\s*$")


def in_script(source: str) -> list[str]:
    """Returns the strings of a script that a person would read: sentences, and whatever is put out as text."""
    found = []
    for part in _SCRIPT.finditer(source):
        text = part["quoted"]
        if text is None or not _has_letters(text):
            continue
        sentence = re.search(r"[A-Za-z]{2,} [a-z]+ [a-z]+|^.[A-Z][a-z]+ |[\u3400-\u9fff]|[a-z] .*[.?!].$", text)
        selector = re.search(r"[\[\]#>]|^.\.", text)
        if (sentence and not selector) or _WRITTEN_OUT.search(source[: part.start()]):
            found.append(text[1:-1])
    return found
