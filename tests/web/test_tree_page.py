"""The session tree as a page and beside a lesson, and moving in it by forms."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from bs4 import BeautifulSoup
from bs4.element import Tag
from flask import Flask
from flask.testing import FlaskClient

from app.settings import Settings
from app.web.tree import PAGE_ROWS, PANEL_ROWS, tree_values
from tests.support import FakeModel, call, say
from tests.web.helpers import Gate, page, say_to, settle, start

NewApp = Callable[..., Flask]
NewGate = Callable[..., Gate]
HTMX = {"HX-Request": "true"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=y hx-get=/z>\"'&amp;`</details>{{ 7*7 }}"
STAMP = "2026-01-02T03:04:05.678Z"


def tree_page(client: FlaskClient, session_id: str, show: str = "lesson", **query: str) -> BeautifulSoup:
    response = client.get(f"/sessions/{session_id}/tree", query_string={"show": show, **query})
    assert response.status_code == 200
    return page(response.data)


def panel(client: FlaskClient, session_id: str, show: str = "lesson", *, oob: bool = False) -> BeautifulSoup:
    """The tree as it stands beside a lesson, made outside of a request as in the stream."""
    app = client.application
    picture = app.extensions["hornbook"].supervisor.open(session_id).snapshot()
    template = app.jinja_env.get_template("partials/tree.html")
    with app.app_context():
        return page(template.render(**tree_values(picture, base="", everything=False, show=show), oob=oob))


def opened(client: FlaskClient, session_id: str, entry_id: str, show: str = "lesson") -> BeautifulSoup:
    """What a row of the page opens: what is there, and what can be done there."""
    node = tree_page(client, session_id, show, node=entry_id).find(id="node")
    assert isinstance(node, Tag)
    return page(str(node))


def nodes(soup: BeautifulSoup) -> list[Tag]:
    """The rows of entries, in order, without the start and what is folded."""
    return soup.select("#panel ol.nodes > li[id^=n-]")


def node_of(soup: BeautifulSoup, text: str) -> Tag:
    return next(node for node in soup.select("#panel li[id^=n-]") if text in node.get_text())


def button(node: Tag, words: str) -> Tag | None:
    """Returns the button of a row whose visible text that is."""
    return next((found for found in node.find_all("button") if found.contents[0] == words), None)


def press(client: FlaskClient, soup: BeautifulSoup, pressed: Tag | None, **headers: str) -> Any:
    """Sends the form of a button as a browser without JavaScript does."""
    assert pressed is not None and not pressed.has_attr("disabled")
    form = soup.find("form", id=pressed["form"]) if pressed.has_attr("form") else pressed.find_parent("form")
    assert isinstance(form, Tag) and form["method"] == "post"
    fields = {str(field["name"]): str(field["value"]) for field in form.select("input[type=hidden]")}
    fields[str(pressed["name"])] = str(pressed["value"])
    return client.post(str(form["action"]), data=fields, headers=headers)


def leaf(client: FlaskClient, session_id: str) -> str | None:
    found: str | None = client.get(f"/api/session?sessionId={session_id}").json["leafId"]
    return found


def entry_ids(client: FlaskClient, session_id: str) -> list[str]:
    entries = client.get(f"/api/session?sessionId={session_id}").json["entries"]
    return [entry["id"] for entry in entries if entry["type"] == "message"]


def written(settings: Settings, name: str, *entries: dict[str, Any]) -> str:
    """A session file with these entries."""
    header = {"type": "session", "version": 3, "id": name, "timestamp": STAMP, "cwd": "/"}
    folder = settings.data / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(line) for line in (header, *entries)]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return name


def user_entry(entry_id: str, parent: str | None, text: str) -> dict[str, Any]:
    message = {"role": "user", "content": text, "timestamp": 1}
    return {"type": "message", "id": entry_id, "parentId": parent, "timestamp": STAMP, "message": message}


def chain(count: int) -> list[dict[str, Any]]:
    """A session of messages without a branch."""
    return [user_entry(f"m{n}", f"m{n - 1}" if n else None, f"line {n}") for n in range(count)]


def test_the_page_lists_messages_folds_steps_and_says_where_you_are(client: FlaskClient) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    soup = tree_page(client, session_id)
    assert soup.h1 is not None and soup.h1.get_text() == "Tree"
    rows = soup.select("ol.nodes > li")
    assert [row.get_text(" ", strip=True).split()[0] for row in rows] == ["Start", "You", "2", "Tutor"]
    summary = rows[2].summary
    assert summary is not None and summary.get_text() == "2 steps"
    assert len(rows[2].select("ol > li")) == 2
    here = soup.select("li[aria-current=true] > strong.here")
    assert [word.get_text() for word in here] == ["You are here"]
    assert rows[3]["aria-current"] == "true" and button(rows[3], "Continue here") is None
    assert button(rows[0], "Continue here") and not button(rows[1], "Continue here"), "a row opens what can be done"
    assert [str(link["href"]) for link in rows[1].select("a.open")] == [
        f"/sessions/{session_id}/tree?node={entry_ids(client, session_id)[0]}#{rows[1]['id']}"
    ]
    assert all("on" in row["class"] for row in rows)


def test_with_workings_each_call_has_a_row_and_raw_adds_ids_and_types(client: FlaskClient) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    shown = tree_page(client, session_id, "workings")
    assert len(nodes(shown)) == 4 and not shown.select("ol.nodes details")
    assert [code.get_text() for code in nodes(shown)[2].select("code")] == ["list_files"]
    raw = tree_page(client, session_id, "raw")
    assert [node.select("code.meta")[0].get_text() for node in nodes(raw)] == [
        f"{entry_id} message {role}"
        for entry_id, role in zip(
            entry_ids(client, session_id), ["user", "assistant", "toolResult", "assistant"], strict=True
        )
    ]


def test_rows_of_the_path_link_into_the_lesson_on_the_page_and_beside_it(client: FlaskClient) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    ids = entry_ids(client, session_id)
    call_id = client.get("/api/session").json["messages"][1]["content"][-1]["id"]
    anchors = [f"#m-{ids[0]}", f"#m-{ids[1]}", f"#c-{call_id}", f"#m-{ids[3]}"]
    on_page = [opened(client, session_id, one).select_one(".links a")["href"] for one in ids]  # type: ignore[index]
    assert on_page == [f"/sessions/{session_id}?around={one}{anchor}" for one, anchor in zip(ids, anchors, strict=True)]
    assert [str(link["href"]) for link in panel(client, session_id, "raw").select("ol.nodes a")] == anchors
    assert [str(node["id"]) for node in nodes(panel(client, session_id, "raw"))] == [f"n-{one}" for one in ids]
    lesson = page(client.get(f"/sessions/{session_id}?show=raw").data)
    assert all(lesson.find(id=anchor[1:]) for anchor in anchors)


def test_the_panel_can_be_sent_through_the_stream(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    (section,) = panel(client, session_id, oob=True).find_all("section")
    assert (section["id"], section["hx-swap-oob"]) == ("panel", "outerMorph") and section["aria-label"]
    assert not panel(client, session_id).select("[hx-swap-oob]")


def test_a_session_without_messages_says_so(client: FlaskClient) -> None:
    session_id = client.post("/api/sessions", json={}).json["sessionId"]
    soup = tree_page(client, session_id)
    assert "Nothing has been said here yet" in soup.select_one("#panel").get_text()  # type: ignore[union-attr]
    assert not soup.select("#panel button")
    assert not tree_page(client, session_id, node="nothing").find(id="node")


# Moving


def test_continue_here_moves_by_post_303_get_and_the_other_branch_stays_in_the_tree(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    say_to(client, "what is in README.md?", sessionId=session_id)
    soup = tree_page(client, session_id)
    answer = nodes(soup)[1]
    target = str(answer["id"]).removeprefix("n-")
    there = opened(client, session_id, target)
    response = press(client, there, button(there, "Continue here"))
    assert (response.status_code, response.headers["Location"]) == (303, f"/sessions/{session_id}#m-{target}")
    assert leaf(client, session_id) == target
    moved = tree_page(client, session_id)
    assert node_of(moved, "You are here")["id"] == answer["id"]
    say_to(client, "another way", sessionId=session_id)
    soup = tree_page(client, session_id)
    first, second = node_of(soup, "what is in README.md?"), node_of(soup, "another way")
    assert "2 branches begin here" in soup.find(id=answer["id"]).get_text()  # type: ignore[union-attr]
    assert [node.select_one(".branch").get_text() for node in (first, second)] == [  # type: ignore[union-attr]
        "Branch 1 of 2 fold",
        "Branch 2 of 2, the one you are in fold",
    ]
    assert ["on" in node["class"] for node in (first, second)] == [False, True]
    assert "d0" in answer["class"] and "d1" in first["class"] and "d1" in second["class"]
    ids = [str(node["id"]).removeprefix("n-") for node in (first, second)]
    leads = ["In the lesson" in opened(client, session_id, one).get_text() for one in ids]
    assert leads == [False, True]
    assert "end of this branch" in soup.get_text()


def test_the_start_can_be_gone_back_to(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    soup = tree_page(client, session_id)
    first = soup.select("ol.nodes > li")[0]
    response = press(client, soup, button(first, "Continue here"))
    assert (response.status_code, response.headers["Location"]) == (303, f"/sessions/{session_id}")
    assert leaf(client, session_id) is None
    start_row = tree_page(client, session_id).select("ol.nodes > li")[0]
    assert start_row["aria-current"] == "true" and "You are here" in start_row.get_text()
    say_to(client, "again", sessionId=session_id)
    start_row = tree_page(client, session_id).select("ol.nodes > li")[0]
    assert "2 branches begin here" in start_row.get_text()


def test_a_move_to_a_tool_result_leads_to_its_call(client: FlaskClient) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    call_id = client.get("/api/session").json["messages"][1]["content"][-1]["id"]
    step = tree_page(client, session_id).select("ol.nodes details li")[1]
    there = opened(client, session_id, str(step["id"]).removeprefix("n-"))
    assert press(client, there, button(there, "Continue here")).headers["Location"].endswith(f"#c-{call_id}")


def test_htmx_gets_nothing_back_since_the_move_comes_through_the_stream(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    soup = panel(client, session_id)
    pressed = button(nodes(soup)[0], "Continue here")
    assert pressed is not None
    form = pressed.find_parent("form")
    assert isinstance(form, Tag) and (form["hx-post"], form["hx-swap"]) == (form["action"], "none")
    response = press(client, soup, pressed, **HTMX)
    assert (response.status_code, response.data) == (204, b"")
    assert leaf(client, session_id) == pressed["value"]


def test_a_message_of_ones_own_can_be_asked_differently(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    say_to(client, "second", sessionId=session_id)
    ids = entry_ids(client, session_id)
    soup = panel(client, session_id)
    assert button(opened(client, session_id, ids[2]), "Ask this differently")
    pressed = button(node_of(soup, "second"), "Ask this differently")
    assert pressed is not None
    form = soup.find("form", id=pressed["form"])
    assert isinstance(form, Tag) and not form.has_attr("hx-post"), "the lesson opens anew, with the text in its form"
    response = press(client, soup, pressed)
    assert (response.status_code, response.headers["Location"]) == (303, f"/sessions/{session_id}?edit={ids[2]}#text")
    assert leaf(client, session_id) == ids[1]
    press(client, soup, button(node_of(soup, "hello"), "Ask this differently"))
    assert leaf(client, session_id) is None
    assert button(nodes(soup)[1], "Ask this differently") is None


def test_a_message_whose_parent_is_lost_is_asked_differently_at_the_start(new_app: NewApp, settings: Settings) -> None:
    name = written(settings, "orphan", user_entry("a", "lost", "hello"), user_entry("b", "a", "more"))
    client = new_app().test_client()
    assert client.post(f"/sessions/{name}/branch", data={"edit": "a"}).status_code == 303
    assert leaf(client, name) is None


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({}, 422, "form field entry"),
        ({"entry": "nothing"}, 404, "nothing"),
        ({"edit": "nothing"}, 404, "nothing"),
        ({"edit": ""}, 422, "form field entry"),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_cannot_be_gone_to_is_refused_with_a_sentence_and_moves_nothing(
    client: FlaskClient, fields: dict[str, str], status: int, words: str, headers: dict[str, str]
) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    before = leaf(client, session_id)
    response = client.post(f"/sessions/{session_id}/branch", data=fields, headers=headers)
    assert response.status_code == status and words in page(response.data).get_text()
    assert leaf(client, session_id) == before


def test_only_a_message_of_ones_own_is_asked_differently(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    response = client.post(f"/sessions/{session_id}/branch", data={"edit": entry_ids(client, session_id)[1]})
    assert response.status_code == 422 and "your own" in page(response.data).get_text()


def test_no_tree_and_no_move_in_a_session_that_is_not_there(client: FlaskClient) -> None:
    assert client.get("/sessions/nobody/tree").status_code == 404
    assert client.post("/sessions/nobody/branch", data={"entry": ""}).status_code == 404


def test_while_a_run_works_nothing_can_be_moved_and_the_tree_says_why(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held)).test_client()
    run_id, session_id = start(client, "q")
    held.wait()
    for soup in (tree_page(client, session_id), panel(client, session_id)):
        assert "Stop the run to move" in soup.select_one("#panel .note").get_text()  # type: ignore[union-attr]
        buttons = soup.select("#panel button[name=entry]")
        assert buttons and all(one.has_attr("disabled") for one in buttons)
    response = client.post(f"/sessions/{session_id}/branch", data={"entry": ""})
    assert response.status_code == 409 and "A run is working" in page(response.data).get_text()
    held.open.set()
    settle(client, run_id)
    assert not any(
        one.has_attr("disabled") for one in tree_page(client, session_id).select("#panel button[name=entry]")
    )


def test_a_session_that_is_read_only_can_be_looked_at_but_not_moved(new_app: NewApp, settings: Settings) -> None:
    name = written(settings, "plain", user_entry("a", None, "hello"), user_entry("b", "a", "more"))
    file = settings.data / "sessions" / f"{name}.jsonl"
    file.write_text(file.read_text("utf-8").replace('"version": 3', '"version": 99'), "utf-8")
    client = new_app().test_client()
    soup = tree_page(client, name)
    assert "Read-only" in soup.select_one("#panel .note").get_text()  # type: ignore[union-attr]
    changing = soup.select("#panel form[method=post] button:not([formaction])")
    copies = [one for one in changing if "Copy" in one.get_text()]
    assert len(copies) == 1 and all(one.has_attr("disabled") for one in changing if one not in copies)


def test_the_tree_grows_while_the_run_goes_on(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(call(("c1", "list_files", {"path": "."})), held)).test_client()
    run_id, session_id = start(client, "q")
    held.wait()
    assert [str(node["class"][1]) for node in nodes(panel(client, session_id, "workings"))] == ["user", "tutor", "tool"]
    held.open.set()
    settle(client, run_id)
    assert len(nodes(panel(client, session_id, "workings"))) == 4


# Large and hostile


def test_beside_the_lesson_a_large_tree_is_short_and_leads_to_the_whole_one(
    new_app: NewApp, settings: Settings
) -> None:
    entries = [
        user_entry(f"m{number}", f"m{number - 1}" if number else None, f"line {number}") for number in range(400)
    ]
    name = written(settings, "large", *entries)
    client = new_app().test_client()
    soup = panel(client, name)
    assert len(nodes(soup)) == PANEL_ROWS
    (gap,) = soup.select("li.gap a")
    assert gap["href"] == f"/sessions/{name}/tree" and gap.get_text() == "… 280 more rows: open the whole tree"
    assert len(str(soup)) < 120_000
    whole = tree_page(client, name)
    assert len(nodes(whole)) == PAGE_ROWS and len(str(whole)) < 400_000
    (gap,) = whole.select("li.gap a")
    assert gap.get_text() == "… 150 rows are left out here"
    further = page(client.get(str(gap["href"]).partition("#")[0]).data)
    assert further.find(id=str(gap["href"]).partition("#")[2]), "the gap leads to what it left out"


def test_a_tree_too_large_for_its_page_says_so(
    new_app: NewApp, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("app.web.tree"), "PAGE_ROWS", 10)
    soup = tree_page(new_app().test_client(), written(settings, "large", *chain(30)))
    assert "This tree has 30 rows. The 10 nearest" in soup.select_one("#panel .note").get_text()  # type: ignore[union-attr]
    assert [gap.get_text() for gap in soup.select("li.gap")] == ["… 20 rows are left out here"]


def test_rails_end_at_three_and_the_rest_is_a_number(new_app: NewApp, settings: Settings) -> None:
    entries: list[dict[str, Any]] = []
    for number in range(6):
        above = f"m{number - 1}" if number else None
        entries += [user_entry(f"o{number}", above, "other"), user_entry(f"m{number}", above, "on")]
    soup = tree_page(new_app().test_client(), written(settings, "deep", *entries))
    deepest = soup.find(id="n-m5")
    assert isinstance(deepest, Tag) and "d3" in deepest["class"]
    assert deepest.select_one(".deeper").get_text() == "3 deeper"  # type: ignore[union-attr]


@pytest.mark.parametrize("show", ["lesson", "raw"])
def test_texts_names_and_ids_from_elsewhere_stay_text(new_app: NewApp, settings: Settings, show: str) -> None:
    bad_id = HOSTILE + " id"
    result = {"role": "toolResult", "toolCallId": HOSTILE, "toolName": HOSTILE, "content": HOSTILE, "timestamp": 1}
    name = written(
        settings,
        "hostile",
        user_entry(bad_id, None, HOSTILE * 3),
        {"type": "message", "id": "r", "parentId": bad_id, "timestamp": STAMP, "message": result},
        user_entry("side", bad_id, HOSTILE * 3),
        {"type": "session_info", "id": "i", "parentId": "side", "timestamp": STAMP, "name": HOSTILE},
    )
    client = new_app().test_client()
    response = client.get(f"/sessions/{name}/tree?show={show}")
    soup = page(response.data)
    assert "49" not in soup.select_one("#panel").get_text()  # type: ignore[union-attr]
    assert not soup.select("#panel script, #panel img, #panel [onerror], #panel [hx-get='/z']")
    assert HOSTILE[:40] in nodes(soup)[0].get_text()
    all_ids = [str(tag["id"]) for tag in soup.find_all(id=True)]
    assert len(all_ids) == len(set(all_ids)) and all(" " not in one for one in all_ids)
    there = opened(client, name, bad_id, show)
    assert press(client, there, button(there, "Continue here")).status_code == 303
    assert leaf(client, name) == bad_id


def test_the_api_moves_in_the_same_way(client: FlaskClient) -> None:
    session_id = say_to(client, "hello")["sessionId"]
    first = entry_ids(client, session_id)[0]
    assert client.post("/api/branch", json={"sessionId": session_id, "leafId": first}).json["leafId"] == first
    assert node_of(tree_page(client, session_id), "You are here")["id"] == f"n-{first}"


def test_a_failed_call_is_marked_and_told_of_on_its_fold(new_app: NewApp) -> None:
    client = new_app(FakeModel(call(("c1", "no_such_tool", {})), say("done"))).test_client()
    session_id = say_to(client, "q")["sessionId"]
    soup = tree_page(client, session_id)
    fold = soup.select_one("ol.nodes summary .mark")
    assert fold is not None and fold.get_text() == "1 not done"
    assert soup.select("ol.nodes details li")[1].select_one(".mark").get_text() == "not done"  # type: ignore[union-attr]


def test_nothing_in_the_piece_needs_more_than_the_policy_allows(client: FlaskClient) -> None:
    session_id = say_to(client, "list files")["sessionId"]
    for tag in panel(client, session_id, "raw").find_all(True):
        assert tag.name != "script" and not any(name == "style" or name.startswith("on") for name in tag.attrs)


def test_a_page_of_a_file_that_cannot_be_read_still_opens(client: FlaskClient, settings: Settings) -> None:
    (settings.data / "sessions" / "broken.jsonl").write_bytes(b"\x00\x01 not a session\n" * 3)
    assert "Nothing has been said" in tree_page(client, "broken").get_text()
