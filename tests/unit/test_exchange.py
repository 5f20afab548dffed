"""Session files from elsewhere and for elsewhere: import, copy, export."""

import json
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings

from app.protocol.codec import encode_line
from app.protocol.entries import CompactionEntry, Entry, LabelEntry, MessageEntry
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from app.render.markdown import render_markdown
from app.sessions import importing
from app.sessions.branches import stretches_of
from app.sessions.context import build_context
from app.sessions.export import LEFT_OUT, jsonl, markdown, slim_line
from app.sessions.fork import copied_lines, fork_of, is_carried
from app.sessions.importing import import_bytes
from app.sessions.jsonl import JsonlSessionStore
from app.sessions.lines import StoredEntry, parse
from app.sessions.outline import SHADOWED, SIDE, outline_of
from app.sessions.window import stored_path
from tests.plain_tree import index_of, leaf_of, path_to
from tests.support import Read
from tests.unit.test_outline import STAMP, entry_of, files

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": STAMP, "cwd": "/", "more": [1]}


def file_of(*lines: dict[str, Any], end: str = "\n") -> bytes:
    return "".join(json.dumps(line) + end for line in lines).encode()


def said(entry_id: str | None, parent: str | None, text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1}
    links = {} if entry_id is None else {"id": entry_id, "parentId": parent}
    return {"type": "message", **links, "timestamp": STAMP, "message": message, **more}


# Import


def test_a_file_of_the_present_format_is_kept_byte_for_byte() -> None:
    data = file_of(HEADER, said("a", None, "hi", extra={"kept": True})) + b"\nnull\n"
    found = import_bytes(data)
    assert (found.content, found.session_id, found.kept, found.changed) == (data, "s1", 1, "")
    assert [(line.line_number, line.reason) for line in found.skipped] == [
        (3, "blank line"),
        (4, "JSON, but not an object"),
    ]


def test_an_old_file_with_two_compactions_by_index_has_the_context_worked_out_by_hand() -> None:
    old = {"type": "session", "id": "old", "timestamp": STAMP, "cwd": "/"}
    lines = [
        old,  # 0
        said(None, None, "one"),  # 1: summarised by the first
        said(None, None, "answer one", "assistant"),  # 2: summarised by the first
        said(None, None, "two"),  # 3: kept by the first, summarised by the second
        said(None, None, "answer two", "assistant"),  # 4: kept by both
        {"type": "compaction", "timestamp": STAMP, "summary": "first", "firstKeptEntryIndex": 3, "tokensBefore": 10},
        said(None, None, "three"),  # 6: kept by the second
        {"type": "compaction", "timestamp": STAMP, "summary": "second", "firstKeptEntryIndex": 4, "tokensBefore": 20},
        said(None, None, "four"),  # 8
    ]
    found = import_bytes(file_of(*lines))
    assert found.kept == 8 and "version 1" in found.changed
    entries = [stored.entry for stored in parse(found.content, "").entries]
    messages = build_context(path_to(index_of(entries), leaf_of(entries))).messages
    assert isinstance(messages[0], CompactionSummaryMessage)
    assert (messages[0].summary, messages[0].tokens_before) == ("second", 20)
    texts = [text_of(message.content) for message in messages[1:]]  # type: ignore[union-attr]
    assert texts == ["answer two", "three", "four"]
    again = import_bytes(found.content)
    assert again.content == found.content, "what was brought into the format stays as it is"


@pytest.mark.parametrize(
    "lines",
    [
        [{"type": "session", "version": 1, "id": "t", "timestamp": STAMP, "cwd": "/"}, said("entry_1", None, "hi")],
        [said("entry_1", None, "hi"), said("entry_2", "entry_1", "on")],
    ],
)
def test_the_teaching_format_keeps_its_ids_also_without_a_header(lines: list[dict[str, Any]]) -> None:
    found = import_bytes(file_of(*lines))
    assert not found.problem and found.kept == len([line for line in lines if line["type"] == "message"])
    parsed = parse(found.content, "")
    assert parsed.version == 3 and parsed.entries[0].entry.id == "entry_1"


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "empty"), (b"not a session\n", "not a session"), (file_of({**HEADER, "version": 9}), "version 9")],
)
def test_what_is_no_session_is_refused_with_a_reason(data: bytes, words: str) -> None:
    assert words in import_bytes(data).problem


