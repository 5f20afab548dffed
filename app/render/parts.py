"""HTML of ours that must not pass the sanitiser: kept aside behind placeholders while the rest is sanitised."""

import re
import secrets

MAX_MATH = 200_000
MAX_ANCHORS = 20_000


class Parts:
    """The parts of one text, its math budget, and which source lines have an anchor already.

    A placeholder holds 128 random bits, new for each text and never shown, so no text can hold it.
    """

    def __init__(self, lines: int = 0) -> None:
        """``lines`` is how many lines of the source get anchors."""
        self.has_math = False
        self._nonce = secrets.token_hex(16)
        self._made: list[str] = []
        self._math_left = MAX_MATH
        self._lines = min(lines, MAX_ANCHORS)
        self._anchored = 0

    def put(self, html: str) -> str:
        """Returns the placeholder for ``html``."""
        self._made.append(html)
        return f"{self._nonce}n{len(self._made) - 1}n"

    def fill(self, html: str) -> str:
        """Returns ``html`` with each placeholder replaced by its part."""
        return re.sub(f"{self._nonce}n([0-9]+)n", lambda found: self._made[int(found[1])], html)

    def may_draw(self, source: str) -> bool:
        """Returns whether there is room for one more formula, and takes it."""
        self._math_left -= len(source)
        return self._math_left >= 0

    def anchors(self, until: int) -> str:
        """Returns a placeholder for the anchors of all lines up to ``until`` (from 1) that have none yet, or ""."""
        first, last = self._anchored + 1, min(until, self._lines)
        if first > last:
            return ""
        self._anchored = last
        return self.put("".join(f'<span class="line" id="L{line}"></span>' for line in range(first, last + 1)))
