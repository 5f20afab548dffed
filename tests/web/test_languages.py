"""Who reads Chinese gets Chinese pages and streams, who reads English gets English ones, and programs get English."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from babel.messages.pofile import read_po
from bs4 import BeautifulSoup
from bs4.element import Comment, Doctype, NavigableString, Tag
from flask import Flask
from flask.testing import FlaskClient

from app.web import sse
from tests.server import ROOT
from tests.support import FakeModel, call, say
from tests.web.helpers import Gate, page, parse_stream, say_to, start

NewApp = Callable[..., Flask]
NewGate = Callable[..., Gate]
CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"}
GERMAN = {"Accept-Language": "de,fr;q=0.8"}
SHOWS = ("lesson", "workings", "raw")
PANELS = ("timeline", "tree", "tools")
HAN = re.compile(r"[\u3400-\u9fff]")
FOREIGN = re.compile("中文|秘密")
"""What stands in Chinese on an English page: the name of the language, and a word that a rule looks for."""
THEIRS = "code, pre, bdi, .prose, .text, .args, .lead, hx-partial[hx-target^='#tail'], .tree li > a, [lang=en]"
"""Where learner, tutor and course speak."""
READ_ATTRIBUTES = ("aria-label", "title", "placeholder", "alt", "data-done", "data-gone", "data-unsent")


@pytest.fixture(autouse=True)
def silence_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(sse, "LOOK_SECONDS", 0.02)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder whose names and texts are English: what is Chinese on its pages is Hornbook's own."""
    folder = tmp_path / "study"
    (folder / "tides").mkdir(parents=True)
    (folder / "tides" / "1-moon.md").write_text("# The moon\n\nIt pulls.\n", "utf-8")
    (folder / "tides" / "2-sun.md").write_text("# The sun\n\nIt pulls, too.\n", "utf-8")
    (folder / "tides" / "tables.csv").write_text("hour,height\n" * 3, "utf-8")
    (folder / "tides" / "map.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "tides" / "scan.pdf").write_bytes(b"%PDF-1.7\n\x00\xff")
    (folder / "README.md").write_text("# Tides\n\nTwice a day.\n", "utf-8")
    return folder


def lang_of(response: Any) -> str:
    soup = page(response.data)
    assert soup.html is not None
    return str(soup.html["lang"])


# Which language


@pytest.mark.parametrize(
    ("accepted", "lang"),
    [
        (None, "en"),
        ("en-GB,en;q=0.9", "en"),
        ("zh", "zh-Hans"),
        ("zh-CN,zh;q=0.9,en;q=0.5", "zh-Hans"),
        ("zh-Hans-CN", "zh-Hans"),
        ("en;q=0.4,zh;q=0.8", "zh-Hans"),
        ("de,fr;q=0.8", "en"),
        ("*", "en"),
        ("not a language;;", "en"),
    ],
)
def test_the_languages_of_the_browser_choose(client: FlaskClient, accepted: str | None, lang: str) -> None:
    response = client.get("/", headers={"Accept-Language": accepted} if accepted else {})
    assert lang_of(response) == lang
    assert ("新会话" in response.text, "New session" in response.text) == (lang != "en", lang == "en")
    assert {"Accept-Language", "Cookie"} <= set(response.headers["Vary"].split(", "))


def test_a_language_that_is_chosen_wins_over_the_browsers_and_is_kept(client: FlaskClient) -> None:
    chosen = client.get("/?lang=en", headers=CHINESE)
    assert lang_of(chosen) == "en"
    cookie = client.get_cookie("hornbook_lang")
    assert cookie is not None and cookie.value == "en"
    assert lang_of(client.get("/", headers=CHINESE)) == "en"
    assert lang_of(client.get("/files/", headers=CHINESE)) == "en"
    assert lang_of(client.get("/?lang=zh", headers=GERMAN)) == "zh-Hans"
    assert lang_of(client.get("/", headers=GERMAN)) == "zh-Hans"


@pytest.mark.parametrize("lang", ["fr", "", "EN", "zh-Hant", "../zh", "zh\x00"])
def test_a_language_that_there_is_not_changes_nothing_and_is_not_kept(client: FlaskClient, lang: str) -> None:
    response = client.get("/", query_string={"lang": lang}, headers=CHINESE)
    assert (response.status_code, lang_of(response)) == (200, "zh-Hans")
    assert client.get_cookie("hornbook_lang") is None


def test_a_cookie_with_a_language_that_there_is_not_is_passed_over(client: FlaskClient) -> None:
    client.set_cookie("hornbook_lang", "fr")
    assert lang_of(client.get("/", headers=CHINESE)) == "zh-Hans"


def test_the_menu_leads_to_the_same_page_in_the_other_language(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    soup = page(client.get(f"/sessions/{session_id}?show=raw&panel=tree", headers=CHINESE).data)
    english, chinese = soup.select("a[hreflang]")
    assert [link["lang"] for link in (english, chinese)] == ["en", "zh-Hans"]
    assert (english.get("aria-current"), chinese.get("aria-current")) == (None, "true")
    back = page(client.get(str(english["href"]), headers=CHINESE).data)
    assert back.html is not None and back.html["lang"] == "en"
    assert [link.get_text() for link in back.select("#dial [aria-current]")] == ["Raw"]


def test_the_dial_and_the_marks_have_their_names_in_chinese(client: FlaskClient) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    soup = page(client.get(f"/sessions/{session_id}", headers=CHINESE).data)
    assert [link.get_text() for link in soup.select("#dial a")] == ["课堂", "过程", "原始"]
    assert "离线导师：只有规则，没有AI" in soup.get_text()


# Whole pages in one language


def texts_of(soup: BeautifulSoup) -> Iterator[str]:
    """Yields what a page of Hornbook says itself: its text nodes, without what others wrote, and what is read aloud."""
    theirs = {id(piece) for piece in soup.select(THEIRS)}
    for node in soup.find_all(string=True):
        hidden = isinstance(node, Comment | Doctype)
        if not hidden and not any(id(parent) in theirs for parent in node.parents if parent.parent is not None):
            yield " ".join(str(NavigableString(node)).split())
    for tag in soup.find_all(True):
        for name in READ_ATTRIBUTES:
            if isinstance(tag, Tag) and tag.has_attr(name) and id(tag) not in theirs:
                yield " ".join(str(tag[name]).split())


@pytest.fixture(scope="module")
def english() -> "re.Pattern[str]":
    """Matches each text of the catalogue that is said otherwise in Chinese, whatever stands in its places."""
    with (ROOT / "app/web/translations/zh/LC_MESSAGES/messages.po").open("rb") as file:
        catalogue = read_po(file, locale="zh")
    texts = {text for message in catalogue for text in message.id if isinstance(message.id, tuple)}
    texts |= {message.id for message in catalogue if isinstance(message.id, str) and message.id != message.string}
    parts = [re.split(r"%\(\w+\)[a-z]", " ".join(text.split())) for text in texts]
    told = [".+".join(map(re.escape, around)) for around in parts if re.search("[A-Za-z]", "".join(around))]
    assert len(told) > 200
    return re.compile("|".join(told))


def told(new_app: NewApp) -> tuple[FlaskClient, str]:
    """A session in which everything happens that a page shows: calls of each outcome, a branch, a failure."""
    acts = call(
        ("1", "list_files", {}),
        ("2", "read_file", {"path": "tides/1-moon.md"}),
        ("3", "read_file", {"path": "gone.md"}),
        ("4", "write_note", {"name": "secret", "content": "x"}),
        ("5", "write_note", {"name": "moon", "content": "It pulls."}),
        text="On it.",
    )
    looks = call(("6", "search_files", {"query": "pulls"}), ("7", "list_files", {"path": "tides"}))
    reads = call(("8", "read_file", {"path": "README.md"}), ("9", "list_files", {"path": "."}))
    model = FakeModel(acts, looks, reads, say("Twice a day."), RuntimeError("no answer"), say("So it is."))
    client = new_app(model).test_client()
    shape = say_to(client, "How often does the sea rise?")
    session_id = shape["sessionId"]
    say_to(client, "And then?", sessionId=session_id)
    client.post("/api/branch", json={"sessionId": session_id, "entryId": shape["leafId"]})
    say_to(client, "Twice?", sessionId=session_id)
    return client, session_id


def addresses(client: FlaskClient, session_id: str) -> list[str]:
    session = f"/sessions/{session_id}"
    entry = client.get(f"/api/session?sessionId={session_id}").json["leafId"]
    views = [f"{session}?{urlencode({'show': show, 'panel': panel})}" for show in SHOWS[1:] for panel in PANELS]
    panels = [f"{session}/{name}?show={show}" for name in ("workings", "tree", "tools") for show in ("lesson", "raw")]
    files = ["/files/", "/files/tides", "/files/tides/1-moon.md", "/files/tides/1-moon.md?as=source"]
    files += ["/files/tides/tables.csv", "/files/tides/map.png", "/files/gone.md", "/files/tides/scan.pdf"]
    courses = ["/courses/tides", "/courses/none", "/"]
    entries = [f"{session}/entries/{entry}", f"{session}/requests/{entry}"]
    others = [f"{session}?show=lesson", "/nothing", "/sessions/nobody"]
    return [*views, *panels, *entries, *files, *courses, *others]


def test_no_sentence_of_the_catalogue_stands_in_english_on_a_chinese_page(
    new_app: NewApp, english: "re.Pattern[str]"
) -> None:
    client, session_id = told(new_app)
    left: dict[str, list[str]] = {}
    for address in addresses(client, session_id):
        soup = page(client.get(address, headers=CHINESE).data)
        found = [text for text in texts_of(soup) if english.fullmatch(text)]
        if found:
            left[address] = found
    assert left == {}


def chinese_in(soup: BeautifulSoup) -> list[str]:
    """Returns the texts and attributes with Chinese in them, the allowed words aside."""
    values = [str(value) for tag in soup.find_all(True) for value in tag.attrs.values()]
    return [text for text in [*soup.find_all(string=True), *values] if HAN.search(FOREIGN.sub("", text))]


def test_an_english_page_has_nothing_chinese_but_the_name_of_the_language(new_app: NewApp) -> None:
    client, session_id = told(new_app)
    left: dict[str, list[str]] = {}
    for address in addresses(client, session_id):
        soup = page(client.get(address).data)
        found = chinese_in(soup)
        if found:
            left[address] = found
    assert left == {}


# The stream


def stream(client: FlaskClient, session_id: str, **query: str) -> str:
    """Returns what the stream of a session's page says of all that has happened."""
    address = f"/sessions/{session_id}/stream?{urlencode({'after': '0', **query})}"
    response = client.get(address, buffered=False)
    said = ""
    for chunk in response.iter_encoded():
        if chunk.startswith(b":"):
            break
        said += "\n".join(event.data for event in parse_stream(chunk))
    response.close()
    return said


@pytest.mark.parametrize("show", SHOWS)
def test_the_stream_speaks_the_language_of_its_page(client: FlaskClient, english: "re.Pattern[str]", show: str) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    for panel in PANELS:
        view = {"show": show, "panel": panel}
        chinese = list(texts_of(page(stream(client, session_id, lang="zh", **view))))
        assert "导师" in chinese
        assert [text for text in chinese if english.fullmatch(text)] == []
        said = stream(client, session_id, lang="en", **view)
        assert "Tutor" in texts_of(page(said)) and not chinese_in(page(said))


def test_two_tabs_of_a_running_session_are_told_each_in_its_language(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    _, session_id = start(client, "q")
    held.wait()
    assert "导师正在工作。" in stream(client, session_id, lang="zh")
    assert "The tutor is working." in stream(client, session_id, lang="en")


def test_a_page_names_its_language_in_the_address_of_its_stream(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    for headers, lang in ((CHINESE, "zh"), (GERMAN, "en")):
        soup = page(client.get(f"/sessions/{session_id}", headers=headers).data)
        assert f"lang={lang}" in str(soup.select_one("#stream")["hx-sse:connect"])  # type: ignore[index]


# Errors


def test_an_error_is_told_in_the_readers_language(new_app: NewApp) -> None:
    client = new_app(token="right-token").test_client()
    locked = client.get("/", headers=CHINESE)
    assert (locked.status_code, lang_of(locked)) == (401, "zh-Hans")
    assert "打开此页需要Hornbook给出的链接" in locked.text


@pytest.mark.parametrize(
    ("address", "sentence"),
    [("/nothing", "这个地址没有内容。"), ("/sessions/nobody", "没有这个会话。"), ("/files/gone.md", "没有文件")],
)
def test_what_is_not_there_is_said_in_chinese(client: FlaskClient, address: str, sentence: str) -> None:
    response = client.get(address, headers=CHINESE)
    assert response.status_code == 404
    assert sentence in response.text


def test_an_empty_message_is_refused_in_chinese_in_a_page_and_in_a_piece(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    for more in ({}, {"HX-Request": "true"}):
        response = client.post(f"/sessions/{session_id}/prompt", data={"text": " "}, headers={**CHINESE, **more})
        assert response.status_code == 422
        assert "请先写点什么。" in response.text


@pytest.mark.parametrize("headers", [CHINESE, {**CHINESE, "Cookie": "hornbook_lang=zh"}])
def test_the_api_answers_in_english_whoever_asks(client: FlaskClient, headers: dict[str, str]) -> None:
    answers = [
        client.get("/api/session?sessionId=nobody", headers=headers),
        client.get("/api/nothing?lang=zh", headers=headers),
        client.delete("/api/session", headers=headers),
        client.post("/api/prompt", json={"text": ""}, headers=headers),
        client.post("/api/prompt", data="{", content_type="application/json", headers=headers),
    ]
    for answer in answers:
        assert answer.status_code >= 400
        assert re.search("[A-Za-z]{3}", answer.json["message"]) and not HAN.search(answer.text)
