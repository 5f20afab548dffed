"""A session's page and those beside it: passages, moves, what the composer holds, what stands behind a message."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from bs4.element import Tag
from flask import Flask
from flask.testing import FlaskClient

from app.protocol.codec import encode_line
from app.settings import Settings
from app.web.session_page import PASSAGES
from tests.support import FakeModel, call, say
from tests.web.helpers import page, say_to

NewApp = Callable[..., Flask]


def open_page(client: FlaskClient, session_id: str, rest: str = "") -> BeautifulSoup:
    response = client.get(f"/sessions/{session_id}{rest}")
    assert response.status_code == 200, response.text
    return page(response.data)


def only(soup: BeautifulSoup, selector: str) -> Tag:
    (found,) = soup.select(selector)
    return found


def entries_of(client: FlaskClient, session_id: str, role: str = "") -> list[str]:
    """Returns the ids of a session's messages, of all branches, in the order of its file."""
    entries = client.get(f"/api/session?sessionId={session_id}").json["entries"]
    return [one["id"] for one in entries if one["type"] == "message" and role in ("", one["message"]["role"])]


def leaf(client: FlaskClient, session_id: str) -> str | None:
    found: str | None = client.get(f"/api/session?sessionId={session_id}").json["leafId"]
    return found


def move(client: FlaskClient, session_id: str, entry_id: str) -> None:
    assert client.post(f"/sessions/{session_id}/branch", data={"entry": entry_id}).status_code == 303


def press(client: FlaskClient, form: Tag | None) -> Any:
    """Sends a form as a browser without JavaScript does."""
    assert form is not None and form["method"] == "post"
    fields = {str(field["name"]): str(field["value"]) for field in form.select("input[type=hidden]")}
    response = client.post(str(form["action"]), data=fields)
    assert response.status_code == 303
    return response


def typed(soup: BeautifulSoup) -> str:
    """Returns what the composer holds; a browser drops the line break that begins a textarea."""
    return only(soup, "#composer textarea").get_text().removeprefix("\n")


@pytest.fixture
def lesson(client: FlaskClient) -> str:
    """A session in which two things were said, the second with a tool."""
    session_id = str(say_to(client, "hello")["sessionId"])
    say_to(client, "list files", sessionId=session_id)
    return session_id


# Passages


def reads(*ranges: tuple[str, int, int]) -> list[Any]:
    """A turn of a model that reads these parts of files, and one that ends it."""
    calls = [
        (f"c{index}-{path}-{offset}-{limit}", "read_file", {"path": path, "offset": offset, "limit": limit})
        for index, (path, offset, limit) in enumerate(ranges)
    ]
    return [call(*calls), say("Read.")]


def passages(soup: BeautifulSoup) -> list[tuple[str, str]]:
    """Returns the passages beside a lesson: where each leads, and its words."""
    return [
        (str(row.a["href"]) if row.a else "", row.get_text(" ", strip=True)) for row in soup.select("#side #panel li")
    ]


def test_passages_stand_beside_a_lesson_each_once_the_newest_last(new_app: NewApp) -> None:
    first = reads(("README.md", 1, 9), ("lessons/潮汐.md", 3, 1), ("README.md", 2, 2), ("gone.md", 1, 1))
    client = new_app(FakeModel(*first, *reads(("README.md", 1, 9)))).test_client()
    session_id = say_to(client, "read")["sessionId"]
    whole, part = ("/files/README.md", "README.md"), ("/files/README.md?lines=2-3#L2", "README.md 2-3")
    other = ("/files/lessons/%E6%BD%AE%E6%B1%90.md?lines=3#L3", "lessons/潮汐.md 3-3")
    assert passages(open_page(client, session_id)) == [whole, other, part], "what could not be read is no passage"
    say_to(client, "read again", sessionId=session_id)
    soup = open_page(client, session_id)
    assert passages(soup) == [other, part, whole]
    assert not soup.select(".tabs"), "a lesson has the passages beside it and nothing else"
    for address, _ in passages(soup):
        shown = client.get(address.partition("#")[0])
        assert shown.status_code == 200
        assert "#" not in address or page(shown.data).find(id=address.partition("#")[2])


