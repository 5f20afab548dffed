"""Whatever a text holds, its HTML is made of listed elements, attributes and addresses only."""

import re
import time
from xml.etree.ElementTree import Element

import pytest
from bleach._vendor import html5lib
from bs4 import BeautifulSoup
from pygments.token import STANDARD_TYPES

from app.render import markdown
from app.render.code import highlight, highlight_lines
from app.render.markdown import render_markdown
from app.render.parts import Parts
from app.render.sanitize import sanitize
from app.render.streaming import StreamRenderer, combine
from app.render.text import clean
from tests.hostile import HOSTILE, SENTINEL

XHTML = "{http://www.w3.org/1999/xhtml}"
MATHML = "{http://www.w3.org/1998/Math/MathML}"
REL = "noopener noreferrer nofollow"
HTML_TAGS = {
    *("a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
MATH_TAGS = {
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup"),
    *("munder", "mover", "munderover", "mmultiscripts", "mprescripts", "mtable", "mtr", "mtd", "mpadded", "mphantom"),
    "menclose",
}
HTML_ATTRIBUTES = {
    "a": {"href", "rel", "title"},
    "img": {"src", "alt", "title", "loading"},
    "ol": {"start"},
    "span": {"class", "id"},
    "pre": {"class", "tabindex"},
    **{tag: {"class"} for tag in ("div", "code", "td", "th")},
}
MATH_ATTRIBUTES = {
    *("display", "alttext", "displaystyle", "scriptlevel", "mathvariant", "mathcolor", "stretchy", "symmetric", "form"),
    *("lspace", "rspace", "minsize", "maxsize", "movablelimits", "accent", "accentunder", "linethickness", "width"),
    *("height", "depth", "voffset", "fence", "separator", "largeop", "columnspan", "rowspan", "class"),
}
CLASSES = {"center", "code", "control", "host", "image", "left", "line", "math", "plain", "right", "table"}
MATH_CLASS = re.compile(r"m-[a-z0-9-]+")
WEB = re.compile(r"(?:https?://|mailto:)[\x21-\x7e]+", re.IGNORECASE)
OWN = re.compile(r"/files/[\x21-\x7e]*")


def faults(html: str) -> list[str]:
    """Returns what in ``html``, parsed as a browser does, is not on the lists above."""
    found: list[str] = []
    root = html5lib.parseFragment(html, treebuilder="etree", namespaceHTMLElements=True)
    for node in root.iter():
        if node is root:
            continue
        if not isinstance(node.tag, str):
            found.append(f"not an element: {node.text!r}")
        elif node.tag.startswith(MATHML):
            found += _math_faults(node, node.tag.removeprefix(MATHML))
        else:
            found += _html_faults(node, node.tag.removeprefix(XHTML))
    return found


def _math_faults(node: Element, tag: str) -> list[str]:
    found = [] if tag in MATH_TAGS else [f"<{tag}>"]
    found += [f"<{tag} {name}>" for name in node.attrib if name not in MATH_ATTRIBUTES]
    return found + [f"class {name}" for name in node.get("class", "").split() if not MATH_CLASS.fullmatch(name)]


def _html_faults(node: Element, tag: str) -> list[str]:
    found = [] if tag in HTML_TAGS else [f"<{tag}>"]
    found += [f"<{tag} {name}>" for name in node.attrib if name not in HTML_ATTRIBUTES.get(tag, set())]
    classes = set(node.get("class", "").split()) - CLASSES - set(STANDARD_TYPES.values())
    found += [f"class {name}" for name in sorted(classes)]
    if (identity := node.get("id")) is not None and not (
        re.fullmatch(r"L[0-9]{1,5}", identity) and node.get("class") == "line"
    ):
        found.append(f"id {identity}")
    if node.get("tabindex", "0") != "0":
        found.append(f"tabindex {node.get('tabindex')}")
    if "href" in node.attrib and not (WEB.fullmatch(node.attrib["href"]) or OWN.fullmatch(node.attrib["href"])):
        found.append(f"href {node.attrib['href']}")
    if "href" in node.attrib and WEB.fullmatch(node.attrib["href"]) and node.get("rel") != REL:
        found.append(f"rel {node.get('rel')}")
    if tag == "img" and not node.get("src", "").startswith("/files/"):
        found.append(f"src {node.get('src')}")
    return found


def test_the_checker_sees_what_must_not_be_there() -> None:
    bad = [
        "<script>x</script>",
        "<p onclick=x>",
        "<p hx-get=/>",
        "<p id=x>",
        "<p style=x>",
        "<pre tabindex=3>",
        '<a href="javascript:x" rel="noopener noreferrer nofollow">x</a>',
        '<a href="https://x.example/">x</a>',
        '<a href="//x.example/">x</a>',
        '<img src="https://x.example/">',
        "<svg></svg>",
        "<math><mi onclick=x>x</mi></math>",
        "<math><maction>x</maction></math>",
        '<span class="primary">x</span>',
        "<!-- x -->",
        "<form></form>",
    ]
    assert [html for html in bad if not faults(html)] == []


@pytest.mark.parametrize("name", HOSTILE)
def test_rendered_text_holds_listed_elements_and_addresses_only(name: str) -> None:
    text = HOSTILE[name]
    start = time.process_time()
    rendered = render_markdown(text)
    assert time.process_time() - start < 15
    assert faults(rendered.html) == []
    assert len(rendered.html) < 80 * len(text) + 4000


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.startswith("shape")])
def test_resolved_links_pictures_and_anchors_are_ours(name: str) -> None:
    rendered = render_markdown(
        HOSTILE[name], link=lambda href: f"/files/{href}", image=lambda src: f"/files/{src}", line_anchors=True
    )
    assert faults(rendered.html) == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.startswith(("link", "image", "reference"))])
