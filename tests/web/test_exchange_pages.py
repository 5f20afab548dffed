"""Export, import, copies and the trash, by pages, by the API and by commands."""

import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from flask import Flask
from flask.testing import FlaskClient

from app.cli import main
from app.settings import Settings
from tests.hostile import HOSTILE
from tests.support import FakeModel, call, say
from tests.web.helpers import page, say_to

NewApp = Callable[..., Flask]
STAMP = "2026-01-02T03:04:05.678Z"


def lines_of(settings: Settings, session_id: str) -> bytes:
    return (settings.data / "sessions" / f"{session_id}.jsonl").read_bytes()


def put(settings: Settings, name: str, *entries: dict[str, Any]) -> str:
    header = {"type": "session", "version": 3, "id": name, "timestamp": STAMP, "cwd": "/"}
    folder = settings.data / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (header, *entries)), "utf-8")
    return name


def message(entry_id: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    said = {"role": role, "content": content, "timestamp": 1, **more}
    return {"type": "message", "id": entry_id, "parentId": parent, "timestamp": STAMP, "message": said}


def two_branches(client: FlaskClient) -> tuple[str, list[str]]:
    """A session with a fork behind its first answer, and the ids of its messages in file order."""
    session_id = say_to(client, "list files")["sessionId"]
    say_to(client, "read README.md", sessionId=session_id)
    ids = [e["id"] for e in client.get("/api/session").json["entries"] if e["type"] == "message"]
    client.post("/api/branch", json={"sessionId": session_id, "leafId": ids[3]})
    say_to(client, "another way", sessionId=session_id)
    return session_id, [e["id"] for e in client.get("/api/session").json["entries"] if e["type"] == "message"]


# Export


def test_the_session_file_is_exported_as_it_is(client: FlaskClient, settings: Settings) -> None:
    session_id, _ = two_branches(client)
    client.patch(f"/api/sessions/{session_id}", json={"name": "Rank: «1» / 秩"})
    for address in (f"/sessions/{session_id}/export?format=jsonl&entry=", f"/api/sessions/{session_id}/export"):
        answer = client.get(address)
        assert answer.data == lines_of(settings, session_id) and answer.mimetype == "application/x-ndjson"
        saved = answer.headers["Content-Disposition"]
        assert saved.startswith('attachment; filename="Rank  1.jsonl"') and "filename*=UTF-8''Rank%20%20" in saved


def test_a_branch_is_exported_alone_and_can_be_imported(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    client.put(f"/api/sessions/{session_id}/labels/{ids[3]}", json={"label": "the fork"})
    data = client.get(f"/api/sessions/{session_id}/export?entry={ids[7]}").data
    taken = client.post("/api/sessions/import", data=data, content_type="application/x-ndjson")
    assert taken.status_code == 201 and taken.json["sessionId"] != session_id
    shape = client.get(f"/api/session?sessionId={taken.json['sessionId']}").json
    assert [e["id"] for e in shape["entries"] if e["type"] == "message"] == ids[:8]
    about = client.get(f"/api/sessions/{taken.json['sessionId']}").json
    assert about["labels"] == {ids[3]: "the fork"} and about["branches"] == 1


def test_markdown_has_all_branches_each_message_once(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    whole = client.get(f"/sessions/{session_id}/export?format=markdown").get_data(as_text=True)
    assert whole.count("\nlist files\n") == whole.count("\nanother way\n") == whole.count("\nread README.md\n") == 1
    assert "*Branch 2 of 2, after:" in whole
    branch = client.get(f"/sessions/{session_id}/export?format=markdown&entry={ids[-1]}").get_data(as_text=True)
    assert "another way" in branch and "\nread README.md\n" not in branch


def test_the_html_file_needs_nothing_else_and_leads_from_its_tree_to_each_message(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    client.put(f"/api/sessions/{session_id}/labels/{ids[0]}", json={"label": "first"})
    client.put(f"/api/sessions/{session_id}/labels/{ids[3]}", json={"label": "gone"})
    client.put(f"/api/sessions/{session_id}/labels/{ids[3]}", json={"label": ""})
    answer = client.get(f"/sessions/{session_id}/export?format=html")
    soup = page(answer.data)
    assert not soup.select("script, link, iframe, object, [src], form, [onclick]")
    policy = soup.select_one("meta[http-equiv=Content-Security-Policy]")
    assert policy is not None and str(policy["content"]).startswith("default-src 'none'")
    articles = [str(one["id"]) for one in soup.select("article")]
    assert len(articles) == len(set(articles)) == 8
    links = [str(link["href"]) for link in soup.select("nav a")]
    assert all(soup.find(id=link[1:]) is not None for link in links) and f"#m-{ids[0]}" in links
    text = soup.select_one("nav").get_text(" ", strip=True)  # type: ignore[union-attr]
    assert "‹ first ›" in text and "gone" not in soup.get_text() and "Branch 2 of 2" in text
    assert all(soup.find(id=str(link["href"])[1:]) for link in soup.select("section a[href^='#b-']"))


def test_a_slim_page_holds_neither_what_tools_gave_nor_thinking(new_app: NewApp, settings: Settings) -> None:
    blocks = [
        {"type": "thinking", "thinking": "SECRET-1"},
        {"type": "text", "text": "Let me look."},
        {"type": "toolCall", "id": "c", "name": "look", "arguments": {"path": "x"}},
    ]
    name = put(
        settings,
        "one",
        message("u", None, "user", "q"),
        message("a", "u", "assistant", blocks),
        message("r", "a", "toolResult", [{"type": "text", "text": "SECRET-2"}], toolCallId="c", toolName="look"),
        message("s", "r", "bashExecution", None, command="ls", output="SECRET-3"),
        message("x", "r", "user", "another way"),
        {"type": "label", "id": "l", "parentId": "x", "timestamp": STAMP, "targetId": "r", "label": "fork"},
    )
    client = new_app().test_client()
    for kind in ("jsonl", "markdown", "html"):
        whole = client.get(f"/sessions/{name}/export?format={kind}").get_data(as_text=True)
        slim = client.get(f"/sessions/{name}/export?format={kind}&slim=1").get_data(as_text=True)
        assert "SECRET-2" in whole and "SECRET-3" in whole, kind
        assert "Let me look." in slim and "another way" in slim and "SECRET" not in slim, kind


def test_hostile_texts_stay_text_in_the_html_file(new_app: NewApp, settings: Settings) -> None:
    entries: list[dict[str, Any]] = []
    above = None
    for number, bad in enumerate(sorted(HOSTILE.values())[::4]):
        for role in ("user", "assistant"):
            entry_id = f"{role}{number}{bad[:20]}"
            more = {"model": bad} if role == "assistant" else {}
            entries.append(message(entry_id, above, role, [{"type": "text", "text": bad}], **more))
            above = entry_id
        call_block = {"type": "toolCall", "id": bad or "c", "name": bad, "arguments": {"x": bad}}
        entries.append(message(f"c{number}", above, "assistant", [call_block]))
        entries.append(message(f"r{number}", f"c{number}", "toolResult", bad, toolCallId=bad or "c", toolName=bad))
        above = f"r{number}"
        label = {"type": "label", "id": f"l{number}", "parentId": above, "timestamp": STAMP}
        entries.append({**label, "targetId": f"c{number}", "label": bad})
    entries.append(
        {"type": "session_info", "id": "n", "parentId": above, "timestamp": STAMP, "name": "</style><script>"}
    )
    name = put(settings, "hostile", *entries)
    data = new_app().test_client().get(f"/sessions/{name}/export?format=html").data
    soup = BeautifulSoup(data, "html.parser")
    assert not soup.select(
        "script, iframe, object, embed, form, input, link, base, svg script, img, video, audio, [src]"
    )
    for tag in soup.find_all(True):
        assert not any(attribute.startswith(("on", "hx-")) for attribute in tag.attrs), tag
        assert not str(tag.get("href", "")).lower().strip().startswith(("javascript:", "data:", "vbscript:")), tag
    assert len(soup.find_all("style")) == 1 and len(soup.find_all("title")) == 1


def test_the_form_asks_what_and_how_and_unknown_things_are_refused(client: FlaskClient) -> None:
    session_id, ids = two_branches(client)
    form = page(client.get(f"/sessions/{session_id}/export?entry={ids[4]}").data).select_one("form.export")
    assert form is not None
    values = [str(field["value"]) for field in form.select("input[name=entry]")]
    assert values == [ids[4], ids[-1], ""]
    assert [str(field["value"]) for field in form.select("input[name=format]")] == ["html", "markdown", "jsonl"]
    assert client.get(f"/sessions/{session_id}/export?format=doc").status_code == 422
    assert client.get(f"/sessions/{session_id}/export?entry=nothing").status_code == 404
    assert client.get("/api/sessions/nobody/export").status_code == 404


# Import


def upload(client: FlaskClient, *files: tuple[str, bytes]) -> Any:
    return client.post("/import", data={"file": [(io.BytesIO(data), name) for name, data in files]})


def test_uploaded_files_are_taken_in_each_for_itself(client: FlaskClient, settings: Settings) -> None:
    session_id, _ = two_branches(client)
    sound = lines_of(settings, session_id)
    answer = upload(client, ("sound.jsonl", sound), ("torn.jsonl", sound + b'{"type":"mess'), ("no.txt", b"hello\n"))
    assert answer.status_code == 200
    items = page(answer.data).select("ul.rows > li")
    assert [item.b.get_text() for item in items] == ["sound.jsonl", "torn.jsonl", "no.txt"]  # type: ignore[union-attr]
    assert "torn last line" in items[1].get_text() and "Not imported" in items[2].get_text()
    opened = client.get(str(items[0].a["href"]).partition("#")[0])  # type: ignore[index]
    assert opened.status_code == 200 and "another way" in page(opened.data).get_text()
    tree = page(client.get(str(items[0].select("a")[1]["href"])).data)
    assert "Branch 2 of 2" in tree.get_text()


@pytest.mark.parametrize("files", [[], [("no.txt", b"hello\n")]])
def test_an_upload_of_nothing_that_is_a_session_says_so(client: FlaskClient, files: list[tuple[str, bytes]]) -> None:
    answer = upload(client, *files)
    alert = page(answer.data).select_one("main [role=alert]")
    assert answer.status_code == 422 and alert is not None and alert.get_text()


def test_the_api_takes_one_file_and_says_what_it_left_out(client: FlaskClient) -> None:
    old = b'{"type":"message","message":{"role":"user","content":"hi"}}\nnull\n'
    answer = client.post("/api/sessions/import", data=old, content_type="application/x-ndjson")
    assert answer.status_code == 201 and answer.json["entries"] == 1
    assert answer.json["skipped"] == [{"line": 2, "reason": "JSON, but not an object"}]
    assert client.get(answer.headers["Location"]).status_code == 200
    asked = client.post("/api/prompt", json={"sessionId": answer.json["sessionId"], "text": "hello"})
    assert asked.json["status"] == "done", "what was imported can be gone on with"
    bad = client.post("/api/sessions/import", data=b"hello", content_type="application/x-ndjson")
    assert (bad.status_code, bad.json["reason"]) == (422, "not_a_session")


def test_only_imports_may_be_large(client: FlaskClient) -> None:
    large = b'{"type":"message","message":{"role":"user","content":"' + b"x" * 400_000 + b'"}}\n'
    taken = client.post("/api/sessions/import", data=large, content_type="application/x-ndjson")
    assert taken.status_code == 201
    assert upload(client, ("large.jsonl", large)).status_code == 200
    assert client.post("/api/sessions", data=large, content_type="application/json").status_code == 413


# The trash


def test_what_was_deleted_is_listed_and_can_be_brought_back(client: FlaskClient) -> None:
    session_id, _ = two_branches(client)
    client.patch(f"/api/sessions/{session_id}", json={"name": "Rank"})
    client.delete(f"/api/sessions/{session_id}")
    home = page(client.get("/").data)
    trash = page(client.get("/trash").data)
    (row,) = trash.select("ul.rows li")
    assert "Rank" in row.get_text() and home is not None
    assert [one["name"] for one in client.get("/api/trash").json["sessions"]] == ["Rank"]
    form = row.form
    assert form is not None
    assert client.post(str(form["action"])).status_code == 303
    assert client.get(f"/sessions/{session_id}").status_code == 200
    assert "The trash is empty" in page(client.get("/trash").data).get_text()


# Commands


def test_commands_import_and_export_without_a_server(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], settings: Settings
) -> None:
    data = tmp_path / "elsewhere"
    name = put(settings, "one", message("u", None, "user", "hi"), message("v", "u", "user", "on"))
    file = settings.data / "sessions" / f"{name}.jsonl"
    broken = tmp_path / "broken.txt"
    broken.write_text("hello\n")
    assert main(["import", str(file), str(broken), str(tmp_path / "none"), "--json", "--data", str(data)]) == 2
    results = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [(one["sessionId"], one["entries"]) for one in results] == [("one", 2), (None, 0), (None, 0)]
    assert all(one["problem"] for one in results[1:])
    assert main(["export", "on", "--data", str(data)]) == 0
    assert capfdbinary.readouterr().out == file.read_bytes()
    target = tmp_path / "out.html"
    assert main(["export", "one", "--format", "html", "--slim", "--output", str(target), "--data", str(data)]) == 0
    assert page(target.read_bytes()).select("article")
    assert main(["export", "one", "--branch", "u", "--format", "markdown", "--data", str(data)]) == 0
    assert b"on" not in capfdbinary.readouterr().out.split(b"\n")
    for wrong in (["export", "two"], ["export", "one", "--branch", "x"], ["export", "one", "--output", "/nowhere/x"]):
        assert main([*wrong, "--data", str(data)]) == 2
        assert capfdbinary.readouterr().err.startswith(b"hornbook: ")
    assert main(["import", str(file), "--data", str(data)]) == 0
    assert b"2 entries kept as session" in capfdbinary.readouterr().out


def test_a_name_that_several_sessions_have_is_refused(
    tmp_path: Path, settings: Settings, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in ("aa", "ab"):
        put(settings, name, message("u", None, "user", "hi"))
    assert main(["export", "a", "--data", str(settings.data)]) == 2
    assert b"beginning of 2 sessions" in capfdbinary.readouterr().err


def test_an_export_needs_neither_the_model_nor_the_workspace_of_the_settings(
    tmp_path: Path, settings: Settings, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(settings, "one", message("u", None, "user", "hi"))
    monkeypatch.setenv("HORNBOOK_MODEL", "script:/nowhere.json")
    monkeypatch.setenv("HORNBOOK_WORKSPACE", str(tmp_path / "gone"))
    before = sorted(settings.data.rglob("*"))
    for kind in ("jsonl", "markdown", "html"):
        assert main(["export", "one", "--format", kind, "--data", str(settings.data)]) == 0
        assert b"hi" in capfdbinary.readouterr().out
    assert sorted(settings.data.rglob("*")) == before, "it only reads"


def test_an_export_replaces_files_only(tmp_path: Path, settings: Settings) -> None:
    name = put(settings, "one", message("u", None, "user", "hi"))
    meant = (settings.data / "sessions" / f"{name}.jsonl").read_bytes()
    real, link, pipe = tmp_path / "real.jsonl", tmp_path / "link.jsonl", tmp_path / "pipe"
    link.symlink_to(real)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for target in (link, pipe):
            assert main(["export", name, "--output", str(target), "--data", str(settings.data)]) == 0
        assert os.read(reader, 100_000) == meant
    finally:
        os.close(reader)
    assert link.is_symlink() and real.read_bytes() == meant and stat.S_ISFIFO(pipe.stat().st_mode)
    assert main(["export", name, "--output", str(tmp_path), "--data", str(settings.data)]) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".new")]


# Copies


def test_the_way_to_an_entry_is_copied_by_a_form_and_by_the_api(new_app: NewApp) -> None:
    client = new_app(FakeModel(call(("c", "list_files", {"path": "."})), say("one"), say("two"))).test_client()
    session_id = say_to(client, "q")["sessionId"]
    ids = [e["id"] for e in client.get("/api/session").json["entries"] if e["type"] == "message"]
    answer = client.post(f"/sessions/{session_id}/fork", data={"entry": ids[1]})
    assert answer.status_code == 303
    copy = str(answer.headers["Location"]).partition("?")[0]
    assert copy != f"/sessions/{session_id}"
    made = client.post(f"/api/sessions/{session_id}/fork", json={"entryId": ids[-1]})
    assert made.status_code == 201 and made.json["parentSession"] == f"{session_id}.jsonl"
    assert client.post(f"/api/sessions/{session_id}/fork", json={"entryId": "no"}).status_code == 404
    asked = client.post("/api/prompt", json={"sessionId": copy.rpartition("/")[2], "text": "on"})
    assert asked.json["status"] == "done", "calls that were left open at its end get a result"
