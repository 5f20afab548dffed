"""The pages: what they show, that they work without JavaScript, and that the stream keeps them as a reload would."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from bs4 import BeautifulSoup
from bs4.element import Tag
from flask import Flask
from flask.testing import FlaskClient

from app.runs.live import LiveSession
from app.sessions.store import StoreError
from app.settings import Settings
from app.web import sse
from app.web.page_cursor import PageCursor
from app.web.pieces import Writer
from app.web.preferences import Preferences
from app.web.session_page import view_of
from tests.support import FakeModel, call, say
from tests.web.helpers import (
    Gate,
    chunks_of,
    events_of,
    page,
    parse_stream,
    say_to,
    settle,
    start,
    stop_app,
)

NewApp = Callable[..., Flask]
NewGate = Callable[..., Gate]
HTMX = {"HX-Request": "true"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=y hx-get=/z>\"'&amp;`</textarea></pre></div>{{ 7*7 }}"


def session_page(client: FlaskClient, session_id: str, query: str = "") -> BeautifulSoup:
    response = client.get(f"/sessions/{session_id}{query}")
    assert response.status_code == 200
    return page(response.data)


def new_session(client: FlaskClient, **more: Any) -> str:
    return str(client.post("/api/sessions", json=more).json["sessionId"])


def shown(soup: BeautifulSoup) -> list[tuple[str, str]]:
    """Returns the transcript of a page: who speaks in each message, and its text."""
    return [
        (str(article["class"][1]), text.get_text().strip("\n") if (text := article.select_one(".text, .prose")) else "")
        for article in soup.select("#transcript > article.message")
    ]


def number_in(address: object) -> int:
    """Returns the number after which a stream's address begins."""
    return int(parse_qs(urlsplit(str(address)).query)["after"][0])


def submit(client: FlaskClient, form: Tag | None, **fields: str) -> Any:
    """Sends a form as a browser without JavaScript does, its hidden fields included."""
    assert form is not None and str(form["method"]).casefold() == "post"
    hidden = {str(field["name"]): str(field["value"]) for field in form.select("input[type=hidden]")}
    return client.post(str(form["action"]), data={**hidden, **fields})


def form_with(soup: BeautifulSoup, button: str) -> Tag | None:
    """Returns the form whose button has that text."""
    return next((form for form in soup.find_all("form") if form.button and form.button.get_text() == button), None)


@pytest.fixture(autouse=True)
def silence_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(sse, "LOOK_SECONDS", 0.02)


# The first page


def test_the_first_page_says_where_things_are_and_offers_a_session(client: FlaskClient, settings: Settings) -> None:
    soup = page(client.get("/").data)
    assert soup.h1 is not None and soup.h1.get_text() == "Hornbook"
    facts = {str(panel.h2.get_text()): panel.get_text(" ", strip=True) for panel in soup.select("#side .panel")}  # type: ignore[union-attr]
    assert str(settings.workspace) in facts["Reading from"]
    assert f"Writes only to {settings.workspace / 'notes'}" in facts["Reading from"]
    assert "Offline tutor: rules, no AI" in facts["Who teaches"]
    assert "Nothing." in facts["Leaves this computer"]
    assert soup.find(id="sessions") is None and soup.find(id="go-on") is None, "an empty block is shown"
    response = submit(client, form_with(soup, "New session"))
    assert response.status_code == 303
    assert client.get(response.headers["Location"]).status_code == 200


def test_sessions_are_listed_by_name_or_first_words_newest_first(client: FlaskClient) -> None:
    first = say_to(client, "hello tides", sessionId=new_session(client))["sessionId"]
    named = new_session(client, name="潮汐课")
    rows = page(client.get("/").data).select("#sessions ul.rows > li")
    assert [row.a.get_text() for row in rows if row.a] == ["潮汐课", "hello tides"]
    assert [str(row.a["href"]) for row in rows if row.a] == [f"/sessions/{named}", f"/sessions/{first}"]
    assert "2 messages" in rows[1].get_text()