def test_a_resolver_that_gives_the_address_back_makes_no_way_out(name: str) -> None:
    html = render_markdown(HOSTILE[name], link=lambda href: href, image=lambda src: src).html
    soup = BeautifulSoup(html, "html.parser")
    for address in [*(link["href"] for link in soup("a")), *(picture["src"] for picture in soup("img"))]:
        assert re.fullmatch(r"https?://.*|[#?].*|/(?![/\\\t]).*", str(address))
    assert all(str(picture["src"]).startswith("/") for picture in soup("img"))


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.startswith("shape")])
def test_text_that_streams_in_is_as_safe_at_each_step(name: str) -> None:
    renderer = StreamRenderer()
    text = HOSTILE[name]
    pieces = [renderer.feed(text[at : at + 40]) for at in range(0, len(text), 40)]
    pieces.append(renderer.feed("\n\nend\n\n"))
    assert faults(combine(pieces).blocks) == []
    assert all(not re.search("[<>\"']", piece.tail) for piece in pieces)


@pytest.mark.parametrize("language", ["python", "html", "diff", "nosuch"])
def test_code_is_text_in_spans(language: str) -> None:
    for text in HOSTILE.values():
        if len(text) < 3000:
            assert faults(highlight(text, language)) == []
            assert [line for line in highlight_lines(text, f"a.{language}") if faults(line)] == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.startswith(("shape", "math"))])
def test_the_second_line_alone_lets_nothing_through(name: str) -> None:
    cleaned = sanitize(HOSTILE[name])
    found = [fault for fault in faults(cleaned) if not fault.startswith(("rel", "href /", "href #", "href ?", "src"))]
    assert found == []


def test_a_placeholder_cannot_be_guessed_or_used_again() -> None:
    first, second = Parts(), Parts()
    placeholder = first.put("<b>")
    assert re.fullmatch("[0-9a-f]{32}n0n", placeholder)
    assert placeholder != second.put("<i>")
    assert second.fill(placeholder) == placeholder


def test_a_text_that_breaks_the_renderer_is_shown_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(html: str) -> str:
        raise RecursionError

    monkeypatch.setattr(markdown, "sanitize", broken)
    rendered = render_markdown("**a** <b>")
    assert BeautifulSoup(rendered.html, "html.parser").select_one("div.plain").get_text() == "**a** <b>"
    assert not rendered.has_math


@pytest.mark.parametrize("unit", ["word ", "# a\n\n", "|a|b|\n|-|-|\n", "[", "&", "> ", "$x$ ", "`a", "\u202e"])
def test_a_megabyte_takes_bounded_time_and_loses_nothing(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    html = render_markdown(text).html
    assert time.process_time() - start < 20
    assert len(html) < 6 * len(text)
    if unit == "word ":
        assert BeautifulSoup(html, "html.parser").get_text().count("word") == text.count("word")


def test_more_than_a_megabyte_is_shown_as_written() -> None:
    text = f"<b>{SENTINEL}</b>\n" * 100_000
    soup = BeautifulSoup(render_markdown(text).html, "html.parser")
    assert soup.select_one("div.plain").get_text() == clean(text)