def test_millions_of_empty_lines_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MANY_LINES", 100)
    assert "200 lines" in import_bytes(b"{}\n" * 200).problem
    sound = file_of(HEADER, *(said(f"m{n}", f"m{n - 1}" if n else None, "hi") for n in range(200)))
    assert import_bytes(sound).kept == 200


def test_an_id_that_is_taken_or_no_name_gets_another_one(tmp_path: Path) -> None:
    store = JsonlSessionStore(tmp_path / "sessions", tmp_path / "trash")
    first = store.add(file_of(HEADER), "s1")
    second = store.add(file_of(HEADER), "s1")
    third = store.add(file_of(HEADER), "../up")
    assert first == "s1" and len({first, second, third}) == 3 and "/" not in third
    store.trash("s1")
    assert store.add(file_of(HEADER), "s1") != "s1", "one in the trash can still be brought back"
    (trashed,) = store.trashed()
    assert trashed.id == "s1" and trashed.modified > 0
    store.close()


# Copies


def stored(entries: list[Entry]) -> list[StoredEntry]:
    return [StoredEntry(entry, encode_line(entry)) for entry in entries]


def test_a_copy_has_one_header_the_lines_as_they_were_and_the_labels_of_what_it_holds() -> None:
    path = stored(
        [
            entry_of("user", "a", None, "hi", ""),
            entry_of("label", "l", "a", "old name", "a"),
            entry_of("answer", "b", "l", "well", ""),
            entry_of("run", "r", "b", "", ""),
            entry_of("learning-void", "v", "b", "", ""),
        ]
    )
    names = iter(["n1", "n2", "n3"])
    data = fork_of(
        json.dumps(HEADER).encode(),
        path,
        {"a": "new name", "elsewhere": "x"},
        session_id="copy",
        parent="s1.jsonl",
        name="Rank",
        now="now",
        new_id=lambda: next(names),
    )
    header, *lines = [json.loads(line) for line in data.splitlines()]
    assert header == {**HEADER, "id": "copy", "timestamp": "now", "parentSession": "s1.jsonl"}
    assert [(line["type"], line["id"], line["parentId"]) for line in lines] == [
        ("message", "a", None),
        ("message", "b", "a"),
        ("custom", "v", "b"),
        ("label", "n1", "b"),
        ("session_info", "n2", "n1"),
    ]
    assert data.splitlines()[1] == path[0].raw and lines[3]["label"] == "new name"


@pytest.mark.parametrize("labels", [{}, {"a": "first"}])
@pytest.mark.parametrize("hangs_on", [None, "a", "b"])
def test_a_copy_opens_at_its_end_whatever_side_entries_go_along(labels: dict[str, str], hangs_on: str | None) -> None:
    path = stored(
        [
            entry_of("user", "a", None, "hi", ""),
            entry_of("answer", "b", "a", "well", ""),
            entry_of("learning-void", "v", hangs_on, "", ""),
            entry_of("learning-void", "w", "v", "", ""),
        ]
    )
    data = fork_of(
        json.dumps(HEADER).encode(),
        path,
        labels,
        session_id="copy",
        parent="s1.jsonl",
        name="",
        now=STAMP,
        new_id=lambda: "n",
    )
    outline = parse(data, "").outline
    assert outline.ids[outline.leaf] == "b" and {"a", "b", "v", "w"} <= set(outline.ids)


