"""Text that streams in: the same blocks however it was cut, nothing lost or doubled, linear cost."""

import time
from collections.abc import Iterable

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st

from app.render.markdown import Rendered, plain, render_markdown
from app.render.streaming import Piece, StreamRenderer, combine

LESSON = """# Tides

The sea rises *twice*
a day.

- one

- two

  more of two

Then text. $x^2$ and

```python
a = 1

b = 2
```
After the fence

$$
x

y
$$

1. first
2. second
   ```
   code

   code
   ```

The end
"""
SOME = (
    "\n",
    "\n\n",
    "word ",
    "- ",
    "  ",
    "1. ",
    "```",
    "~~~\n",
    "$$\n",
    "\\[\n",
    "> ",
    "# ",
    "**b**",
    "\t",
    "潮汐",
    "\r",
)
MORE = ("a\r\nb", "\r\n", "😀", "&<>", "\0", "\ud800", "\u202e", "`c`")
PIECES = st.lists(st.sampled_from([*SOME, *MORE]), max_size=40)


def fed(deltas: Iterable[str]) -> list[Piece]:
    renderer = StreamRenderer()
    return [renderer.feed(delta) for delta in deltas]


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def visible(html: str) -> list[str]:
    """Returns the words of each line that has any; draft and block differ in how they show an invisible control."""
    lines = BeautifulSoup(html, "html.parser").get_text().replace("U+202E", "\ufffd").split("\n")
    return [" ".join(line.split()) for line in lines if line.strip(" \t")]


def blocks(text: str) -> list[str]:
    """Returns the source of each block that was completed, and at last the open tail."""
    sources: list[str] = []

    def note(source: str) -> Rendered:
        sources.append(source)
        return Rendered("", False)

    renderer = StreamRenderer(note)
    tail = combine(renderer.feed(delta) for delta in cut(text, 3)).tail
    return [source.strip("\n") for source in sources] + [tail]


def test_new_text_is_appended_to_the_tail_escaped() -> None:
    assert fed(["a <b>", " & c"]) == [Piece("", "a &lt;b&gt;", False), Piece("", " &amp; c", False)]


def test_a_blank_line_completes_a_block_and_opens_a_new_tail() -> None:
    first, second = fed(["one *two*\n", "\nthree"])
    assert first == Piece("", "one *two*\n", False)
    assert second == Piece("<p>one <em>two</em></p>\n", "three", True)


def test_blocks_of_a_lesson() -> None:
    assert blocks(LESSON) == [
        "# Tides",
        "The sea rises *twice*\na day.",
        "- one\n\n- two\n\n  more of two",
        "Then text. $x^2$ and",
        "```python\na = 1\n\nb = 2\n```",
        "After the fence",
        "$$\nx\n\ny\n$$",
        "1. first\n2. second\n   ```\n   code\n\n   code\n   ```",
        "The end\n",
    ]


def test_a_fence_is_complete_at_its_end() -> None:
    assert fed(["```\na\n", "```\n"])[1].blocks == '<pre class="code" tabindex="0"><code>a\n</code></pre>'


def test_a_list_left_by_a_line_at_the_margin_ends_its_fence() -> None:
    assert blocks("- ```\n  a\n\nb\n\ncold") == ["- ```\n  a\n\nb", "cold"]


@pytest.mark.parametrize("start", ["- a\n\n", "1) a\n\n"])
@pytest.mark.parametrize(
    ("next_line", "same"),
    [("- b", True), ("2. b", True), ("  b", True), ("\tb", True), ("b", False), ("-b", False), ("12345678901", False)],
)
def test_a_list_goes_on_with_an_item_or_an_indented_line(start: str, next_line: str, same: bool) -> None:
    assert (len(blocks(f"{start}{next_line} and more\n\n# end\n\nx")) == 3) == same


def test_a_long_list_does_not_wait_for_its_end() -> None:
    piece = combine(fed(cut("- item of a list\n\n" * 1200, 25)))
    assert piece.blocks.count("<li>") > 800


def test_combined_pieces_have_the_effect_of_each_in_turn() -> None:
    assert combine([]) == Piece("", "", False)
    assert combine([Piece("", "a", False), Piece("", "b", False)]) == Piece("", "ab", False)
    assert combine([Piece("", "a", False), Piece("<p>x", "b", True), Piece("", "c", False)]) == Piece(
        "<p>x", "bc", True
    )
    assert combine([Piece("<p>x", "", True), Piece("<p>y", "d", True)]) == Piece("<p>x<p>y", "d", True)
    assert combine([Piece("", "lost", False), Piece("", "", True)]) == Piece("", "", True)


@settings(deadline=None, max_examples=60)
@given(PIECES, st.integers(1, 7))
def test_the_cut_makes_no_difference(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    whole = combine(fed([text]))
    assert combine(fed(cut(text, size))) == whole
    assert combine(fed(pieces)) == whole


@settings(deadline=None, max_examples=60)
@given(PIECES)
def test_at_every_step_all_text_is_there_once(pieces: list[str]) -> None:
    renderer = StreamRenderer(lambda block: Rendered(plain(block), False))
    so_far, seen = "", Piece("", "", False)
    for delta in pieces:
        so_far += delta
        seen = combine([seen, renderer.feed(delta)])
        assert visible(seen.blocks + seen.tail) == visible(plain(so_far))


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=200), st.integers(1, 5))
def test_no_text_makes_it_fail(text: str, size: int) -> None:
    piece = combine(fed(cut(text, size)))
    assert "<" not in piece.tail and ">" not in piece.tail


@pytest.mark.parametrize("newline", ["\r\n", "\r", "\n"])
def test_line_ends_are_one_also_when_cut_in_two(newline: str) -> None:
    text = newline.join(["a", "", "b", "c"])
    assert combine(fed(text)) == Piece("<p>a</p>\n", "b\nc", True)


def test_a_renderer_that_fails_costs_no_text() -> None:
    def broken(text: str) -> Rendered:
        raise RuntimeError

    assert StreamRenderer(broken).feed("a <b>\n\nc").blocks == '<div class="plain">a &lt;b&gt;\n\n</div>'


@pytest.mark.parametrize(
    "text",
    [
        "word " * 50_000,
        "```\n" + "x = 1\n" * 40_000,
        "a\n" * 100_000,
        "- a\n\n" * 40_000,
        "# a\n\n" * 40_000,
        "$$\n" + "a\n" * 100_000,
        "> " * 100_000,
        " " * 250_000,
        "\u202e" * 250_000,
    ],
    ids=["paragraph", "fence", "lines", "list", "headings", "math", "quotes", "spaces", "controls"],
)
def test_long_text_in_small_deltas_takes_linear_time(text: str) -> None:
    start = time.process_time()
    pieces = fed(cut(text, 25))
    assert time.process_time() - start < 25
    assert sum(len(piece.blocks) + len(piece.tail) for piece in pieces) < 8 * len(text)


def test_the_finished_message_looks_like_its_draft() -> None:
    draft = combine(fed(cut(LESSON + "\n\n", 5)))
    assert draft.tail == ""
    drafted, whole = (BeautifulSoup(html, "html.parser") for html in (draft.blocks, render_markdown(LESSON).html))
    assert drafted.get_text("|", strip=True) == whole.get_text("|", strip=True)
    assert [tag.name for tag in drafted(True)] == [tag.name for tag in whole(True)]