def test_at_most_twelve_passages_are_shown_the_newest(new_app: NewApp, workspace: Path) -> None:
    (workspace / "long.md").write_text("line\n" * 40, "utf-8")
    client = new_app(FakeModel(*reads(*(("long.md", line, 1) for line in range(1, 17))))).test_client()
    session_id = say_to(client, "read")["sessionId"]
    shown = [words for _, words in passages(open_page(client, session_id))]
    assert len(shown) == PASSAGES == 12
    assert shown == [f"long.md {line}-{line}" for line in range(5, 17)]


def test_passages_are_those_of_the_way_here_and_without_any_there_is_no_heading(new_app: NewApp) -> None:
    client = new_app(FakeModel(say("Hello."), *reads(("README.md", 1, 9)))).test_client()
    session_id = say_to(client, "hello")["sessionId"]
    say_to(client, "read", sessionId=session_id)
    assert passages(open_page(client, session_id))
    move(client, session_id, entries_of(client, session_id)[1])
    panel = only(open_page(client, session_id), "#side #panel")
    assert panel.get_text(strip=True) == "" and not panel.has_attr("aria-label")


# Moves


def test_a_move_is_told_and_undone(client: FlaskClient, lesson: str) -> None:
    answer, end = entries_of(client, lesson)[1], leaf(client, lesson)
    assert not open_page(client, lesson).select("#moved form")
    move(client, lesson, answer)
    notice = only(open_page(client, lesson), "#moved form")
    assert 'You went to "hello".' in notice.get_text()
    press(client, notice)
    assert leaf(client, lesson) == end
    assert not open_page(client, lesson).select("#moved form"), "who is back where he was has not moved"


def test_several_moves_are_undone_as_one_and_the_start_has_its_own_words(client: FlaskClient, lesson: str) -> None:
    ids, end = entries_of(client, lesson), leaf(client, lesson)
    for place in (ids[1], ids[0], ""):
        move(client, lesson, place)
    notice = only(open_page(client, lesson), "#moved form")
    assert "You went back to the start." in notice.get_text()
    press(client, notice)
    assert leaf(client, lesson) == end


def test_once_something_is_said_there_is_no_move_to_undo(client: FlaskClient, lesson: str) -> None:
    move(client, lesson, entries_of(client, lesson)[1])
    say_to(client, "another way", sessionId=lesson)
    assert not open_page(client, lesson).select("#moved form")


def test_a_new_name_after_a_move_hides_nothing(client: FlaskClient, lesson: str) -> None:
    move(client, lesson, entries_of(client, lesson)[1])
    client.post(f"/sessions/{lesson}/name", data={"name": "Tides"})
    assert open_page(client, lesson).select("#moved form")


def test_the_words_of_a_move_are_text(new_app: NewApp) -> None:
    client = new_app(FakeModel(say("a"), say("b"))).test_client()
    session_id = say_to(client, "<img src=x onerror=y> %(text)s {{ 7*7 }}")["sessionId"]
    ids = entries_of(client, session_id)
    say_to(client, "more", sessionId=session_id)
    move(client, session_id, ids[1])
    notice = only(open_page(client, session_id), "#moved form")
    assert "<img src=x onerror=y> %(text)s {{ 7*7 }}" in notice.get_text() and not notice.select("img")


# What the composer holds


def test_a_message_to_be_asked_differently_stands_in_the_composer_only_until_something_is_said(
    client: FlaskClient, lesson: str
) -> None:
    first, answer, second = entries_of(client, lesson)[:3]
    assert typed(open_page(client, lesson, f"?edit={second}")) == "", "it has been asked, and nothing was taken back"
    address = str(client.post(f"/sessions/{lesson}/branch", data={"edit": second}).headers["Location"])
    assert typed(page(client.get(address).data)) == "list files"
    for other in (answer, first, "none", ""):
        assert typed(open_page(client, lesson, f"?edit={other}")) == "", other
    say_to(client, "another way", sessionId=lesson)
    assert typed(page(client.get(address).data)) == "", "a page that is loaded again must not offer it once more"


