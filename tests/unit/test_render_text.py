"""What every text passes before it is HTML, where links may lead, and which language a text is in."""

import pytest

from app.render.addresses import link_address, own_address, web_address
from app.render.language import language_of
from app.render.text import MAX_SHOWN, attribute, clean, escape


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\0\x1b\x7f\x85b", "a\ufffd\ufffd\ufffd\ufffdb"),
        ("a\tb\x0cc\x0bd", "a\tb c d"),
        ("\ud800a\udfff", "\ufffda\ufffd"),
        ("\ufeffa", "a"),
        ("a\ufffe\ufdd0", "a\ufffd\ufffd"),
        ("👩\u200d🔬 می\u200cخواهم \u200f", "👩\u200d🔬 می\u200cخواهم \u200f"),
    ],
)
def test_cleaned_text_holds_what_html_may_hold(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize("code", [0x202A, 0x202E, 0x2066, 0x2069, 0x206F, 0xFEFF, 0xFFF9, 0xE0041])
def test_controls_that_reorder_or_hide_are_shown_by_number(code: int) -> None:
    assert escape(f"<{chr(code)}>") == f'&lt;<span class="control">U+{code:04X}</span>&gt;'
    assert attribute(f'"{chr(code)}') == "&quot;\ufffd"


def test_very_many_controls_do_not_swell() -> None:
    assert clean("\u202e" * (MAX_SHOWN + 1)) == "\ufffd" * (MAX_SHOWN + 1)
    assert clean("\u202e" * MAX_SHOWN) == "\u202e" * MAX_SHOWN


@pytest.mark.parametrize(
    "href", ["https://x.example", "http://x.example/a?b#c", "mailto:a@x.example", "HTTPS://X.EXAMPLE/"]
)
def test_addresses_on_the_web(href: str) -> None:
    assert web_address(href) == href
    assert link_address(href, lambda _: "/own") == href


@pytest.mark.parametrize(
    "href",
    [
        *("javascript:x", " javascript:x", "java\nscript:x", "\x01javascript:x", "JAVASCRIPT:x", "java\u200bscript:x"),
        *(
            "vbscript:x",
            "data:text/html,x",
            "file:///x",
            "blob:x",
            "ftp://x.example",
            "https:x",
            "https:/x",
            "https://",
        ),
        *(
            "https:///x.example",
            "https://a@x.example/",
            "https://x.example\\@y",
            "https://x\u202e.example",
            "http://[::1",
        ),
        *("//x.example", "/\\x.example", "\\\\x.example", "/\t/x.example", "/\n/x.example", "", "\t"),
    ],
)
def test_addresses_that_lead_nowhere(href: str) -> None:
    assert web_address(href) is None
    assert link_address(href, lambda given: given) is None


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        *((address, True) for address in ("/files/a", "#L4", "?a=b", "/")),
        *((address, False) for address in ("//x", "/\\x", "a", "", None, "/a b", "/\u202e", "javascript:x", "/\t/x")),
    ],
)
def test_addresses_on_this_site(address: str | None, kept: bool) -> None:
    assert own_address(address) == (address if kept else None)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("月亮牵引海水，所以有潮汐。", "zh"),
        ("潮汐（tide）由月亮引起，见 README。", "zh"),
        ("月は海の水を引きます。", "ja"),
        ("달은 바닷물을 끌어당깁니다.", "ko"),
        ("The sea rises and falls.", ""),
        ("The word 潮汐 means tide.", ""),
        ("", ""),
        ("123 + 456", ""),
        ("Луна притягивает воду.", ""),
        ("a " * 2000 + "潮" * 10_000, ""),
    ],
)
def test_language_by_script(text: str, language: str) -> None:
    assert language_of(text) == language
