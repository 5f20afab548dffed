"""The tree's page: filters, search, folds, what a row opens, names, the main line, comparing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from bs4 import BeautifulSoup
from bs4.element import Tag
from flask import Flask
from flask.testing import FlaskClient

from app.settings import Settings
from tests.web.helpers import page, say_to
from tests.web.test_exchange_pages import message, put, two_branches

NewApp = Callable[..., Flask]


def tree(client: FlaskClient, session_id: str, **query: str) -> BeautifulSoup:
    answer = client.get(f"/sessions/{session_id}/tree", query_string=query)
    assert answer.status_code == 200
    return page(answer.data)


def rows(soup: BeautifulSoup) -> list[str]:
    return [str(row["id"]).removeprefix("n-") for row in soup.select("ol.nodes li[id^=n-]")]


def label(client: FlaskClient, session_id: str, entry_id: str, name: str) -> Any:
    return client.post(f"/sessions/{session_id}/label", data={"entry": entry_id, "label": name})


def test_each_filter_keeps_its_rows_and_hangs_them_on_the_nearest_one_above(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    label(client, session_id, ids[3], "the fork")
    assert rows(tree(client, session_id, filter="all")) == ids
    assert rows(tree(client, session_id, filter="mine")) == [ids[0], ids[4], *ids[8:9]]
    mine = tree(client, session_id, filter="mine")
    assert [one.get_text(" ", strip=True)[:13] for one in mine.select(".branch")] == ["Branch 1 of 2", "Branch 2 of 2"]
    assert rows(tree(client, session_id, filter="labelled")) == [ids[3]]
    tools = {one for one, kind in zip(ids, kinds(client, session_id), strict=True) if kind == "toolResult"}
    assert not tools & set(rows(tree(client, session_id, filter="no-tools")))
    current = mine.select_one("#panel .choice [aria-current=true]")
    assert current is not None and current.get_text() == "Only mine"
    assert rows(tree(client, session_id, filter="nonsense")), "what cannot be is passed over"


def kinds(client: FlaskClient, session_id: str) -> list[str]:
    entries = client.get(f"/api/session?sessionId={session_id}").json["entries"]
    return [entry["message"]["role"] for entry in entries if entry["type"] == "message"]


def test_a_search_looks_into_whole_texts_names_and_tools_and_marks_what_it_found(
    new_app: NewApp, settings: Settings
) -> None:
    name = put(
        settings,
        "one",
        message("u", None, "user", "What is a PIVOT? " + "filler " * 100 + "Straße"),
        message(
            "a",
            "u",
            "assistant",
            [{"type": "toolCall", "id": "c", "name": "read_file", "arguments": {"path": "rank.md"}}],
        ),
        message("r", "a", "toolResult", "nothing", toolCallId="c", toolName="read_file"),
        message("v", "u", "user", "another pivot"),
    )
    client = new_app().test_client()
    label(client, name, "v", "Zeitpunkt")
    assert rows(tree(client, name, find="pivot")) == ["u", "v"]
    assert rows(tree(client, name, find="STRASSE pivot")) == ["u"]
    assert rows(tree(client, name, find="zeitpunkt")) == ["v"]
    assert rows(tree(client, name, find="rank.md")) == ["a"]
    found = tree(client, name, find="pivot")
    assert [mark.get_text() for mark in found.select("mark")] == ["PIVOT", "pivot"]
    assert "2 entries have it" in found.select_one("[role=status]").get_text()  # type: ignore[union-attr]
    none = tree(client, name, find="<b>nothing")
    assert rows(none) == [] and "0 entries have it" in none.get_text()
    assert none.select_one("#find")["value"] == "<b>nothing"  # type: ignore[index]


def test_more_hits_than_fit_are_the_newest_and_are_counted(new_app: NewApp, settings: Settings) -> None:
    entries = [message(f"m{n}", f"m{n - 1}" if n else None, "user", f"word {n}") for n in range(230)]
    found = tree(new_app().test_client(), put(settings, "many", *entries), find="word")
    assert rows(found) == [f"m{n}" for n in range(30, 230)]
    assert "230 entries have it" in found.get_text() and "The newest 200" in found.get_text()


def test_a_branch_folds_by_a_link_and_unfolds_by_another(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    soup = tree(client, session_id, filter="all")
    fold = soup.select("a.fold")
    assert [one.get_text() for one in fold] == ["fold", "fold"]
    folded = page(client.get(str(fold[0]["href"]).partition("#")[0]).data)
    assert rows(folded) == [*ids[:5], *ids[8:]]
    unfold = folded.select("a.fold")[0]
    assert unfold.get_text() == "unfold 3 rows"
    assert rows(page(client.get(str(unfold["href"]).partition("#")[0]).data)) == ids
    assert "4 branches" not in folded.get_text() and "2 branches" in folded.get_text()


def asked_twice(settings: Settings) -> str:
    """A question that was answered twice, each time after a look into a file, and once talked about further."""
    used = {"id": "c", "type": "toolCall", "name": "read_file", "arguments": {"path": "rank.md"}}
    return put(
        settings,
        "twice",
        message("u", None, "user", "What is a pivot?"),
        message("a1", "u", "assistant", [used]),
        message("r1", "a1", "toolResult", "seen", toolCallId="c", toolName="read_file"),
        message("a2", "r1", "assistant", [{"type": "text", "text": "First answer"}]),
        message("u2", "a2", "user", "go on"),
        message("b1", "u", "assistant", [used]),
        message("r2", "b1", "toolResult", "seen", toolCallId="c", toolName="read_file"),
        message("b2", "r2", "assistant", [{"type": "text", "text": "Second answer"}]),
    )


def test_a_branch_that_begins_with_steps_folds_with_them_and_unfolds(new_app: NewApp, settings: Settings) -> None:
    client, name = new_app().test_client(), asked_twice(settings)
    whole = tree(client, name)
    fold = whole.select("a.fold")
    assert [str(one["href"]).partition("#")[2] for one in fold] == ["n-a1", "n-b1"]
    folded = page(client.get(str(fold[0]["href"]).partition("#")[0]).data)
    assert rows(folded) == ["u", "a1", "b1", "r2", "b2"]
    assert [one.get_text() for one in folded.select("a.fold")] == ["unfold 3 rows", "fold"]
    unfold = str(folded.select("a.fold")[0]["href"]).partition("#")[0]
    assert rows(page(client.get(unfold).data)) == rows(whole)


def test_a_search_and_a_part_of_the_tree_say_nothing_untrue_about_branches(new_app: NewApp, settings: Settings) -> None:
    client, name = new_app().test_client(), asked_twice(settings)
    assert "3 messages since the fork" in tree(client, name).select_one("#n-u2").get_text(" ", strip=True)  # type: ignore[union-attr]
    real_ends: tuple[tuple[dict[str, str], list[str]], ...] = (({"find": "answer"}, []), ({"filter": "mine"}, ["n-u2"]))
    for asked, ends in real_ends:
        part = tree(client, name, **asked)
        assert "since the fork" not in part.get_text()
        assert [row["id"] for row in part.select("li[id^=n-]") if "end of this branch" in row.get_text()] == ends


def test_a_search_looks_below_folds_shows_none_and_keeps_them(new_app: NewApp, settings: Settings) -> None:
    client, name = new_app().test_client(), asked_twice(settings)
    found = tree(client, name, find="answer", fold="u,a2")
    assert rows(found) == ["a2", "b2"] and not found.select("a.fold")
    assert found.select_one("form.find input[name=fold]")["value"] == "u,a2"  # type: ignore[index]
    back = found.find("a", string="Show the tree again")
    assert isinstance(back, Tag) and rows(page(client.get(str(back["href"])).data)) == ["u"]


def test_a_row_of_a_search_shows_the_words_that_were_found(new_app: NewApp, settings: Settings) -> None:
    name = put(settings, "far", message("u", None, "user", "filler " * 300 + "and a pivot in the end"))
    soup = tree(new_app().test_client(), name, find="pivot")
    assert [mark.get_text() for mark in soup.select("#n-u a.open mark")] == ["pivot"]


def test_what_is_compared_is_named_by_what_was_said_and_where_the_ways_part(
    new_app: NewApp, settings: Settings
) -> None:
    client, name = new_app().test_client(), asked_twice(settings)
    soup = page(client.get(f"/sessions/{name}/compare?a=b2&b=u2").data)
    assert [head.get_text() for head in soup.select(".sides section > h2")] == ["Second answer", "First answer"]
    assert 'Both ways begin after "What is a pivot?".' in soup.get_text()
    model = {"type": "model_change", "parentId": "u", "timestamp": "2026-01-02T03:04:05.678Z"}
    forked = put(
        settings,
        "model",
        message("u", None, "user", "first"),
        {**model, "id": "m", "provider": "p", "modelId": "x"},
        message("a", "m", "user", "one way"),
        message("b", "m", "user", "other way"),
    )
    soup = page(client.get(f"/sessions/{forked}/compare?a=a&b=b").data)
    assert 'Both ways begin after "first".' in soup.get_text()


def test_a_side_of_a_comparison_says_how_many_messages_it_does_not_show(new_app: NewApp, settings: Settings) -> None:
    entries = [message(f"m{n}", f"m{n - 1}" if n else None, "user", f"line {n}") for n in range(80)]
    name = put(settings, "many", *entries, message("other", "m9", "user", "other"))
    soup = page(new_app().test_client().get(f"/sessions/{name}/compare?a=m79&b=other").data)
    long, short = soup.select(".sides > section")
    assert len(long.select(".user")) == 50 and "20 more messages" in long.get_text()
    assert len(short.select(".user")) == 1 and "more message" not in short.get_text()


def test_a_row_opens_what_is_there_and_what_can_be_done(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    node = tree(client, session_id, node=ids[4]).select_one("#node")
    assert isinstance(node, Tag)
    words = [one.get_text(" ", strip=True) for one in node.select("button, .acts a")]
    assert words == [
        "Continue here",
        "Ask this differently",
        "Save",
        "Make this the main line",
        "Copy into a new session",
        "Export this branch",
        "Compare with where I am",
    ]
    assert [row.get_text(" ", strip=True).split(" about")[0] for row in node.select("tr")] == [
        "Here 4 messages",
        "Now 5 messages",
    ]
    assert [str(field["value"]) for field in node.select("input[name=summary]")] == ["", "yes", "focus"]
    here = tree(client, session_id).select_one("#node")
    assert here is not None and "Continue here" not in here.get_text() and "You are here" in here.get_text()


def test_a_name_is_given_kept_shown_and_taken_away(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    answer = client.post(
        f"/sessions/{session_id}/label",
        data={"entry": ids[0], "label": " <b>start</b> ", "filter": "all", "find": "", "fold": ids[4]},
    )
    assert answer.status_code == 303
    assert (
        answer.headers["Location"] == f"/sessions/{session_id}/tree?filter=all&node={ids[0]}&fold={ids[4]}#n-{ids[0]}"
    )
    soup = page(client.get(answer.headers["Location"].partition("#")[0]).data)
    assert soup.select_one(f"#n-{ids[0]} .label").get_text() == "<b>start</b>"  # type: ignore[union-attr]
    assert client.get(f"/api/sessions/{session_id}").json["labels"] == {ids[0]: "<b>start</b>"}
    label(client, session_id, ids[0], "")
    assert not tree(client, session_id).select(".label")
    assert label(client, session_id, "nothing", "x").status_code == 404


def test_the_main_line_is_marked_up_to_its_newest_end(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    client.post(f"/sessions/{session_id}/main-line", data={"entry": ids[4]})
    heads = [one.get_text(" ", strip=True) for one in tree(client, session_id).select(".branch")]
    assert ["main line" in head for head in heads] == [True, False]
    assert client.get(f"/api/sessions/{session_id}").json["mainLine"] == ids[4]
    off = tree(client, session_id, node=ids[4]).find("button", string="No longer the main line")
    assert isinstance(off, Tag) and off["name"] == "off"
    client.post(f"/sessions/{session_id}/main-line", data={"entry": ids[4], "off": "1"})
    assert client.get(f"/api/sessions/{session_id}").json["mainLine"] is None
    assert client.put(f"/api/sessions/{session_id}/main-line", json={"entryId": "no"}).status_code == 404


def test_two_branches_stand_side_by_side_from_where_they_part(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    label(client, session_id, ids[5], "by reading")
    soup = page(client.get(f"/sessions/{session_id}/compare?a={ids[-1]}&b={ids[7]}").data)
    here, other = soup.select(".sides > section")
    assert here.h2.get_text() == "another way" and other.h2.get_text() == "by reading"  # type: ignore[union-attr]
    assert [one.get_text() for one in soup.select(".sides .user .text")] == ["another way", "read README.md"]
    assert "You are here" in here.get_text() and "Read: README.md" in other.get_text()
    button = other.select_one("button")
    assert button is not None and button["value"] == ids[7] and not here.select("form[method=post] button[name=entry]")
    assert client.get(f"/sessions/{session_id}/compare?a={ids[-1]}&b=no").status_code == 404
    same = page(client.get(f"/sessions/{session_id}/compare?a={ids[3]}&b={ids[-1]}").data)
    assert "Nothing of its own" in same.get_text()


@pytest.mark.parametrize(("choice", "focus"), [("yes", ""), ("focus", "pictures")])
def test_what_is_left_is_summarised_when_that_is_asked_for(client: FlaskClient, choice: str, focus: str) -> None:
    session_id, ids = two_branches(client)
    answer = client.post(f"/sessions/{session_id}/branch", data={"entry": ids[3], "summary": choice, "focus": focus})
    assert answer.status_code == 303 and answer.headers["Location"].endswith("?at=end#act")
    live = client.application.extensions["hornbook"].supervisor.open(session_id)
    run = live.run
    assert run is None or run.settled.wait(20)
    lesson = page(client.get(f"/sessions/{session_id}").data)
    note = lesson.select_one("article.summary details")
    assert note is not None and "Summary of the other way" in note.summary.get_text()  # type: ignore[union-attr]
    assert "another way" in note.get_text() and (focus in note.get_text())
    moved = lesson.select_one("#moved")
    assert moved is not None


def test_a_message_that_is_asked_differently_leaves_no_summary_unasked(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    client.post(f"/sessions/{session_id}/branch", data={"edit": ids[4]})
    assert client.get(f"/api/session?sessionId={session_id}").json["leafId"] == ids[3]


# A long lesson


def long_one(settings: Settings, count: int = 180) -> str:
    entries = [
        message(f"m{n}", f"m{n - 1}" if n else None, "assistant" if n % 2 else "user", f"line {n}")
        for n in range(count)
    ]
    return put(settings, "long", *entries)


def test_a_long_lesson_shows_its_last_fifty_and_leads_to_those_before(new_app: NewApp, settings: Settings) -> None:
    client = new_app().test_client()
    name = long_one(settings)
    lesson = page(client.get(f"/sessions/{name}").data)
    articles = [str(one["id"]) for one in lesson.select("article")]
    assert articles == [f"m-m{n}" for n in range(130, 180)]
    link = lesson.select_one(".earlier a")
    assert link is not None and link.get_text() == "130 earlier messages"
    piece = page(client.get(str(link["hx-get"]), headers={"HX-Request": "true"}).data)
    assert [str(one["id"]) for one in piece.select("article")] == [f"m-m{n}" for n in range(80, 130)]
    assert piece.select_one(".earlier a").get_text() == "80 earlier messages"  # type: ignore[union-attr]
    plain = page(client.get(str(link["href"]).partition("#")[0]).data)
    assert [str(one["id"]) for one in plain.select("article")] == [f"m-m{n}" for n in range(80, 130)]
    assert not plain.select("#composer, #stream") and "50 later messages" in plain.select_one(".later").get_text()  # type: ignore[union-attr]
    numbers = [one.get_text() for one in lesson.select("article.tutor .margin > span, article.tutor .margin > a")]
    assert numbers[0] == "66" and numbers[-1] == "90"


def test_an_address_can_ask_for_any_entry_of_the_way_and_for_no_other(new_app: NewApp, settings: Settings) -> None:
    client = new_app().test_client()
    name = long_one(settings)
    far = page(client.get(f"/sessions/{name}?around=m20").data)
    assert far.find(id="m-m20") and far.find(id="m-m11") and not far.select("#composer")
    near = page(client.get(f"/sessions/{name}?around=m170").data)
    assert near.find(id="m-m170") and near.select("#composer"), "what is there already needs no other page"
    assert client.get(f"/sessions/{name}?around=nothing").status_code == 404
    client.post("/api/branch", json={"sessionId": name, "leafId": "m20"})
    assert client.get(f"/sessions/{name}?around=m30").status_code == 404


def test_the_page_of_a_hundred_thousand_entries_is_no_larger_than_that_of_a_thousand(
    new_app: NewApp, settings: Settings
) -> None:
    from bench.make_session import lines

    client = new_app().test_client()
    sizes = []
    for count in (1_000, 10_000):
        file = settings.data / "sessions" / f"bench{count}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(line + "\n" for line in lines(count)), "utf-8")
        answer = client.get(f"/sessions/bench{count}")
        assert json.loads(lines(count).__next__())["id"] and answer.status_code == 200
        sizes.append(len(answer.data))
        whole = client.get(f"/sessions/bench{count}/tree?show=lesson")
        assert len(page(whole.data).select("ol.nodes > li[id]")) <= 251
    assert sizes[1] < 2 * sizes[0]


# Summaries of older parts


def test_older_parts_are_summarised_from_the_menu_and_the_note_says_how_much(
    new_app: NewApp, settings: Settings
) -> None:
    entries = [message(f"m{n}", f"m{n - 1}" if n else None, "user", f"line {n} " + "word " * 500) for n in range(60)]
    name = put(settings, "full", *entries)
    client = new_app().test_client()
    menu = page(client.get(f"/sessions/{name}").data).select_one("form[action$='/compact']")
    assert menu is not None
    assert client.post(str(menu["action"]), data={"focus": "line 3"}).status_code == 303
    live = client.application.extensions["hornbook"].supervisor.open(name)
    assert live.run is None or live.run.settled.wait(20)
    note = page(client.get(f"/sessions/{name}").data).select("article.summary summary")[-1].get_text()
    assert "tokens became" in note and "Everything still stands here" in note
    again = client.post(str(menu["action"]))
    assert again.status_code == 409 and "summarised already" in page(again.data).get_text()
    assert client.post(f"/api/sessions/{name}/compact", json={}).json["reason"] == "already_compacted"
    empty = client.post("/api/sessions", json={}).json["sessionId"]
    assert client.post(f"/sessions/{empty}/compact").status_code == 409
    assert say_to(client, "hello", sessionId=name)["status"] == "done"


def test_the_api_moves_with_a_summary_in_a_run(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    body = {"sessionId": session_id, "leafId": ids[3], "summary": True, "focus": "files"}
    answer = client.post("/api/branch", json=body)
    assert answer.status_code == 202
    live = client.application.extensions["hornbook"].supervisor.open(session_id)
    assert live.run is None or live.run.settled.wait(20)
    shape = client.get(f"/api/session?sessionId={session_id}").json
    assert shape["entries"][-1]["type"] == "custom" and shape["messages"][-1]["role"] == "branchSummary"
    events = client.get(f"/api/runs/{answer.json['runId']}/events").get_data(as_text=True)
    assert '"kind":"summary"' in events and "run_done" in events


def test_the_tree_for_programs_hangs_each_node_on_the_nearest_one_above(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    label(client, session_id, ids[4], "here")
    whole = client.get(f"/api/sessions/{session_id}/tree").json
    assert [node["id"] for node in whole["nodes"]] == ids and whole["branches"] == 2
    assert whole["nodes"][-2]["parentId"] == ids[3] and whole["nodes"][4]["label"] == "here"
    mine = client.get(f"/api/sessions/{session_id}/tree?filter=mine").json["nodes"]
    assert [(node["id"], node["parentId"], node["onPath"]) for node in mine] == [
        (ids[0], None, True),
        (ids[4], ids[0], False),
        (ids[8], ids[0], True),
    ]
    found = client.get(f"/api/sessions/{session_id}/tree?find=here").json["nodes"]
    assert [node["id"] for node in found] == [ids[4]]


def test_a_lesson_says_when_older_parts_will_be_summarised_soon_and_where_a_copy_is_from(
    new_app: NewApp, settings: Settings
) -> None:
    words = "word " * 500
    entries = [message(f"m{n}", f"m{n - 1}" if n else None, "user", words) for n in range(37)]
    client = new_app().test_client()
    name = put(settings, "filling", *entries)
    soon = "The tutor will soon summarise older parts."
    assert soon in page(client.get(f"/sessions/{name}?show=lesson").data).get_text()
    assert soon not in page(client.get(f"/sessions/{name}?show=workings").data).get_text()
    copy = client.post(f"/sessions/{name}/fork", data={"entry": "m5"}).headers["Location"]
    lesson = page(client.get(copy.partition("#")[0] + "&show=lesson").data)
    assert soon not in lesson.get_text() and lesson.select_one(f"main a[href='/sessions/{name}']") is not None
