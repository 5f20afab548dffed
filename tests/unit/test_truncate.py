"""Cutting long text to whole lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.truncate import MAX_BYTES, MAX_LINES, cut_bytes, limit_for_window, truncate


@pytest.mark.parametrize(
    ("text", "limits", "shown", "cut", "total_lines", "shown_lines", "shown_bytes"),
    [
        ("a\nb\nc\n", {"max_lines": 2}, "a\nb", "lines", 4, 2, 3),
        ("é\né\né", {"max_bytes": 5}, "é\né", "bytes", 3, 2, 5),
        ("", {}, "", None, 1, 1, 0),
        ("a\nb", {"max_lines": 2}, "a\nb", None, 2, 2, 3),
        ("课\n程", {"max_bytes": 6}, "课", "bytes", 2, 1, 3),
        ("课\n程", {"max_bytes": 7}, "课\n程", None, 2, 2, 7),
    ],
)
def test_shows_the_whole_lines_that_fit(
    text: str,
    limits: dict[str, int],
    shown: str,
    cut: str | None,
    total_lines: int,
    shown_lines: int,
    shown_bytes: int,
) -> None:
    result = truncate(text, **limits)
    assert (result.text, result.truncated_by, result.truncated) == (shown, cut, cut is not None)
    assert (result.total_lines, result.total_bytes) == (total_lines, len(text.encode()))
    assert (result.shown_lines, result.shown_bytes) == (shown_lines, shown_bytes)
    assert not result.first_line_exceeds_limit


def test_says_when_the_first_line_alone_is_too_long() -> None:
    result = truncate("aaaa\nb", max_bytes=3)
    assert result.first_line_exceeds_limit
    assert (result.text, result.shown_lines, result.shown_bytes, result.total_lines) == ("", 0, 0, 2)


def test_the_default_limits_are_2000_lines_and_50_kib() -> None:
    assert truncate("x\n" * 3000).shown_lines == MAX_LINES == 2000
    assert truncate("\n".join(["x" * 1023] * 60)).shown_bytes == 50 * 1024 - 1
    assert MAX_BYTES == 51200


@given(st.text(alphabet="a课é\n", max_size=60), st.integers(1, 6), st.integers(0, 40))
def test_what_is_shown_is_a_beginning_within_both_limits(text: str, max_lines: int, max_bytes: int) -> None:
    result = truncate(text, max_lines=max_lines, max_bytes=max_bytes)
    assert text.startswith(result.text)
    assert result.shown_bytes == len(result.text.encode()) <= max_bytes
    assert result.shown_lines <= max_lines
    if result.truncated and result.shown_lines:
        assert text[len(result.text)] == "\n"
    assert result.truncated == (result.text != text or result.shown_lines != result.total_lines)


def test_a_small_window_lowers_the_limit_to_a_quarter_of_it() -> None:
    assert limit_for_window(8192) == 8192, "2,048 tokens of 4 bytes"
    assert limit_for_window(200_000) == 51200
    assert limit_for_window(0) == 51200, "unknown"


@pytest.mark.parametrize(("size", "kept"), [(0, ""), (2, ""), (3, "课"), (5, "课"), (6, "课程"), (99, "课程")])
def test_cutting_to_bytes_splits_no_character(size: int, kept: str) -> None:
    assert cut_bytes("课程", size) == kept
