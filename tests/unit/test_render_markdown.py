"""What Markdown becomes: structure, links and pictures, math beside text, anchors of source lines."""

import re

import pytest
from bs4 import BeautifulSoup, Tag
from hypothesis import given, settings
from hypothesis import strategies as st

from app.render.markdown import render_markdown


def soup(text: str, **options: object) -> BeautifulSoup:
    return BeautifulSoup(render_markdown(text, **options).html, "html.parser")  # type: ignore[arg-type]


def one(text: str, selector: str, **options: object) -> Tag:
    found = soup(text, **options).select(selector)
    assert len(found) == 1, found
    return found[0]


def formulas(text: str) -> list[str]:
    return [str(math["alttext"]) for math in soup(text)("math")]


def test_a_lesson_keeps_its_structure() -> None:
    page = soup("Para *a* **b** `c` ~~d~~\n\n- one\n- two\n  1. three\n\n> quoted\n\n---\n\n4. four\n")
    names = [tag.name for tag in page(True)]
    assert names == [
        "p",
        "em",
        "strong",
        "code",
        "s",
        *["ul", "li", "li", "ol", "li"],
        "blockquote",
        "p",
        "hr",
        "ol",
        "li",
    ]
    assert page("ol")[1]["start"] == "4"


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        ([1], ["h3"]),
        ([4], ["h3"]),
        ([2, 4, 2], ["h3", "h4", "h3"]),
        ([1, 2, 3, 4, 5, 6], ["h3", "h4", "h5", "h6", "h6", "h6"]),
        ([3, 1, 2], ["h3", "h3", "h4"]),
    ],
)
def test_headings_stand_below_those_of_the_page_and_skip_no_level(levels: list[int], shown: list[str]) -> None:
    page = soup("\n\n".join("#" * level + " Title" for level in levels))
    assert [heading.name for heading in page.find_all(True)] == shown


def test_a_table_scrolls_by_itself_and_aligns_by_class() -> None:
    table = one("|a|b|c|d|\n|:-|:-:|-:|-|\n|1|2|3|4|\n", "div.table > table")
    assert [cell.get("class") for cell in table("td")] == [["left"], ["center"], ["right"], None]
    assert [cell.get_text() for cell in table("th")] == ["a", "b", "c", "d"]


def test_tasks_are_signs_and_not_inputs() -> None:
    page = soup("- [ ] open\n- [x] done\n- [y] neither\n\n[ ] no task")
    assert [item.get_text(strip=True) for item in page("li")] == ["☐ open", "☑ done", "[y] neither"]
    assert page.p.get_text() == "[ ] no task"
    assert not page("input")


def test_raw_html_is_text() -> None:
    assert one("a <b>bold</b> <!-- c -->", "*").get_text() == "a <b>bold</b> <!-- c -->"


def test_links_to_the_web_stay_and_carry_no_referrer() -> None:
    page = soup("[a](https://x.example/ü?q=1&r=2) <mailto:a@x.example> [c](HTTP://x.example)")
    assert [link["href"] for link in page("a")] == [
        "https://x.example/%C3%BC?q=1&r=2",
        "mailto:a@x.example",
        "HTTP://x.example",
    ]
    assert all(link["rel"] == ["noopener", "noreferrer", "nofollow"] and not link.get("target") for link in page("a"))


@pytest.mark.parametrize("href", ["b.md", "../b.md#L4", "#top", "?x", "/files/b.md", "b.md:41-52", "%6aavascript:x"])
def test_a_relative_link_goes_where_the_resolver_says_or_nowhere(href: str) -> None:
    asked: list[str] = []

    def link(given: str) -> str:
        asked.append(given)
        return "/files/there"

    assert one(f"[a]({href})", "a", link=link)["href"] == "/files/there"
    assert asked == [href]
    assert str(soup(f"[a]({href})").p) == "<p>a</p>"
    assert str(soup(f"[a]({href})", link=lambda _: None).p) == "<p>a</p>"


@pytest.mark.parametrize(
    "answer", ["https://x.example/", "//x.example", "/\\x.example", "javascript:x", "", "b.md", "/a b"]
)
def test_a_resolver_can_name_this_site_only(answer: str) -> None:
    assert not soup("[a](b.md) ![p](c.png)", link=lambda _: answer, image=lambda _: answer)(["a", "img"])