def test_the_first_page_offers_to_go_on_with_the_session_used_last(client: FlaskClient) -> None:
    session_id = say_to(client, "hello tides")["sessionId"]
    new_session(client, name="empty, so nothing to go on with")
    block = page(client.get("/").data).select_one('section[aria-labelledby="go-on"]')
    assert block is not None and "hello tides" in block.get_text()
    assert [str(link["href"]) for link in block.select("a.primary")] == [f"/sessions/{session_id}?at=end#act"]


def test_of_many_sessions_the_first_page_shows_some_and_leads_to_the_rest(client: FlaskClient) -> None:
    made = {new_session(client, name=f"number {number}") for number in range(15)}
    soup = page(client.get("/").data)
    assert len(soup.select("#sessions li")) == 12
    (more,) = [link for link in soup.select("#sessions a") if "3 more sessions" in link.get_text()]
    everything = page(client.get(str(more["href"]).partition("#")[0]).data)
    assert {str(row.a["href"]).rpartition("/")[2] for row in everything.select("#sessions li") if row.a} == made


def test_a_session_is_renamed_from_the_first_page_and_from_its_own(client: FlaskClient) -> None:
    session_id = new_session(client, name="old")
    row = page(client.get("/").data).select_one("#sessions li")
    response = submit(client, row.select_one("details form"), name=" new\nname ")  # type: ignore[union-attr]
    assert (response.status_code, response.headers["Location"]) == (303, "/#sessions")
    soup = session_page(client, session_id)
    assert soup.select_one("#name").get_text() == "new name"  # type: ignore[union-attr]
    assert submit(client, soup.select_one(".menu details form"), name="newer").status_code == 303
    assert client.get(f"/api/sessions/{session_id}").json["name"] == "newer"


def test_a_session_can_begin_with_a_name_a_first_message_and_a_stop_of_the_dial(client: FlaskClient) -> None:
    response = client.post("/sessions", data={"name": "Tides", "text": "hello\r\nthere", "show": "workings"})
    address, _, query = response.headers["Location"].partition("?")
    assert (response.status_code, query) == (303, "show=workings")
    settle(client, client.get("/api/session").json["events"][0]["runId"])
    soup = session_page(client, address.rpartition("/")[2])
    assert shown(soup)[0] == ("user", "hello\nthere")
    assert soup.select_one("#name").get_text() == "Tides"  # type: ignore[union-attr]


def test_a_file_that_is_no_session_is_listed_with_its_problem(client: FlaskClient, settings: Settings) -> None:
    (settings.data / "sessions" / "broken.jsonl").write_bytes(b"\x00\x01 not a session\n" * 3)
    (row,) = page(client.get("/").data).select("#sessions ul.rows > li")
    assert row.a is not None and row.a["href"] == "/sessions/broken"
    assert "not a session" in row.select_one(".note").get_text()  # type: ignore[union-attr]
    soup = session_page(client, "broken")
    assert "not a session" in soup.select_one(".notice").get_text()  # type: ignore[union-attr]
    assert all(field.has_attr("disabled") for field in soup.select("#composer textarea, #composer button"))
    response = client.post("/sessions/broken/prompt", data={"text": "x"})
    assert response.status_code == 409


# A session's page


def test_a_session_shows_its_transcript_with_calls_and_results(client: FlaskClient) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    soup = session_page(client, session_id)
    assert [role for role, _ in shown(soup)] == ["user", "tutor", "tutor"]
    assert shown(soup)[0] == ("user", "list files")
    (row,) = soup.select("li.call")
    assert "done" in row["class"]
    assert [code.get_text() for code in row.select("summary code")] == ["list_files"]
    assert "README.md" in row.select_one("pre").get_text()  # type: ignore[union-attr]


