"""Code: coloured by classes where the language is known and the text is of a size to be coloured, always whole."""

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name

from app.render.code import LANGUAGES, MAX_COLOURED, highlight, highlight_lines


def text_of(html: str) -> str:
    return BeautifulSoup(html, "html.parser").get_text()


@pytest.mark.parametrize("info", ["python", "Python", "py title=x", "{.python}", "{python}", "python,linenos"])
def test_a_known_language_is_coloured(info: str) -> None:
    pre = BeautifulSoup(highlight('x = "<b>"  # c\n', info), "html.parser").select_one("pre.code > code")
    assert pre is not None
    assert [span["class"] for span in pre("span") if span["class"] != ["w"]] == [["n"], ["o"], ["s2"], ["c1"]]
    assert pre.get_text() == 'x = "<b>"  # c\n'


@pytest.mark.parametrize("info", ["", "nosuch", "../x", "<b>", "text"])
def test_an_unknown_language_is_plain(info: str) -> None:
    assert highlight("a < b\n", info) == '<pre class="code" tabindex="0"><code>a &lt; b\n</code></pre>'


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_each_language_has_a_lexer_that_keeps_the_text(language: str) -> None:
    get_lexer_by_name(language)
    code = "\n\n  if (a < b) { x = 'y'; } // end\n\t<p class=\"z\">&amp;</p>\n# 1.5e3\n\n"
    assert text_of(highlight(code, language)) == code


@pytest.mark.parametrize(
    "code",
    ["x = 1\n" * (MAX_COLOURED // 6 + 1), "x" * 6000 + " = 1", "if x:\n" + "\n" * 5000 + "y = 1"],
    ids=["long", "long line", "gap"],
)
def test_what_would_take_long_is_plain(code: str) -> None:
    assert "<span" not in highlight(code, "python")
    assert text_of(highlight(code, "python")) == code


def test_lines_close_what_they_open() -> None:
    lines = highlight_lines('"""a\n<b>\n"""\nx\n', "lesson/a.py")
    assert [text_of(line) for line in lines] == ['"""a', "<b>", '"""', "x"]
    assert all(line.count("<span") == line.count("</span>") for line in lines)
    assert '<span class="sd">' in lines[1]


@pytest.mark.parametrize(
    ("code", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("a\r\nb\rc", 3), ("a\u2028b\x0cc", 1)]
)
def test_lines_are_those_of_the_source(code: str, count: int) -> None:
    assert len(highlight_lines(code, "a.txt")) == count
    assert len(highlight_lines(code, "a.py")) == count


def test_invisible_controls_are_shown() -> None:
    assert '<span class="control">U+202E</span>' in highlight("a\u202eb", "")
    assert '<span class="control">U+202E</span>' in highlight_lines("x = 'a\u202eb'", "a.py")[0]


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=80), st.sampled_from(["a.py", "a.html", "a.md", "Makefile", "a.c", "a", "a.[", ".."]))
def test_no_file_makes_it_fail(code: str, name: str) -> None:
    assert len(highlight_lines(code, name)) == len(highlight_lines(code, "plain"))