@pytest.mark.parametrize(
    "href", ["javascript:x", "vbscript:x", "data:text/html,x", "file:///x", "ftp://x/", "//x.example/"]
)
def test_other_schemes_and_hosts_are_no_links_and_the_resolver_is_not_asked(href: str) -> None:
    assert not soup(f"[a](<{href}>) <{href}>", link=lambda _: "/files/x")("a")


def test_bare_addresses_are_links_up_to_the_sentence_around_them() -> None:
    page = soup("见https://x.example/a_b_c。(http://y.example/d_(e)), `http://no.example` [f](/f)https://z.example/*")
    assert [link["href"] for link in page("a")] == [
        "https://x.example/a_b_c",
        "http://y.example/d_(e)",
        "https://z.example/",
    ]
    assert not soup("xhttp://a.example ftp://b.example http:// https://@c")("a")


def test_a_link_whose_text_names_another_host_shows_its_own() -> None:
    host = one("[https://bank.example/login](https://www.other.example/x)", ".host")
    assert host.get_text() == "(other.example)"
    for text in ("[x.example](https://www.x.example/)", "[the text](https://x.example/)", "https://x.example/"):
        assert not soup(text).select(".host")


def test_pictures_come_from_this_site_and_others_are_named() -> None:
    own = one('![A *map*](map.png "M")', "img", image=lambda source: f"/pictures/{source}")
    assert own.attrs == {"src": "/pictures/map.png", "alt": "A map", "loading": "lazy"}
    named = one("![A map](https://x.example/map.png)", "a > span.image", image=lambda source: None)
    assert named.get_text() == "A map"
    assert named.parent["href"] == "https://x.example/map.png"
    assert one("![A map](map.png)", "p > span.image").get_text() == "A map"
    assert not soup("![a](https://x.example/a.png) ![b](data:image/png;base64,x)")("img")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$x$ is 5", ["x"]),
        ("5 is $x$", ["x"]),
        ("costs $5 and $6", []),
        ("costs 6$ or 7$", []),
        ("a $ b $ c", []),
        (r"a \$b\$ c", []),
        (r"$\$5 + x$", [r"\$5 + x"]),
        ("`$x$` and ``$$y$$``", []),
        ("costs $6; `$x$`", []),
        ("    $x$", []),
        ("```\n$x$\n```", []),
        ("矩阵$A$的秩，**重点$B$**", ["A", "B"]),
        (r"so \(a+b\) and \[c\] here", ["a+b", "c"]),
        (r"\\(a\\)", []),
        (r"`\(a\)`", []),
        ("in $$a$$ text", ["a"]),
        ("- a $x$ b\n\n  $$\n  y\n  $$\n- c\n", ["x", "y"]),
        ("> $$\n> a\n> $$\n", ["a"]),
        ("text\n$$\na\n$$\ntext", ["a"]),
        ("text\n\\[\na\n\\]\ntext", ["a"]),
        ("$$\na\n\nb\n$$", ["a\nb"]),
        ("$$ a\n\nb $$", []),
        ("$$\na", []),
        (r"$a \text{ if } b_*c*$", [r"a \text{ if } b_*c*"]),
        ("|a|\n|-|\n|$x$|", ["x"]),
        ("# $x$", ["x"]),
        ("[$x$](https://x.example/)", ["x"]),
        ("$a$$b$", ["a", "b"]),
        ("$[$ and $]$", ["[", "]"]),
    ],
)
def test_what_is_math_and_what_is_not(text: str, found: list[str]) -> None:
    assert formulas(text) == found
    assert render_markdown(text).has_math == bool(found)


def test_lists_and_paragraphs_survive_math() -> None:
    page = soup("Let $x_1$ be.\n\n1. $a*b*c$ one\n2. two \\(d\\)\n\nEnd.")
    assert [item.name for item in page(["p", "li"])] == ["p", "li", "li", "p"]
    assert not page("em")


def test_display_math_stands_in_a_block_of_its_own() -> None:
    assert one("$$\nx\n$$", "div.math > math")["display"] == "block"
    assert one("a $$x$$ b", "p > span.math > math")["display"] == "block"
    assert one("a $x$ b", "p > math").get("display") is None


def test_math_that_cannot_be_drawn_is_shown_as_source() -> None:
    assert one(r"a $\nosuch{x}$ b", "p > code.math").get_text() == r"\nosuch{x}"
    assert not render_markdown(r"$\nosuch{x}$").has_math