def test_the_stream_of_a_page_hangs_on_an_empty_element_and_starts_where_the_page_ends(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    soup = session_page(client, session_id)
    stream = soup.select_one("#stream")
    assert stream is not None and stream.get_text() == ""
    address = str(stream["hx-sse:connect"])
    response = client.get(address, buffered=False)
    lines = chunks_of(response)
    assert [next(lines), next(lines)] == ["retry: 1000", ""]
    client.patch(f"/api/sessions/{session_id}", json={"name": "later"})
    events = events_of(lines)
    greeting, renamed = next(events), next(events)
    response.close()
    assert int(renamed.id) > int(greeting.id) == number_in(address)
    for event, place in ((greeting, "status"), (renamed, "name")):
        assert [tag["id"] for tag in page(event.data).select("[hx-swap-oob]")] == [place]
    assert page(renamed.data).get_text(strip=True) == "later"


@pytest.mark.parametrize("path", ["/sessions/nobody", "/nothing", "/sessions/", "/static/nothing.js"])
def test_what_is_not_there_is_a_page_that_leads_back(client: FlaskClient, path: str) -> None:
    response = client.get(path)
    assert (response.status_code, response.mimetype) == (404, "text/html")
    soup = page(response.data)
    assert soup.h1 is not None and soup.h1.get_text() == "404"
    assert soup.select_one('main a[href="/"]')


def test_a_page_without_the_token_says_how_to_get_in(new_app: NewApp) -> None:
    response = new_app(token="secret").test_client().get("/sessions/x")
    assert response.status_code == 401
    text = page(response.data).get_text(" ", strip=True)
    assert "hornbook link" in text and "secret" not in text


# Forms, without JavaScript and with htmx


def test_a_message_is_sent_by_post_303_get(client: FlaskClient) -> None:
    session_id = new_session(client)
    response = submit(client, session_page(client, session_id).select_one("#composer"), text="hello")  # type: ignore[arg-type]
    assert (response.status_code, response.headers["Location"]) == (303, f"/sessions/{session_id}?at=end#act")
    settle(client, client.get("/api/session").json["events"][0]["runId"])
    soup = session_page(client, session_id)
    assert [role for role, _ in shown(soup)] == ["user", "tutor"]
    assert typed(soup) == ""


@pytest.mark.parametrize("text", ["", " \n ", "\u3000"])
def test_a_blank_message_comes_back_with_the_form_and_a_sentence(client: FlaskClient, text: str) -> None:
    session_id = new_session(client)
    response = client.post(f"/sessions/{session_id}/prompt", data={"text": text})
    assert response.status_code == 422
    composer = page(response.data).select_one("#composer")
    assert composer is not None
    assert composer.select_one('[role="alert"]').get_text() == "Write something first."  # type: ignore[union-attr]
    assert composer.select_one("textarea[name=text]")
    assert client.get("/api/session").json["entries"] == []


def typed(soup: Any) -> str:
    """What stands in the composer: a browser drops the first line end in a textarea."""
    return str(soup.select_one("#composer textarea").get_text()).removeprefix("\n")


def test_htmx_gets_the_problem_and_nothing_else_so_that_what_is_typed_stays(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    session_id = new_session(client)
    sent = client.post(f"/sessions/{session_id}/prompt", data={"text": "hello"}, headers=HTMX)
    blank = client.post(f"/sessions/{session_id}/prompt", data={"text": ""}, headers=HTMX)
    for response, status, problem in ((sent, 200, None), (blank, 422, "Write something first.")):
        assert response.status_code == status and "HX-Request" in response.vary
        (place,) = [tag for tag in page(response.data).contents if isinstance(tag, Tag)]
        assert (place["id"], place["role"], place.get_text()) == ("problem", "alert", problem or "")


def test_what_was_typed_is_kept_when_it_cannot_be_stored(client: FlaskClient, settings: Settings) -> None:
    session_id = new_session(client)
    session = client.application.extensions["hornbook"].supervisor.open(session_id).session

    def fail(*_: Any, **__: Any) -> Any:
        raise StoreError("The disk is full.")

    session.append_all = fail
    for headers in ({}, HTMX):
        response = client.post(f"/sessions/{session_id}/prompt", data={"text": HOSTILE}, headers=headers)
        assert response.status_code == 507
        soup = page(response.data)
        assert soup.select_one('[role="alert"]').get_text() == "The disk is full."  # type: ignore[union-attr]
        assert headers or typed(soup) == HOSTILE


@pytest.mark.parametrize(
    ("path", "data", "status"),
    [
        ("prompt", {"text": "x" * 300_000}, 413),
        ("continue", {}, 404),
        ("continue", {"x": "y" * 300_000}, 413),
        ("queue/q/remove", {}, 404),
    ],
)
def test_an_error_of_any_request_of_htmx_goes_to_its_place_and_swaps_nothing_else(
    client: FlaskClient, path: str, data: dict[str, str], status: int
) -> None:
    where = new_session(client) if path != "continue" else "nobody"
    response = client.post(f"/sessions/{where}/{path}", data=data, headers=HTMX)
    assert response.status_code == status and response.headers["HX-Reswap"] == "none"
    (place,) = [tag for tag in page(response.data).contents if isinstance(tag, Tag)]
    assert (place["id"], place["hx-swap-oob"]) == ("problem", "true") and place.get_text(strip=True)


def test_a_page_whose_token_is_no_longer_right_is_told_so_through_its_stream(new_app: NewApp) -> None:
    client = new_app(token="secret").test_client()
    told = client.get("/sessions/x/stream", headers=HTMX)
    assert (told.status_code, told.mimetype) == (200, "text/event-stream")
    (event,) = parse_stream(told.data.removeprefix(b"retry: 2000\n\n"))
    assert "link that Hornbook printed" in page(event.data).select_one("#problem").get_text()  # type: ignore[union-attr]
    assert client.get("/sessions/x/stream").status_code == 401


def test_line_ends_of_a_form_become_plain_ones(client: FlaskClient) -> None:
    session_id = new_session(client)
    client.post(f"/sessions/{session_id}/prompt", data={"text": "one\r\ntwo"})
    settle(client, client.get("/api/session").json["events"][0]["runId"])
    assert client.get("/api/session").json["messages"][0]["content"][0]["text"] == "one\ntwo"


def test_a_message_given_back_is_shown_and_can_be_sent(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held, say("fine"))).test_client()
    session_id = new_session(client)
    run_id, _ = start(client, "hello", sessionId=session_id)
    held.wait()
    for text in ("<b>and this", "and that"):
        client.post("/api/runs", json={"text": text, "sessionId": session_id, "queue": True})
    client.post(f"/api/runs/{run_id}/abort")
    again = session_page(client, session_id)
    assert "<b>and this" in again.select_one("#status .returned").get_text()  # type: ignore[union-attr]
    assert len(again.select("#status .returned li")) == 2
    assert [queued["text"] for queued in client.get(f"/api/sessions/{session_id}").json["returned"]] == [
        "<b>and this",
        "and that",
    ]
    submit(client, form_with(again, "Send it now"))
    soup = session_page(client, session_id)
    assert [row.get_text() for row in soup.select("#status .returned li")] != []
    submit(client, form_with(soup, "Remove"))
    soup = session_page(client, session_id)
    assert soup.select_one("#status .returned") is None
    assert [text for role, text in shown(soup) if role == "user"] == ["hello", "<b>and this"]


def test_a_running_page_refreshes_itself_without_javascript_and_can_be_stopped(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    run_id, session_id = start(client, "q")
    held.wait()
    soup = session_page(client, session_id)
    assert soup.select_one('head noscript meta[http-equiv="refresh"]')
    assert not session_page(client, session_id, "?refresh=0").select_one("noscript meta")
    assert shown(soup) == [("user", "q"), ("tutor", "one ")]
    (writing,) = soup.select("article[aria-busy]")
    assert "tutor" in writing["class"]
    assert submit(client, form_with(soup, "Stop")).status_code == 303
    settle(client, run_id)
    soup = session_page(client, session_id)
    assert not soup.select_one("noscript meta") and form_with(soup, "Stop") is None
    assert shown(soup) == [("user", "q"), ("tutor", "one")]
    assert [note.get_text(strip=True) for note in soup.select("#transcript p.note")] == ["Stopped here."]


def test_a_message_sent_while_the_tutor_works_waits_and_can_be_removed(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    run_id, session_id = start(client, "first")
    held.wait()
    for text in ("second", HOSTILE):
        assert client.post(f"/sessions/{session_id}/prompt", data={"text": text}).status_code == 303
    soup = session_page(client, session_id)
    waiting = [" ".join(row.p.get_text().split()) for row in soup.select("#status .queue li") if row.p]
    assert waiting == ["Waits: second", f"Waits: {HOSTILE}"]
    for _ in range(2):
        assert submit(client, form_with(session_page(client, session_id), "Remove")).status_code == 303
    assert not session_page(client, session_id).select("#status .queue")
    held.open.set()
    settle(client, run_id)
    assert [role for role, _ in shown(session_page(client, session_id))] == ["user", "tutor"]


def test_an_interrupted_answer_can_be_continued(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    app = new_app(FakeModel(held))
    run_id, session_id = start(app.test_client(), "q")
    held.wait()
    stop_app(app)
    client = new_app(FakeModel(say("whole"))).test_client()
    soup = session_page(client, session_id)
    assert shown(soup) == [("user", "q")]
    assert not soup.select_one("noscript meta")
    assert submit(client, form_with(soup, "Continue")).status_code == 303
    settle(client, run_id)
    soup = session_page(client, session_id)
    assert shown(soup) == [("user", "q"), ("tutor", "whole")]
    assert form_with(soup, "Continue") is None


def test_a_deleted_session_can_be_brought_back(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    before = shown(session_page(client, session_id))
    response = client.post(f"/sessions/{session_id}/delete")
    assert response.status_code == 303
    home = page(client.get(response.headers["Location"]).data)
    assert not home.select("#sessions li")
    undone = submit(client, form_with(home, "Undo"))
    assert (undone.status_code, undone.headers["Location"]) == (303, f"/sessions/{session_id}")
    assert shown(session_page(client, session_id)) == before
    assert page(client.get("/").data).select("#sessions li")


@pytest.mark.parametrize("action", ["abort", "continue"])
def test_a_button_that_has_become_pointless_does_no_harm(client: FlaskClient, action: str) -> None:
    shape = say_to(client, "hello")
    path = f"/sessions/{shape['sessionId']}/{action}"
    assert client.post(path).status_code == 303
    quiet = client.post(path, headers=HTMX)
    assert (quiet.status_code, quiet.data) == (204, b"")
    assert client.get("/api/session").json["entries"] == shape["entries"]


@pytest.mark.parametrize("path", ["prompt", "abort", "continue", "delete", "restore", "queue/q/remove"])
def test_forms_of_a_session_that_is_not_there_are_404(client: FlaskClient, path: str) -> None:
    response = client.post(f"/sessions/nobody/{path}", data={"text": "x"})
    assert (response.status_code, response.mimetype) == (404, "text/html")


def test_every_form_posts_to_the_same_address_with_and_without_htmx(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    _, session_id = start(client, "q")
    held.wait()
    client.post(f"/sessions/{session_id}/prompt", data={"text": "later"})
    forms = session_page(client, session_id).select("#act form")
    assert len(forms) == 3
    for form in forms:
        assert (form["method"], form["action"]) == ("post", form["hx-post"])


# Hostile texts


def test_hostile_texts_stay_texts_wherever_they_stand(new_app: NewApp, workspace: Path) -> None:
    name = "<img src=x onerror=y>' \"&amp;.md"
    (workspace / name).write_text(HOSTILE, "utf-8")
    arguments = {"path": name, HOSTILE: HOSTILE}
    model = FakeModel(
        call((HOSTILE, "read_file", arguments), ("2", "list_files", {}), ("3", HOSTILE, {}), text=HOSTILE),
        say(HOSTILE),
    )
    client = new_app(model).test_client()
    session_id = new_session(client, name=HOSTILE)
    plain = page(client.get(f"/sessions/{new_session(client)}").data)
    shape = say_to(client, HOSTILE, sessionId=session_id)
    soup = session_page(client, session_id)
    # Markdown reads the entity in what the tutor says; what a person says is no Markdown.
    said = HOSTILE.replace("&amp;", "&")
    assert [text.strip() for _, text in shown(soup)] == [HOSTILE, said, said]
    raw = session_page(client, session_id, "?show=raw")
    calls = raw.select("#transcript li.call")
    assert [row.select_one("summary code").get_text() for row in calls] == ["read_file", "list_files", HOSTILE]  # type: ignore[union-attr]
    assert json.loads(calls[0].select("details > pre")[0].get_text()) == arguments
    assert name in calls[1].get_text()
    assert soup.title is not None and HOSTILE in soup.title.get_text()
    assert soup.select_one("header .title").get_text() == HOSTILE  # type: ignore[union-attr]
    streams = [page(whole_stream(client, session_id, show=show, panel=panel)) for show, panel in VIEWS]
    for hostile in (soup, raw, page(client.get("/").data), page(client.get("/files/").data), *streams):
        assert {str(tag.get("src")) for tag in hostile.find_all("img")} <= {str(plain.select_one("header img")["src"])}  # type: ignore[index]
        assert not [tag for tag in hostile.find_all(True) for attribute in tag.attrs if attribute.startswith("on")]
        assert not hostile.select("[hx-get]")
        assert len(hostile.find_all("script")) <= len(plain.find_all("script"))
    assert shape["status"] == "done"


def test_a_hostile_address_is_not_repeated_as_markup(client: FlaskClient) -> None:
    ours = len(page(client.get("/").data).find_all("script"))
    for path in (
        "/sessions/<script>x</script>",
        "/<script>x</script>",
        "/?trashed=<script>x</script>\"'&panel=<script>",
    ):
        soup = page(client.get(path).data)
        assert len(soup.find_all("script")) == ours


# The stream


def live_session(client: FlaskClient, session_id: str) -> LiveSession:
    live: LiveSession = client.application.extensions["hornbook"].supervisor.open(session_id)
    return live


VIEWS = [("lesson", "timeline"), ("workings", "timeline"), ("workings", "tree"), ("raw", "tools"), ("raw", "tree")]
every_view = pytest.mark.parametrize(("show", "panel"), VIEWS)


def whole_stream(client: FlaskClient, session_id: str, after: int = 0, **view: str) -> str:
    """Returns all pieces that a page gets which was rendered at ``after``, up to the first silence."""
    query = urlencode({"after": after, **view})
    response = client.get(f"/sessions/{session_id}/stream?{query}", buffered=False)
    events = []
    for chunk in response.iter_encoded():
        if chunk == sse.HEARTBEAT:
            break
        events += parse_stream(chunk)
    response.close()
    return "\n".join(event.data for event in events)


def swap(soup: BeautifulSoup, pieces: str) -> None:
    """Puts pieces into a page as htmx does: out-of-band ones by id, partials at or instead of their target."""
    for piece in [tag for tag in page(pieces).contents if isinstance(tag, Tag)]:
        if piece.name == "hx-partial":
            target = soup.select_one(str(piece["hx-target"]))
            assert target is not None, f"nothing on the page is {piece['hx-target']}"
            new = [child.extract() for child in list(piece.contents)]
            if piece["hx-swap"] == "outerHTML":
                target.replace_with(*new)
            else:
                assert piece["hx-swap"] == "beforeend"
                target.extend(new)
        else:
            assert piece["hx-swap-oob"] in ("true", "outerMorph")
            old = soup.find(id=str(piece["id"]))
            assert isinstance(old, Tag), f"nothing on the page has the id {piece['id']}"
            del piece["hx-swap-oob"]
            old.replace_with(piece.extract())


def same(first: BeautifulSoup, second: BeautifulSoup) -> None:
    """Fails unless all that is live on two pages are the same elements with the same words."""
    for part in ("#name", "#branches", "#moved", "#transcript", "#status", "#panel"):
        assert outline(first.select_one(part)) == outline(second.select_one(part))


def outline(tag: Tag | None) -> Any:
    assert tag is not None
    children = [outline(child) for child in tag.children if isinstance(child, Tag)]
    keeps_spaces = tag.name == "pre" or bool({"text", "tail"} & set(tag.get("class") or []))
    # A parser of pages turns CR into LF, as the stream does.
    text = re.sub("\r\n?", "\n", tag.get_text()) if keeps_spaces else " ".join(tag.get_text().split())
    return (tag.name, sorted((name, str(value)) for name, value in tag.attrs.items()), text, children)


@every_view
def test_a_page_that_stayed_open_shows_the_same_as_a_reload(new_app: NewApp, show: str, panel: str) -> None:
    model = FakeModel(
        call(("1", "list_files", {}), ("2", "nothing", {"x": HOSTILE}), text="Let me see.\n"),
        call(("3", "read_file", {"path": "README.md"})),
        say(f"{HOSTILE}\r\nTwo\n\n  lines."),
        RuntimeError("no power"),
    )
    client = new_app(model).test_client()
    session_id = new_session(client)
    query = f"?show={show}&panel={panel}"
    opened = session_page(client, session_id, query)
    say_to(client, HOSTILE)
    say_to(client, "again")
    swap(opened, whole_stream(client, session_id, show=show, panel=panel))
    same(opened, session_page(client, session_id, query))
    assert len(opened.select("#transcript li.call")) == 3


def test_carriage_returns_in_what_is_said_break_no_piece_of_the_stream(new_app: NewApp) -> None:
    text = "a\rdata: x\r\rb"
    client = new_app(FakeModel(say(text))).test_client()
    session_id = new_session(client)
    run_id, _ = start(client, text, sessionId=session_id)
    settle(client, run_id)
    # Parsed strictly there: a line that begins in the middle of a text fails.
    assert "data: x" in page(whole_stream(client, session_id)).get_text()


@every_view
def test_a_page_opened_in_mid_run_follows_to_the_same_end(
    new_app: NewApp, gate: NewGate, show: str, panel: str
) -> None:
    held = gate("half ", "<whole>")
    client = new_app(FakeModel(call(("1", "list_files", {})), held, say("after"))).test_client()
    session_id = new_session(client)
    query = f"?show={show}&panel={panel}"
    empty = client.get(f"/sessions/{session_id}{query}").data
    run_id, _ = start(client, "q", sessionId=session_id)
    held.wait()
    client.post("/api/runs", json={"text": "queued", "queue": True})
    opened = session_page(client, session_id, query)
    followed = page(empty)
    swap(followed, whole_stream(client, session_id, show=show, panel=panel))
    same(followed, opened)
    assert len(followed.select("article[aria-busy]")) == 1
    after = number_in(opened.select_one("#stream")["hx-sse:connect"])  # type: ignore[index]
    held.open.set()
    settle(client, run_id)
    swap(opened, whole_stream(client, session_id, after, show=show, panel=panel))
    same(opened, session_page(client, session_id, query))
    assert [text for _, text in shown(opened)] == ["q", "", "half <whole>", "queued", "after"]


@pytest.mark.parametrize(
    ("show", "panel"),
    [view if view in VIEWS[:2] else pytest.param(*view, marks=pytest.mark.long) for view in VIEWS],
)
def test_a_reader_that_reconnects_at_any_event_ends_the_same(
    new_app: NewApp, gate: NewGate, show: str, panel: str
) -> None:
    held = gate()
    client = new_app(FakeModel(call(("1", "list_files", {}), text="a"), held, say("b"))).test_client()
    session_id = new_session(client)
    query = f"?show={show}&panel={panel}"
    empty = client.get(f"/sessions/{session_id}{query}").data
    run_id, _ = start(client, "q", sessionId=session_id)
    held.wait()
    numbers = [record.n for record in live_session(client, session_id).log.after(0)]
    held.open.set()
    settle(client, run_id)
    say_to(client, "r")
    reloaded = session_page(client, session_id, query)
    for number in numbers:
        opened = page(empty)
        swap(opened, pieces_up_to(client, session_id, number, show, panel))
        swap(opened, whole_stream(client, session_id, number, show=show, panel=panel))
        same(opened, reloaded)


def cursor_at(
    client: FlaskClient, session_id: str, n: int, show: str = "lesson", panel: str = "timeline"
) -> PageCursor:
    """Returns a reader of a session's page that has seen everything up to ``n``."""
    app = client.application
    view = view_of(Preferences(show=show), panel)
    services = app.extensions["hornbook"]
    return PageCursor(Writer(live_session(client, session_id), app, services, view), services.shared, n)


def pieces_up_to(client: FlaskClient, session_id: str, number: int, show: str, panel: str) -> str:
    """Returns what a reader has got that lost its connection right after event ``number``."""
    cursor = cursor_at(client, session_id, 0, show, panel)
    records = [record for record in cursor.writer.live.log.after(0) if record.n <= number]
    return "\n".join(event.data for event in parse_stream(cursor.render(records)))


def test_a_move_redraws_the_open_page(client: FlaskClient) -> None:
    chosen = say_to(client, "hello")
    session_id = chosen["sessionId"]
    opened = session_page(client, session_id)
    say_to(client, "list files")
    client.post("/api/branch", json={"leafId": chosen["leafId"]})
    swap(opened, whole_stream(client, session_id, int(chosen["events"][-1]["n"])))
    same(opened, session_page(client, session_id))
    assert [role for role, _ in shown(opened)] == ["user", "tutor"]


def test_an_interrupted_message_is_marked_on_an_open_page(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    app = new_app(FakeModel(held))
    _, session_id = start(app.test_client(), "q")
    held.wait()
    opened = session_page(app.test_client(), session_id)
    after = number_in(opened.select_one("#stream")["hx-sse:connect"])  # type: ignore[index]
    stop_app(app)
    client = new_app(FakeModel()).test_client()
    swap(opened, whole_stream(client, session_id, after))
    (cut,) = opened.select("#transcript > article.tutor")
    assert "cut off" in cut.get_text()
    assert not opened.select("[aria-busy]")


def test_every_piece_of_the_stream_has_an_id_and_a_number(client: FlaskClient) -> None:
    session_id = new_session(client)
    run_id, _ = start(client, "list files", sessionId=session_id)
    settle(client, run_id)
    response = client.get(f"/sessions/{session_id}/stream?after=0", buffered=False)
    chunks = response.iter_encoded()
    events = parse_stream(next(chunks)) + parse_stream(next(chunks))
    response.close()
    assert {event.event for event in events} == {""}
    numbers = [int(event.id) for event in events]
    assert numbers == sorted(numbers)
    assert numbers[-1] == live_session(client, session_id).snapshot().n
    for event in events:
        (piece,) = [tag for tag in page(event.data).contents if isinstance(tag, Tag)]
        assert piece.get("id") or piece.get("hx-target")


def test_a_stream_closes_for_good_only_when_the_session_is_deleted(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    path = f"/sessions/{session_id}/stream?after={live_session(client, session_id).snapshot().n}"
    response = client.get(path, buffered=False)
    client.delete(f"/api/sessions/{session_id}")
    events = parse_stream(response.data)
    assert [event.event for event in events] == ["", "", "close"]
    client.post(f"/api/sessions/{session_id}/restore")
    response = client.get(path.partition("?")[0], buffered=False)
    stop_app(client.application)
    assert "close" not in [event.event for event in parse_stream(response.data)]


def test_a_page_whose_log_was_lost_is_shown_all_again(client: FlaskClient, settings: Settings) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    response = client.get(f"/sessions/{session_id}/stream?after=999999999", buffered=False)
    events = events_of(chunks_of(response))
    pieces = [page(next(events).data) for _ in range(6)]
    response.close()
    places = [tag["id"] for piece in pieces for tag in piece.select("[hx-swap-oob]")]
    assert places == ["panel", "moved", "transcript", "name", "branches", "status"]
    assert [role for role, _ in shown(pieces[2])] == ["user", "tutor"]


def test_a_move_and_a_new_name_at_once_both_reach_the_page(client: FlaskClient) -> None:
    shape = say_to(client, "hello")
    live = live_session(client, shape["sessionId"])
    n = live.log.last
    client.post("/api/branch", json={"leafId": None, "sessionId": live.id})
    client.patch(f"/api/sessions/{live.id}", json={"name": "later"})
    cursor = cursor_at(client, live.id, n)
    pieces = page(cursor.render(live.log.after(n)).decode())
    assert "later" in pieces.get_text() and shown(pieces) == [] and cursor.n == live.log.last


def test_readers_who_see_the_same_share_what_was_rendered_and_others_do_not(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = new_app(FakeModel(call(("1", "list_files", {})), say("there"))).test_client()
    session_id = say_to(client, "hello")["sessionId"]
    rendered = []
    of = Writer.of

    def counted(writer: Writer, records: Any) -> Any:
        rendered.append(writer.view)
        return of(writer, records)

    monkeypatch.setattr(Writer, "of", counted)
    records = live_session(client, session_id).log.after(0)
    first, second, other = (cursor_at(client, session_id, 0, show=show) for show in ("raw", "raw", "workings"))
    assert first.render(records) == second.render(records) != other.render(records)
    assert [view.prefs.show for view in rendered] == ["raw", "workings"]
    first.render(records[1:])
    assert len(rendered) == 3, "what another range of records needs is not what was rendered before"
