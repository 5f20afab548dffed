"""What a reader chooses by an address: it holds at once, is kept, and goes along to the next page."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.web import sse
from app.web.preferences import CHOICES, Preferences, here, preferences, read_preferences
from tests.web.helpers import events_of, page, say_to


def choices_of(response: Any) -> dict[str, str]:
    """Returns what a session's page was made with, as its HTML tells."""
    soup = page(response.data)
    assert soup.html is not None and soup.body is not None
    dial = soup.select_one("#dial [aria-current=true]")
    assert dial is not None
    return {
        "show": str(dial["data-dial"]),
        "lang": str(soup.html["lang"])[:2],
        "theme": str(soup.html.get("data-theme", "auto")),
        "keys": str(soup.body["data-keys"]),
    }


@pytest.fixture
def lesson(client: FlaskClient) -> str:
    """The address of a session in which something was said."""
    return f"/sessions/{say_to(client, 'list files')['sessionId']}"


OTHER = {"show": "raw", "lang": "zh", "theme": "dark", "keys": "off"}


def test_a_choice_in_the_address_holds_at_once_and_from_then_on(client: FlaskClient, lesson: str) -> None:
    usual = {"show": "lesson", "lang": "en", "theme": "auto", "keys": "on"}
    assert choices_of(client.get(lesson)) == usual
    chosen = dict(usual)
    for name, value in OTHER.items():
        chosen[name] = value
        assert choices_of(client.get(lesson, query_string={name: value})) == chosen
        assert choices_of(client.get(lesson)) == chosen, "the next page asks for nothing"


def test_each_choice_is_kept_in_a_cookie_that_scripts_and_other_sites_do_not_get(
    client: FlaskClient, lesson: str
) -> None:
    response = client.get(lesson, query_string=OTHER)
    cookies = response.headers.getlist("Set-Cookie")
    assert {cookie.partition(";")[0] for cookie in cookies} == {f"hornbook_{name}={OTHER[name]}" for name in OTHER}
    for cookie in cookies:
        parts = set(cookie.split("; "))
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= parts
        assert any(part.startswith("Max-Age=") and int(part[8:]) > 30 * 24 * 3600 for part in parts)
    assert not client.get(lesson).headers.getlist("Set-Cookie"), "only what an address asks for is kept"


def test_a_value_that_there_is_not_changes_nothing_and_is_not_kept(client: FlaskClient, lesson: str) -> None:
    usual = choices_of(client.get(lesson))
    for value in ("", "RAW", "raw ", "raw\r\nX: y", "<b>"):
        response = client.get(lesson, query_string=dict.fromkeys(CHOICES, value))
        assert choices_of(response) == usual, value
        assert not response.headers.getlist("Set-Cookie"), value


def test_the_address_goes_before_the_cookie_and_the_cookie_before_the_browser() -> None:
    cookies = {"hornbook_lang": "en", "hornbook_show": "workings", "hornbook_theme": "dark", "hornbook_keys": "no"}
    assert read_preferences({}, {}, "zh") == Preferences(lang="zh")
    assert read_preferences({}, {}, None) == Preferences()
    assert read_preferences({}, cookies, "zh") == Preferences("workings", "en", "dark")
    asked = {"lang": "zh", "show": "raw", "theme": "blue", "panel": "tree"}
    assert read_preferences(asked, cookies, None) == Preferences("raw", "zh", "dark")
    assert read_preferences({}, {"show": "raw", "lang": "zh"}, None) == Preferences(), "names of others' cookies"


def test_outside_of_a_request_there_are_the_defaults() -> None:
    assert preferences() == Preferences()


def test_the_stream_keeps_nothing_and_follows_its_address_not_a_later_cookie(
    client: FlaskClient, lesson: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "LOOK_SECONDS", 0.02)
    node = page(client.get(f"{lesson}?show=workings&lang=zh").data).select_one("#stream")
    assert node is not None
    address = str(node["hx-sse:connect"])
    client.get(f"{lesson}?show=lesson&lang=en")
    for place in (address, address.replace("after=", "after=9")):  # the second is shown all again
        response = client.get(place, buffered=False)
        text = ""
        for chunk in response.iter_encoded():
            text += chunk.decode()
            if any("工具" in event.data or "导师" in event.data for event in events_of(text.split("\n"))):
                break
        response.close()
        assert response.status_code == 200 and not response.headers.getlist("Set-Cookie")
        assert "The tutor" not in text
    assert 'href="#tc-' in text or "#tc-" in text, "with workings, each call leads to the timeline"
    assert choices_of(client.get(lesson)) == {"show": "lesson", "lang": "en", "theme": "auto", "keys": "on"}


def test_a_page_of_an_error_is_in_the_language_asked_for_and_keeps_nothing(client: FlaskClient) -> None:
    for path in ("/nothing", "/sessions/nobody", "/files/none.md"):
        response = client.get(path, query_string=OTHER)
        assert response.status_code == 404
        assert page(response.data).html["lang"] == "zh-Hans"  # type: ignore[index]
        assert not response.headers.getlist("Set-Cookie"), path


def test_a_cache_is_told_on_what_a_page_depends(client: FlaskClient) -> None:
    for path in ("/", "/files/", "/nothing"):
        assert {"Cookie", "Accept-Language"} <= set(client.get(path).vary.as_set(preserve_casing=True)), path


def test_what_is_no_page_keeps_nothing(client: FlaskClient) -> None:
    for path in ("/api/health", "/static/app.css"):
        response = client.get(path, query_string=OTHER, buffered=True)
        assert response.status_code == 200
        assert not response.headers.getlist("Set-Cookie") and "Cookie" not in response.vary, path


def test_a_link_to_the_same_page_takes_its_query_along_but_nothing_unknown_and_never_the_token(app: Flask) -> None:
    query = "?panel=tree&show=raw&token=geheim&lines=3-5&refresh=0&edit=x&at=end&trashed=y&show=lesson"
    with app.test_request_context(f"/sessions/s{query}"):
        found = urlsplit(here(show="workings", lang="zh"))
        assert found.path == "/sessions/s"
        assert parse_qs(found.query) == {
            "panel": ["tree"],
            "show": ["workings"],
            "lines": ["3-5"],
            "refresh": ["0"],
            "lang": ["zh"],
        }
        assert parse_qs(urlsplit(here(all="a&b=c#d")).query)["all"] == ["a&b=c#d"]
    with app.test_request_context("/sessions/s?token=geheim"):
        assert here() == "/sessions/s"


def test_no_page_repeats_the_token(client: FlaskClient, lesson: str) -> None:
    for path in ("/", lesson, f"{lesson}/tree", "/files/", "/nothing"):
        assert "geheim" not in client.get(f"{path}?token=geheim&show=raw").text


def test_links_to_the_same_page_are_quoted(client: FlaskClient, workspace: Path) -> None:
    name = "100% a?b#c.md"
    (workspace / name).write_text("# q\n", "utf-8")
    links = page(client.get(f"/files/{quote(name, safe='')}").data).select("a[hreflang]")
    assert {unquote(urlsplit(str(link["href"])).path) for link in links} == {f"/files/{name}"}
