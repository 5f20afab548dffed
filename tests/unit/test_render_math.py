"""LaTeX as MathML: what is drawn, what is shown as its source, and that nothing else gets through."""

from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup, Tag

from app.render.math import MAX_FORMULA, NotListed, formula, serialise


def drawn(source: str, display: bool = True) -> Tag:
    made = BeautifulSoup(formula(source, display), "html.parser")
    assert made.math is not None, made
    assert not made.find(attrs={"style": True})
    return made.math


@pytest.mark.parametrize(
    ("source", "tags"),
    [
        (r"\frac{a}{b}", ["mfrac", "mi", "mi"]),
        (r"\sqrt[3]{x}", ["mroot", "mi", "mn"]),
        (r"\sum_{i=1}^n", ["munderover"]),
        (r"\binom nk", ["mfrac"]),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", ["mtable", "mtr", "mtd"]),
        (r"\begin{aligned}a&=b\\&=c\end{aligned}", ["mtable"]),
        (r"\begin{cases}1&x>0\\0&\text{否则}\end{cases}", ["mtable", "mtext"]),
        (r"\nabla \cdot \vec{E} = \rho", ["mover"]),
        (r"\overbrace{a}^{n}", ["mover"]),
        (r"\iff\implies\xrightarrow[a]{b}", ["mo"]),
    ],
)
def test_common_formulas_are_drawn(source: str, tags: list[str]) -> None:
    math = drawn(source)
    assert math["alttext"] == source
    assert set(tags) <= {tag.name for tag in math(True)}


@pytest.mark.parametrize(
    ("source", "selector"),
    [
        (r"\begin{aligned}a&=b\end{aligned}", "mtd.m-right.m-no-right"),
        (r"\begin{cases}1&2\end{cases}", "mtd.m-left.m-space-left"),
        (r"\begin{array}{|c|c|}\hline 1&2\\\hline\end{array}", "mtd.m-line-right"),
        (r"\begin{array}{c:c}1&2\end{array}", "mtd.m-dash-right"),
        (r"\boxed{x}", "menclose.m-box"),
        (r"\cancel{x}", "menclose.m-up"),
        (r"a\!b", "mspace.m-back-3"),
        (r"\textcolor{red}{x}", "[mathcolor='#FF0000']"),
        (r"\text{\textbf{x}}", "mtext.m-bold"),
        (r"\begin{align}a&=b\end{align}", "mtable.m-wide"),
    ],
)
def test_styles_become_classes(source: str, selector: str) -> None:
    assert drawn(source).select(selector)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"x \tag{7}", "x(7)"),
        (r"\begin{align}a&=b\\c&=d\end{align}", "a=bc=d"),
        (r"\begin{split}a&=b\end{split}", "a=b"),
        (r"\begin{matrix}a\\[4pt]b\end{matrix}", "ab"),
        (r"\begin{smallmatrix}a&b\end{smallmatrix}", "ab"),
        (r"y \text{ if $x>0$ or so}", "y if x>0 or so"),
        (r"\text{a_b}", "a_b"),
        (r"\mbox{a}", "a"),
    ],
)
def test_what_models_write_and_the_converter_does_not_know(source: str, text: str) -> None:
    assert drawn(source).get_text().replace("\xa0", " ") == text


@pytest.mark.parametrize(
    "source",
    [
        r"\nosuch",
        r"\href{https://x.example}{y}",
        r"\frac{",
        r"\begin{pmatrix}1",
        "a & b",
        r"\def\a{\a\a}\a",
        r"\def\a{xxxxxxxxxx}\def\b{\a\a\a\a\a\a\a\a}\def\c{\b\b\b\b\b\b\b\b}\c\c\c\c\c\c\c\c",
        r"\hspace{-9999em}",
        r"\sqrt{" * 100 + "x" + "}" * 100,
        r"\frac{" * 5000,
        "x" * (MAX_FORMULA + 1),
        "<b>&amp;",
        "\ud800",
    ],
)
def test_what_cannot_be_drawn_is_shown_as_source(source: str) -> None:
    shown = BeautifulSoup(formula(source, True), "html.parser").select_one("code.math")
    assert shown is not None and shown.get_text() == source
    assert "\x1b" not in shown.get_text()


@pytest.mark.parametrize(
    "mathml",
    [
        "<math><script>x</script></math>",
        "<math><mi onclick='x'>y</mi></math>",
        "<math><mi style='position:fixed'>y</mi></math>",
        "<math><mrow href='x'>y</mrow></math>",
        "<math><mi id='x'>y</mi></math>",
        "<math><mi class='primary'>y</mi></math>",
        "<math><mspace width='1em;x'/></math>",
        "<math><mspace width='99999em'/></math>",
        "<math><annotation-xml>x</annotation-xml></math>",
        "<math><maction>x</maction></math>",
        "<math><merror><mtext>x</mtext></merror></math>",
        "<math><mglyph/></math>",
        "<math><mtext><a>x</a></mtext></math>",
        "<math><mrow><mi>x</mi>text</mrow></math>",
        "<div/>",
        "<math xmlns='http://www.w3.org/1998/Math/MathML'/>",
        "<mi>x</mi>",
    ],
)
def test_mathml_that_is_not_listed_is_refused(mathml: str) -> None:
    with pytest.raises(NotListed):
        serialise(mathml, "x")


@pytest.mark.parametrize("mathml", ["<math>", "<math>&nbsp;</math>", "<math/><script/>", "", "<math><mi></math>"])
def test_mathml_that_is_not_well_formed_is_refused(mathml: str) -> None:
    with pytest.raises(ElementTree.ParseError):
        serialise(mathml, "x")


def test_text_and_attributes_are_escaped_anew() -> None:
    made = serialise("<math><mtext>&lt;/mtext&gt;&lt;script&gt;</mtext></math>", '"><script>\u202e')
    assert made == ('<math alttext="&quot;&gt;&lt;script&gt;\ufffd"><mtext>&lt;/mtext&gt;&lt;script&gt;</mtext></math>')


@pytest.mark.parametrize(
    "source", [r"\sin x", r"\det A", r"\dim V", r"\operatorname{sgn}(\sigma)", r"\lim_{n\to 0} a_n"]
)
def test_named_functions_are_drawn(source: str) -> None:
    assert "ApplyFunction" not in drawn(source).get_text()
