"""Program text as HTML: coloured by Pygments with its short class names, no styles."""

import html
import re
import time
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.token import STANDARD_TYPES

from app.render.text import clean, show_controls

MAX_COLOURED = 100_000
"""Characters; longer text stays plain, as a lexer is slow and makes ten times as much HTML."""
MAX_LINE = 5_000
"""Text with a longer line stays plain: some lexers look at the rest of a line again for each of its characters."""
_LANGUAGES = (
    "bash bat c c# c++ clojure cmake console cpp csharp css diff docker dockerfile elixir erlang fortran go "
    "graphql haskell html http ini java javascript js json julia kotlin latex less lisp lua make makefile markdown "
    "matlab md nasm objective-c ocaml octave pascal perl php powershell prolog protobuf py pycon python python3 r rb "
    "rs ruby rust sass scala scheme scss sh shell shell-session sql swift tex toml ts tsx typescript udiff "
    "verilog vhdl vim xml yaml yml zig zsh"
)
MAX_SECONDS = 1.0
"""Of processor time for one text; what takes longer stays plain."""
BLANK = re.compile(r"\s{200}")
"""Text with such a gap stays plain too, for the same reason."""
LANGUAGES = frozenset(_LANGUAGES.split())
"""What courses hold. A closed list, as a lexer is a program that is handed hostile text."""
SUFFIX = re.compile(r"\.[a-z0-9+]{1,12}$|^(?:makefile|dockerfile)$", re.IGNORECASE)
LINES = re.compile(r"[^\n]*\n|[^\n]+")
WORD = re.compile(r"[\s{.]*([^\s{},:;=]+)")


def highlight(code: str, language: str = "") -> str:
    """Returns ``code`` in a ``pre`` of class ``code``, coloured if it is not too long and ``language`` is known.

    ``language`` is what stands behind a fence, whose first word names it: ``python``, ``{.py}``, ``c++ title="x"``.
    """
    word = WORD.match(language)
    inside = "".join(_lines(clean(code), _by_name(word[1].lower() if word else "")))
    return f'<pre class="code" tabindex="0"><code>{inside}</code></pre>'


def highlight_lines(code: str, filename: str) -> list[str]:
    """Returns HTML for each line of ``code``, without newlines; each line's spans are closed within it. Never fails."""
    text = clean(code)
    try:
        lines = list(_lines(text, _by_filename(filename)))
    except Exception:  # whatever a lexer does with a file, the file must be shown
        lines = list(_lines(text, None))
    return [line.removesuffix("\n") for line in lines]


def _lines(code: str, lexer: Lexer | None) -> Iterator[str]:
    """Yields HTML for each line, with its newline."""
    pairs = _tokens(code, lexer) if lexer else [("", code)]
    line: list[str] = []
    for name, value in pairs:
        for part in LINES.findall(value):
            shown = show_controls(html.escape(part.removesuffix("\n")))
            line.append(f'<span class="{name}">{shown}</span>' if name and shown else shown)
            if part[-1] == "\n":
                yield "".join(line) + "\n"
                line.clear()
    if line:
        yield "".join(line)


def _tokens(code: str, lexer: Lexer) -> list[tuple[str, str]]:
    """Returns pairs of a class ("" for none) and a piece of ``code``; all pieces together are ``code``."""
    if len(code) > MAX_COLOURED or max(map(len, code.split("\n"))) > MAX_LINE or BLANK.search(code):
        return [("", code)]
    pairs: list[tuple[str, str]] = []
    end = time.thread_time() + MAX_SECONDS
    for kind, value in lexer.get_tokens(code):
        pairs.append((_class(kind), value))
        if time.thread_time() > end:
            return [("", code)]
    if "".join(value for _, value in pairs) != code:
        return [("", code)]
    return [(name, "".join(value for _, value in group)) for name, group in groupby(pairs, itemgetter(0))]


def _class(kind: object) -> str:
    """Returns Pygments' short class of a token type: its own or that of the nearest type above it."""
    name = STANDARD_TYPES.get(kind)  # type: ignore[call-overload]
    return str(name) if name is not None else _class(kind.parent)  # type: ignore[attr-defined]


def _by_name(alias: str) -> Lexer | None:
    return get_lexer_by_name(alias, stripnl=False, ensurenl=False) if alias in LANGUAGES else None


def _by_filename(filename: str) -> Lexer | None:
    name = filename.rpartition("/")[2]
    found = find_lexer_class_for_filename(name) if SUFFIX.search(name) else None
    if found is None or not LANGUAGES.intersection(found.aliases):
        return None
    return found(stripnl=False, ensurenl=False)