def test_the_very_first_message_can_be_asked_differently_with_all_its_lines(new_app: NewApp) -> None:
    text = "\n one\n</textarea><script>x</script>\ntwo "
    client = new_app(FakeModel(say("a"))).test_client()
    session_id = say_to(client, text)["sessionId"]
    first = entries_of(client, session_id)[0]
    client.post(f"/sessions/{session_id}/branch", data={"edit": first})
    assert typed(open_page(client, session_id, f"?edit={first}")) == text
    assert typed(open_page(client, session_id)) == ""


def test_ways_to_begin_are_offered_where_nothing_was_said(client: FlaskClient) -> None:
    session_id = str(client.post("/api/sessions", json={}).json["sessionId"])
    forms = open_page(client, session_id).select(".start form")
    assert len(forms) >= 3
    assert all(form.button and form.button.get_text() == form.input["value"] for form in forms if form.input)
    press(client, forms[0])
    said = client.get(f"/api/session?sessionId={session_id}").json["messages"][0]["content"]
    assert forms[0].button is not None and forms[0].button.get_text() in json.dumps(said)


# What stands behind a message


def code_of(soup: BeautifulSoup) -> Any:
    return json.loads(only(soup, "pre.code").get_text())


def test_an_entry_is_shown_as_it_is_stored(client: FlaskClient, lesson: str, settings: Settings) -> None:
    lines = (settings.data / "sessions").glob("*.jsonl")
    stored = {one["id"]: one for file in lines for one in map(json.loads, file.read_text("utf-8").splitlines())}
    for entry_id in entries_of(client, lesson):
        soup = open_page(client, lesson, f"/entries/{entry_id}")
        assert code_of(soup) == stored[entry_id]
        tree = next(str(link["href"]) for link in soup.select("main a") if link.get_text() == "In the tree")
        path, _, anchor = tree.partition("#")
        assert page(client.get(f"{path}?show=raw").data).find(id=anchor)


def test_a_request_holds_instructions_tools_and_the_messages_before_the_answer(new_app: NewApp) -> None:
    model = FakeModel(say("one"), call(("c1", "list_files", {"path": "."})), say("three"))
    client = new_app(model).test_client()
    session_id = say_to(client, "hello <b>水</b>")["sessionId"]
    say_to(client, "list", sessionId=session_id)
    answers = entries_of(client, session_id, "assistant")
    assert len(answers) == len(model.requests) == 3
    for entry_id, sent in zip(answers, model.requests, strict=True):
        soup = open_page(client, session_id, f"/requests/{entry_id}")
        made = code_of(soup)
        assert made["systemPrompt"] == sent.system_prompt
        assert [tool["name"] for tool in made["tools"]] == [tool.name for tool in sent.tools]
        assert made["messages"] == json.loads(encode_line(sent.messages))
        assert "hello <b>水</b>" in only(soup, "pre.code").get_text() and not soup.select("pre b")
        assert soup.select(f'main a[href="/sessions/{session_id}/entries/{entry_id}"]')


def test_the_request_of_an_answer_on_another_branch_holds_that_branch(client: FlaskClient, lesson: str) -> None:
    answers = entries_of(client, lesson, "assistant")
    move(client, lesson, "")
    say_to(client, "from the start", sessionId=lesson)
    old = code_of(open_page(client, lesson, f"/requests/{answers[-1]}"))
    assert [one["role"] for one in old["messages"]] == ["user", "assistant", "user", "assistant", "toolResult"]
    newest = entries_of(client, lesson, "assistant")[-1]
    new = code_of(open_page(client, lesson, f"/requests/{newest}"))
    assert "from the start" in json.dumps(new["messages"]) and "hello" not in json.dumps(new["messages"])


