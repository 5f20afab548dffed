"""What every text passes before it becomes HTML: line ends, characters that no page may hold, invisible controls.

- NUL, the other C0 and C1 controls, noncharacters and lone surrogates become U+FFFD; form feed and vertical tab become
  a space, tab and newline stay; a byte order mark at the start is dropped.
- Characters that reorder or hide what stands beside them (bidi embeddings, overrides and isolates, the deprecated
  formatting characters, interlinear marks, tag characters) are shown by number, in ``<span class="control">``, and
  are themselves left out, so they move nothing.
- Joiners, zero-width spaces, soft hyphens and the directional marks U+200E, U+200F, U+061C stay: scripts and emoji need
  them, and they reach no further than the characters beside them.
"""

import html
import re

LINE_ENDS = re.compile(r"\r\n?")
UNFIT = re.compile("[\x00-\x08\x0d-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
BREAKS = re.compile("[\x0b\x0c]")
CONTROLS = re.compile("[\u202a-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
MAX_SHOWN = 2_000
"""So many controls are shown by number; in a text with more, each becomes one U+FFFD, so that HTML cannot swell."""


def clean(text: str) -> str:
    """Returns ``text`` with line ends as ``\\n`` and without characters that HTML forbids. Takes any string."""
    fit = clean_characters(LINE_ENDS.sub("\n", text)).removeprefix("\ufeff")
    return CONTROLS.sub("\ufffd", fit) if len(CONTROLS.findall(fit)) > MAX_SHOWN else fit


def clean_characters(text: str) -> str:
    """Returns ``text`` with each unfit character replaced by one other: any cut of a text comes out the same."""
    return BREAKS.sub(" ", UNFIT.sub("\ufffd", text))


def escape(text: str) -> str:
    """Returns ``text`` as HTML: escaped, invisible controls shown by number."""
    return show_controls(html.escape(text))


def attribute(text: str) -> str:
    """Returns ``text`` as an attribute's value: escaped, invisible controls as U+FFFD."""
    return html.escape(CONTROLS.sub("\ufffd", text))


def show_controls(markup: str) -> str:
    """Returns ``markup`` with invisible controls shown by number. Only for HTML that holds none in its attributes."""
    return CONTROLS.sub(lambda found: f'<span class="control">U+{ord(found[0]):04X}</span>', markup)