@settings(max_examples=20, deadline=None)
@given(files(sound=True))
def test_a_copy_has_the_context_of_its_way_and_can_be_copied_again(entries: Any) -> None:
    read: Any = Read(entries)
    read.position = lambda name: read.outline.position(name)
    for at, entry in enumerate(entries):
        if read.outline.flags[at] & SIDE:
            continue
        data = fork_of(
            json.dumps(HEADER).encode(),
            stored_path(read, entry.id),
            read.outline.labels,
            session_id="copy",
            parent="s1.jsonl",
            name="",
            now=STAMP,
            new_id=iter(f"n{number}" for number in range(99)).__next__,
        )
        parsed = parse(data, "")
        assert not parsed.skipped and not parsed.warnings and not parsed.needs_rewrite
        copied = [one.entry for one in parsed.entries]
        path = path_to(index_of(entries), entry.id)
        assert leaf_of(copied) == entry.id
        meant = build_context([one for one in path]).messages
        assert build_context(path_to(index_of(copied), entry.id)).messages == meant
        labels = {one.target_id: one.label for one in copied if isinstance(one, LabelEntry)}
        carried = {one.id for one in path if is_carried(StoredEntry(one, b""))}
        assert labels == {name: label for name, label in read.outline.labels.items() if name in carried}


# Export


@settings(max_examples=25, deadline=None)
@given(files(sound=True))
def test_an_export_is_the_file_again(entries: Any) -> None:
    lines = stored(entries)
    header = json.dumps(HEADER).encode()
    data = b"".join(jsonl(header, lines, slim=False))
    assert data == b"\n".join([header, *(line.raw for line in lines)]) + b"\n"


SECRET = "SECRET-OUTPUT"
FULL: list[Entry] = [
    MessageEntry(id="u", parent_id=None, timestamp=STAMP, message=UserMessage(content="What is *rank*?")),
    MessageEntry(
        id="a",
        parent_id="u",
        timestamp=STAMP,
        message=AssistantMessage(
            content=[
                ThinkingContent(thinking=SECRET),
                TextContent(text="Let me look."),
                ToolCall(id="1", name="read_file", arguments={"path": "rank.md"}),
            ],
            stop_reason="toolUse",
        ),
    ),
    MessageEntry(
        id="r",
        parent_id="a",
        timestamp=STAMP,
        message=ToolResultMessage(tool_call_id="1", tool_name="read_file", content=SECRET, details={"x": SECRET}),
    ),
    MessageEntry(
        id="s", parent_id="r", timestamp=STAMP, message=BashExecutionMessage(command="ls", output=SECRET, exit_code=0)
    ),
    CompactionEntry(id="c", parent_id="s", timestamp=STAMP, summary="They spoke.", first_kept_entry_id="u"),
]


def test_a_slim_export_holds_no_output_and_no_thinking_and_can_be_imported() -> None:
    header = json.dumps(HEADER).encode()
    slim = b"".join(jsonl(header, stored(FULL), slim=True))
    assert SECRET.encode() not in slim and LEFT_OUT.encode() in slim
    found = import_bytes(slim)
    assert (found.kept, found.changed, found.warnings) == (len(FULL), "", [])
    assert slim_line(stored(FULL)[0]) == stored(FULL)[0].raw, "what holds neither stays as it is"
    surrogate = (
        b'{"type":"message","id":"x","parentId":null,"timestamp":"t","message":{"role":"toolResult",'
        b'"toolCallId":"\\ud800","toolName":"x","content":[{"type":"text","text":"SECRET-OUTPUT"}],"isError":false}}'
    )
    (odd,) = parse(file_of(HEADER) + surrogate + b"\n", "").entries
    assert SECRET.encode() not in slim_line(odd)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "toolResult", "content": [{"type": "text", "text": SECRET}]},
        {"role": "toolResult", "toolCallId": "1", "content": [{"type": "text", "text": SECRET}, {"type": "odd"}]},
        {"role": "toolResult", "toolCallId": "1", "content": "x", "details": {"y": SECRET}, "output": SECRET},
        {"role": "bashExecution", "command": "ls", "output": SECRET, "more": SECRET},
        {"role": "bashExecution", "output": SECRET},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": SECRET}, {"type": "odd"}]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": SECRET}]},
        SECRET,
    ],
)
def test_a_slim_export_holds_neither_also_where_a_line_does_not_fit(message: Any) -> None:
    line = {"type": "message", "id": "x", "parentId": None, "timestamp": STAMP, "message": message, "own": [1]}
    (odd,) = parse(file_of(HEADER, line), "").entries
    slim = slim_line(odd)
    assert SECRET.encode() not in slim and json.loads(slim)["own"] == [1]
    (again,) = parse(file_of(HEADER) + slim + b"\n", "").entries
    assert again.entry.id == "x" and slim_line(again) == slim