def test_what_there_is_not_has_no_page(client: FlaskClient, lesson: str) -> None:
    asked, answer, _, _, result, _ = entries_of(client, lesson)
    for path in (
        f"{lesson}/entries/none",
        f"{lesson}/entries/%3Cscript%3E",
        f"{lesson}/requests/none",
        f"{lesson}/requests/{asked}",
        f"{lesson}/requests/{result}",
        f"nobody/entries/{asked}",
        f"nobody/requests/{answer}",
        f"{lesson}/nothing",
        "nobody/workings",
    ):
        response = client.get(f"/sessions/{path}")
        assert response.status_code == 404, path
        assert not page(response.data).select("main script")


# Panels


@pytest.mark.parametrize(("name", "heading"), [("workings", "Workings"), ("tree", "Tree"), ("tools", "Tools")])
def test_a_panel_is_a_page_with_the_dial_and_the_way_back(
    client: FlaskClient, lesson: str, name: str, heading: str
) -> None:
    for show in ("lesson", "workings", "raw"):
        soup = open_page(client, lesson, f"/{name}?show={show}")
        assert only(soup, "h1").get_text() == heading
        assert [str(link["data-dial"]) for link in soup.select("#dial [aria-current=true]")] == [show]
        assert [str(link["href"]) for link in soup.select("#dial a")] == [
            f"/sessions/{lesson}/{name}?show={stop}" for stop in ("lesson", "workings", "raw")
        ]
        assert [link.get_text() for link in soup.select(".tabs [aria-current=page]")] == [heading]
        assert soup.select(f'.tabs a[href="/sessions/{lesson}"]')
        panel = only(soup, "#panel")
        assert panel.get_text(strip=True) and not panel.has_attr("hx-swap-oob")
        stream = str(only(soup, "#stream")["hx-sse:connect"])
        assert f"show={show}" in stream and "only=panel" in stream


def test_the_dial_decides_how_much_a_panel_tells(client: FlaskClient, lesson: str) -> None:
    def pages(show: str) -> list[BeautifulSoup]:
        return [open_page(client, lesson, f"/{name}?show={show}") for name in ("workings", "tree", "tools")]

    for show, raw in (("lesson", False), ("workings", False), ("raw", True)):
        workings, tree, tools = pages(show)
        assert bool(workings.select("#panel code.raw")) is raw
        assert bool(tree.select("#panel ol.nodes details")) is (show == "lesson"), "steps are folded in a lesson"
        assert bool(tools.select("#panel details pre")) is raw


@pytest.mark.parametrize("panel", ["timeline", "tree", "tools"])
def test_with_workings_a_panel_stands_beside_the_lesson(client: FlaskClient, lesson: str, panel: str) -> None:
    soup = open_page(client, lesson, f"?show=workings&panel={panel}")
    current = only(soup, "#side .tabs [aria-current=true]")
    assert str(current["href"]).endswith(f"panel={panel}")
    assert panel in only(soup, "#side #panel").get_attribute_list("class")
    assert soup.find(id="transcript") and f"panel={panel}" in str(only(soup, "#stream")["hx-sse:connect"])


def test_a_panel_that_there_is_not_is_the_first(client: FlaskClient, lesson: str) -> None:
    soup = open_page(client, lesson, "?show=workings&panel=../secrets")
    assert "timeline" in only(soup, "#side #panel").get_attribute_list("class")
    assert "secrets" not in str(only(soup, "#stream")["hx-sse:connect"])


def test_an_entry_with_a_lone_surrogate_is_shown(client: FlaskClient, settings: Settings) -> None:
    stamp = "2026-01-02T03:04:05.678Z"
    message = {"role": "user", "content": "x \ud800 y"}
    lines = [
        {"type": "session", "version": 3, "id": "torn", "timestamp": stamp, "cwd": "/"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": stamp, "message": message},
    ]
    folder = settings.data / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "torn.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
    assert client.get("/sessions/torn/entries/a").status_code == 200