def test_backslashes_in_code_stay() -> None:
    page = soup('`\\nabla` and "\\n"\n\n```python\nprint("\\nabla\\n")\n```')
    assert page.code.get_text() == "\\nabla"
    assert page.pre.get_text() == 'print("\\nabla\\n")\n'
    assert page.p.get_text().endswith('"\\n"')


@pytest.mark.parametrize(
    "text",
    [
        "**重点。**是",
        "这是**“重点”**的",
        "**（注）**如下",
        "他说**好！**然后",
        "*强调，*然后",
        "~~删除。~~后",
        "中文**bold.**中文",
    ],
)
def test_emphasis_beside_chinese_punctuation(text: str) -> None:
    inside = re.search(r"[*~]+([^*~]+)[*~]+", text)
    assert inside is not None
    assert [tag.get_text() for tag in soup(text)(["strong", "em", "s"])] == [inside[1]]


@pytest.mark.parametrize("text", ["2 * 3 * 4", "snake_case_name", "变量_名_称", "a ** b ** c", "**foo:**bar"])
def test_what_commonmark_leaves_alone_stays(text: str) -> None:
    assert one(text, "*").get_text() == text


def test_deep_nesting_loses_no_text() -> None:
    deep = ["> " * 200 + "word", "- " * 200 + "word", "[" * 200 + "word" + "]" * 200, "*a " * 99 + "word" + " b*" * 99]
    for text in deep:
        page = soup(text)
        assert "word" in page.get_text()
        assert max(len(list(tag.parents)) for tag in page(True)) < 40
    assert soup("> " * 200 + "word\n\nafter").find_all("p")[-1].get_text() == "after"


def test_a_table_that_swells_is_cut_and_its_rest_is_text() -> None:
    page = soup("|" + "a|" * 250 + "\n|" + "-|" * 250 + "\n" + "row\n" * 250)
    assert len(page("td")) <= 10_000
    assert page.get_text().count("row") == 250


def test_bidi_controls_are_shown_and_move_nothing() -> None:
    page = soup(
        'a\u202eb `c\u2066d` [e\u202ef](https://x.example/ "t\u202eu") ![g\u202e](h.png)\n\n```python\ni\u202e\n```'
    )
    assert [mark.get_text() for mark in page.select(".control")] == ["U+202E", "U+2066", "U+202E", "U+202E", "U+202E"]
    assert page.a["title"] == "t\ufffdu"
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", str(page))


def anchored(text: str) -> list[tuple[int, str]]:
    """Returns each line number with the start of the text that follows its anchor."""
    page = soup(text, line_anchors=True)
    return [(int(str(mark["id"])[1:]), _after(mark)) for mark in page.select("span.line")]


def _after(mark: Tag) -> str:
    for text in mark.find_all_next(string=True):
        if text.strip():
            return str(text).strip()[:3]
    return ""


def test_each_line_has_its_anchor_before_the_block_that_holds_it() -> None:
    text = "# One\n\ntwo\nmore\n\n- aaa\n- bbb\n\n  ccc\n\n|h|\n|-|\n|x|\n|y|\n\n> q\n\n```\nf\n```\n\n$$\nz\n$$\n"
    found = anchored(text)
    assert [line for line, _ in found] == list(range(1, text.count("\n") + 2))
    after = dict(found)
    expected = {
        1: "One",
        3: "two",
        4: "two",
        6: "aaa",
        7: "bbb",
        9: "ccc",
        11: "h",
        13: "x",
        14: "y",
        16: "q",
        19: "f",
        23: "z",
    }
    assert {line: after[line] for line in expected} == expected


def test_without_being_asked_for_there_are_no_anchors() -> None:
    assert not soup("# One\n\ntwo").select("[id]")


def test_anchors_are_bounded() -> None:
    html = render_markdown("a" + "\n" * 40_000, line_anchors=True).html
    assert html.count(' id="L') == 20_000


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.sampled_from(["a", "\n", "\n\n", "- ", "> ", "# ", "```\n", "  ", "|a|\n|-|\n", "$$\n", "1. "]), max_size=30
    )
)
def test_anchors_name_each_line_once_in_order(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = [line for line, _ in anchored(text)]
    assert found == list(range(1, text.count("\n") + 2))


@settings(deadline=None, max_examples=80)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=120))
def test_words_are_never_lost(text: str) -> None:
    words = re.findall(r"[a-z]{2,}", text)
    shown = soup(text).get_text() + " ".join(str(tag.attrs) for tag in soup(text)(True))
    assert [word for word in words if word not in shown] == []