def test_what_is_written_anew_is_json_for_every_reader() -> None:
    odd = b"""{"type":"message","id":"x","parentId":"gone","timestamp":"t","far":1e999,"none":NaN,"half":"\\ud800",
        "message":{"role":"toolResult","toolCallId":"1","content":"SECRET-OUTPUT"}}""".replace(b"\n", b"")
    entries = parse(file_of(HEADER) + odd + b"\n", "").entries
    for line in (slim_line(entries[0]), *copied_lines(entries)):
        value = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert (value["far"], value["none"], value["half"]) == (None, None, "\ud800")


def test_markdown_has_each_speech_its_name_and_code_that_cannot_be_broken_out_of() -> None:
    breaking = MessageEntry(
        id="b",
        parent_id="c",
        timestamp=STAMP,
        message=ToolResultMessage(tool_call_id="2", tool_name="x", content="```\n# not a heading\n````"),
    )
    entries = [(entry, "a *name*" if entry.id == "u" else "") for entry in (*FULL, breaking)]
    text = "".join(markdown("Rank", [("", entries)], slim=False))
    assert text.startswith("# Rank\n\n## Person · 2026-01-02 03:04 · a \\*name\\*\n\nWhat is *rank*?\n")
    assert '*asks for read\\_file:* `{"path":"rank.md"}`' in text and "> They spoke." in text
    assert f"```\n{SECRET}\n```" in text and "`````\n```\n# not a heading\n````\n`````" in text
    slim = "".join(markdown("Rank", [("Branch 2 of 2", entries)], slim=True))
    assert SECRET not in slim and "*Branch 2 of 2*" in slim


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_markdown_is_not_broken_out_of_by_any_line_end(end: str) -> None:
    text = end.join(["a", "`````", "# not a heading"])
    entries: list[Entry] = [
        MessageEntry(
            id="r",
            parent_id=None,
            timestamp=STAMP,
            message=ToolResultMessage(tool_call_id="1", tool_name="x", content=text),
        ),
        CompactionEntry(id="c", parent_id="r", timestamp=STAMP, summary=text, first_kept_entry_id="r"),
    ]
    written = "".join(markdown("Rank", [("", [(entry, "") for entry in entries])], slim=False))
    soup = BeautifulSoup(render_markdown(written).html, "html.parser")
    assert not any("not a heading" in one.get_text() for one in soup.select("h1, h2, h3, h4, h5, h6"))


@settings(max_examples=30, deadline=None)
@given(files())
def test_the_stretches_of_a_tree_hold_every_entry_once_behind_its_parent(entries: Any) -> None:
    outline = outline_of(entries)
    stretches = stretches_of(outline, len(entries))
    places = [place for stretch in stretches for place in stretch.places]
    meant = [at for at in range(len(entries)) if not outline.flags[at] & (SIDE | SHADOWED)]
    if not outline.cycles:
        assert sorted(places) == meant
    assert len(places) == len(set(places))
    for number, stretch in enumerate(stretches):
        assert all(stretches[below].above == number for below in stretch.below)
        assert len(stretch.below) != 1 and (stretch.above is None or stretch.above < number)


def test_a_very_long_chain_is_one_stretch() -> None:
    chain = [entry_of("user", f"m{n}", f"m{n - 1}" if n else None, "x", "") for n in range(20_000)]
    (only,) = stretches_of(outline_of(chain), 20_000)
    assert len(only.places) == 20_000
