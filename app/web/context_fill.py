"""How full the model's context is, by an estimate that needs no tokeniser; pure."""

from dataclasses import dataclass

NEARLY = 0.7
"""From this share of the window on, a lesson says that older parts will be summarised soon."""
RULER = 100.0
"""Width of the ruler's fill when the window is full."""


@dataclass(frozen=True)
class Fill:
    """How full the context is: estimated tokens, the window (None unknown) and the ruler's fill, of ``RULER``."""

    tokens: int
    window: int | None
    width: float


def nearly_full(tokens: int, window: int) -> bool:
    """Returns whether so many tokens are so much of a window that a person is told."""
    return window > 0 and tokens > window * NEARLY


def fill(tokens: int, window: int | None) -> Fill | None:
    """Returns how much of the model's window so many tokens of messages fill; None when there are none."""
    if not tokens:
        return None
    known = window if window and window > 0 else None
    return Fill(tokens, known, round(min(tokens / known, 1.0) * RULER, 2) if known else 0.0)
