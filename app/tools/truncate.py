"""Cuts long text to whole lines, so that a tool's result never floods a model's window."""

from dataclasses import dataclass

MAX_LINES = 2000
MAX_BYTES = 51200
"""50 KiB of UTF-8."""

BYTES_PER_TOKEN = 4
"""A rough average for English; Chinese has fewer bytes a token, so there the limit is looser than it says."""

WINDOW_SHARE = 4
"""One result may fill at most one part in this many of a model's window."""


@dataclass(frozen=True)
class Truncation:
    """What is left of a text, and whether anything was cut off.

    A newline at the end counts as one more, empty, line. ``first_line_exceeds_limit`` says that not even one whole
    line fits; then ``text`` is empty.
    """

    text: str
    truncated: bool
    shown_lines: int
    first_line_exceeds_limit: bool = False


def limit_for_window(context_window_tokens: int) -> int:
    """Returns how many bytes a result may have for a model with this window: a quarter, at most 50 KiB.

    A quarter of the tokens, at 4 bytes a token, is as many bytes as the window has tokens. A window that is
    not known (0 or less) gives 50 KiB.
    """
    if context_window_tokens <= 0:
        return MAX_BYTES
    return min(MAX_BYTES, context_window_tokens * BYTES_PER_TOKEN // WINDOW_SHARE)


def truncate(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """Returns the beginning of ``text``: whole lines, at most ``max_lines`` and ``max_bytes`` of UTF-8.

    The newline between two lines counts, the one after the last shown line does not and is not shown.
    """
    lines = text.split("\n")
    shown_bytes = shown_lines = 0
    too_long = False
    for line in lines[:max_lines]:
        size = len(line.encode()) + (1 if shown_lines else 0)
        too_long = shown_bytes + size > max_bytes
        if too_long:
            break
        shown_bytes += size
        shown_lines += 1
    return Truncation(
        text="\n".join(lines[:shown_lines]),
        truncated=shown_lines < len(lines),
        shown_lines=shown_lines,
        first_line_exceeds_limit=too_long and shown_lines == 0,
    )


def cut_bytes(text: str, max_bytes: int) -> str:
    """Returns the beginning of ``text``: at most ``max_bytes`` of UTF-8, no character split."""
    return text.encode()[: max(0, max_bytes)].decode(errors="ignore")
