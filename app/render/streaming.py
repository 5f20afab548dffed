"""Text that is still being written, as HTML: finished blocks rendered once, the open one as escaped text.

A block is complete at a blank line outside a code fence or display math, or at the fence's end. A list whose items
stand apart by blank lines stays one block, up to ``MAX_LIST`` characters. What comes out depends on the text alone and
not on how it was cut into deltas. It is a draft: once the message is complete, the whole is rendered and replaces it,
so a link to a reference further down may show as text until then. The cost is linear in the text.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.render.markdown import Rendered, plain, render_markdown, signs
from app.render.math_rules import MAX_MATH_LINES
from app.render.text import attribute, clean_characters

MAX_LIST = 16_000
MAX_RENDERED = 100_000
MAX_SIGNS = 10_000
"""A longer block, and each after so many signs in all, is shown as plain text until the message is complete."""
PARTS = re.compile(r"[^\n]*\n|[^\n]+")
MARKER = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t\n]")
GOES_ON = re.compile(r" {2,}|\t|" + MARKER.pattern)
MAY_GO_ON = " \t0123456789-*+"
HEAD = 16
"""The first character of a line may tell that GOES_ON does not match, so many always tell."""
FENCE = re.compile(r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(?P<mark>`{3,}(?=[^`]*$)|~{3,})")
MATH_ENDS = {"$$": "$$", r"\[": r"\]"}


@dataclass(frozen=True)
class Piece:
    """What one step changes on a page: ``blocks`` is HTML of blocks that it completed, ``tail`` escaped text.

    Not fresh: ``tail`` is appended to the open tail and ``blocks`` is "". Fresh: the open tail is replaced by
    ``blocks``, followed by a new tail that holds ``tail``.
    """

    blocks: str
    tail: str
    fresh: bool


def combine(pieces: Iterable[Piece]) -> Piece:
    """Returns one piece with the effect of ``pieces`` one after another; of none, one without effect."""
    blocks: list[str] = []
    tail: list[str] = []
    fresh = False
    for piece in pieces:
        if piece.fresh:
            blocks.append(piece.blocks)
            tail.clear()
            fresh = True
        tail.append(piece.tail)
    return Piece("".join(blocks), "".join(tail), fresh)


class StreamRenderer:
    """Renders one message as it is written, with ``render`` for each block. Not for several threads at once."""

    def __init__(self, render: Callable[[str], Rendered] = render_markdown) -> None:
        self._render = render
        self._after_return = False
        self._block: list[str] = []  # whole lines of the open block
        self._size = 0
        self._line: list[str] = []  # parts of the line that has not ended
        self._shown = 0  # so many of them are in the tail
        self._head = ""
        self._blank = True
        self._fence = ""
        self._fence_in_list = False
        self._math = ""
        self._math_lines = 0
        self._in_list = False
        self._waiting = False  # blank lines after a list: the next line tells whether it goes on
        self._signs = 0
        self._out: list[str] = []
        self._tail: list[str] = []
        self._fresh = False

    def feed(self, delta: str) -> Piece:
        """Returns what ``delta``, the text that follows all text fed so far, changes. Takes any string."""
        self._out, self._tail, self._fresh = [], [], False
        for part in PARTS.findall(self._normalise(delta)):
            self._take(part)
        return Piece("".join(self._out), attribute("".join(self._tail)), self._fresh)

    def _normalise(self, delta: str) -> str:
        if not delta:
            return ""
        text = delta[1:] if self._after_return and delta[0] == "\n" else delta
        self._after_return = delta[-1] == "\r"
        return clean_characters(text.replace("\r\n", "\n").replace("\r", "\n"))

    def _take(self, part: str) -> None:
        ends = part[-1] == "\n"
        self._line.append(part)
        self._head += part[: HEAD - len(self._head)]
        self._blank = self._blank and not part.strip(" \t\n")
        decided = ends or len(self._head) == HEAD or self._head[0] not in MAY_GO_ON
        if self._waiting and not self._blank and decided:
            self._waiting = False
            if not GOES_ON.match(self._head):
                self._complete()
        if self._block or not self._blank:
            self._tail.extend(self._line[self._shown :])
            self._shown = len(self._line)
        if ends:
            self._end_line()

    def _end_line(self) -> None:
        line, blank = "".join(self._line), self._blank
        self._line, self._shown, self._head, self._blank = [], 0, "", True
        if blank and not self._block:
            return
        self._block.append(line)
        self._size += len(line)
        if not blank:
            self._read_line(line)
        elif self._in_list and self._size <= MAX_LIST and not self._fence:
            self._waiting = True
        elif not self._fence and not self._math:
            self._complete()

    def _read_line(self, line: str) -> None:
        """Notes what ``line``, just added to the block, opens or closes."""
        text = line.strip()
        if self._fence_in_list and not line[0].isspace():
            self._fence, self._fence_in_list = "", False
        if self._fence:
            if text.startswith(self._fence) and not text.strip(self._fence[0]):
                self._fence, self._fence_in_list = "", False
                if not self._in_list:
                    self._complete()
        elif self._math:
            self._math_lines += 1
            if text.endswith(self._math) or self._math_lines > MAX_MATH_LINES:
                self._math = ""
        elif found := FENCE.match(line):
            self._fence = found["mark"]
            self._in_list = self._in_list or bool(MARKER.match(line))
            self._fence_in_list = self._in_list and bool(found["indent"])
        elif text in MATH_ENDS:
            self._math, self._math_lines = MATH_ENDS[text], 0
        elif MARKER.match(line):
            self._in_list = True

    def _complete(self) -> None:
        """Renders the block's whole lines; what there is of the next line becomes the new tail."""
        self._out.append(self._rendered("".join(self._block)))
        self._block, self._size, self._shown = [], 0, 0
        self._fence, self._fence_in_list, self._math, self._in_list, self._waiting = "", False, "", False, False
        self._tail, self._fresh = [], True

    def _rendered(self, text: str) -> str:
        self._signs += signs(text)
        if len(text) > MAX_RENDERED or self._signs > MAX_SIGNS:
            return plain(text)
        try:
            return self._render(text).html
        except Exception:  # a draft must not end the run that writes it; the whole message is rendered again
            return plain(text)
