"""Cutting long text to whole lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.truncate import MAX_BYTES, MAX_LINES, Truncation, cut_bytes, limit_for_window, truncate


@pytest.mark.parametrize(
    ("text", "limits", "shown", "truncated", "shown_lines"),
    [
        ("a\nb\nc\n", {"max_lines": 2}, "a\nb", True, 2),
        ("é\né\né", {"max_bytes": 5}, "é\né", True, 2),
        ("", {}, "", False, 1),
        ("a\nb", {"max_lines": 2}, "a\nb", False, 2),
        ("课\n程", {"max_bytes": 6}, "课", True, 1),
        ("课\n程", {"max_bytes": 7}, "课\n程", False, 2),
        ("aaaa\nb", {"max_bytes": 4}, "aaaa", True, 1),
    ],
)
def test_shows_the_whole_lines_that_fit(
    text: str, limits: dict[str, int], shown: str, truncated: bool, shown_lines: int
) -> None:
    assert truncate(text, **limits) == Truncation(shown, truncated, shown_lines)


def test_says_when_the_first_line_alone_is_too_long() -> None:
    assert truncate("aaaa\nb", max_bytes=3) == Truncation("", True, 0, first_line_exceeds_limit=True)


def test_the_default_limits_are_2000_lines_and_50_kib() -> None:
    assert truncate("x\n" * 3000).shown_lines == MAX_LINES == 2000
    assert len(truncate("\n".join(["x" * 1023] * 60)).text) == 50 * 1024 - 1
    assert MAX_BYTES == 51200


@given(st.text(alphabet="a课é\n", max_size=60), st.integers(1, 6), st.integers(0, 40))
def test_what_is_shown_is_a_beginning_within_both_limits(text: str, max_lines: int, max_bytes: int) -> None:
    result = truncate(text, max_lines=max_lines, max_bytes=max_bytes)
    assert text.startswith(result.text)
    assert len(result.text.encode()) <= max_bytes
    assert result.shown_lines <= max_lines
    if result.truncated and result.shown_lines:
        assert text[len(result.text)] == "\n"
    assert result.truncated == (result.text != text or result.shown_lines != text.count("\n") + 1)


def test_a_small_window_lowers_the_limit_to_a_quarter_of_it() -> None:
    assert limit_for_window(8192) == 8192, "2,048 tokens of 4 bytes"
    assert limit_for_window(200_000) == 51200
    assert limit_for_window(0) == 51200, "unknown"


@pytest.mark.parametrize(("size", "kept"), [(0, ""), (2, ""), (3, "课"), (5, "课"), (6, "课程"), (99, "课程")])
def test_cutting_to_bytes_splits_no_character(size: int, kept: str) -> None:
    assert cut_bytes("课程", size) == kept
