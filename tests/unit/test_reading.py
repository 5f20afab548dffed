"""A session file read line by line is what it is when read as a whole, and its lines can be read again."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.protocol.codec import encode_line
from app.protocol.messages import UserMessage
from app.sessions.jsonl import JsonlSessionStore
from app.sessions.lines import parse
from app.sessions.reading import read_session
from app.sessions.records import BOM
from tests.unit.test_outline import STAMP, entry_of, files

HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": STAMP, "cwd": "/"}
ODD_LINES = [
    b"",
    b"   ",
    b"null",
    b"42",
    b"[1]",
    b"{}",
    b"not json",
    b"\xff\xfe",
    b'{"type":"session","version":3,"id":"again","timestamp":"","cwd":""}',
    b'{"type":"later","id":"u1","parentId":null,"timestamp":"t","more":[1]}',
    b'{"type":"message","id":"u2","parentId":null,"timestamp":"t","message":{"role":"user","content":"\\ud800"}}',
    b'{"type":"message","id":"u3","parentId":null,"timestamp":"t","message":{"role":"user","content":5}}',
    '{"type":"message","id":"u4","parentId":null,"timestamp":"t","message":{"role":"user","content":"\u2028x"}}'.encode(),
    b'{"type":"message","id":"u5","parentId":null,"timestamp":"t","message":{"role":"user","content":"\xff"}}',
    b'{"type":"message","id":"u6","timestamp":"t","message":{"role":"user","content":"no parent"}}',
    b'{"type":"message","id":7,"parentId":null,"timestamp":"t","message":{"role":"user","content":"a number"}}',
    b'{"type":"message","timestamp":"t","message":{"role":"user","content":"no id"}}',
    b'{"type":"compaction","firstKeptEntryIndex":2,"summary":"x","tokensBefore":1,"timestamp":"t"}',
]


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    lines = [encode_line(entry) for entry in draw(files()) if "later" not in repr(entry)]
    for odd in draw(st.lists(st.sampled_from(ODD_LINES), max_size=3)):
        lines.insert(draw(st.integers(0, len(lines))), odd)
    version = draw(st.sampled_from([3, 3, 3, 3, 1, 2, 9, None]))
    header = json.dumps({key: value for key, value in {**HEADER, "version": version}.items() if value is not None})
    if draw(st.integers(0, 9)):
        lines.insert(0 if draw(st.integers(0, 6)) else len(lines), header.encode())
    # Eight of them are no entries: a header behind them is still the first that counts.
    lines[:0] = draw(st.lists(st.sampled_from(ODD_LINES[:8]), max_size=2)) if not draw(st.integers(0, 3)) else []
    ending = draw(st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"]))
    data = ending.join(lines) + draw(st.sampled_from([ending, b"", b'\n{"type":"mess']))
    return (b"\xef\xbb\xbf" if not draw(st.integers(0, 9)) else b"") + data


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents())
def test_read_by_lines_or_as_a_whole_a_file_says_the_same(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    reading, parsed = read_session(path, "fallback"), parse(data, "fallback")
    for name in (
        "header",
        "header_raw",
        "version",
        "skipped",
        "warnings",
        "ends_with_newline",
        "size",
        "needs_rewrite",
        "future_version",
        "problem",
    ):
        assert getattr(reading, name) == getattr(parsed, name), name
    for name in ("ids", "kinds", "flags", "parents", "chain", "turns", "items", "labels", "leaf"):
        assert getattr(reading.outline, name) == getattr(parsed.outline, name), name
    store = JsonlSessionStore(tmp_path, tmp_path / "trash")
    session = store.look("s")
    assert [stored.raw for stored in session.entries] == [stored.raw for stored in parsed.entries]
    assert [stored.entry for stored in session.entries] == [stored.entry for stored in parsed.entries]
    if not parsed.needs_rewrite:
        there = [line.rstrip(b"\r") for line in data.removeprefix(BOM).split(b"\n")]
        assert all(stored.raw in there for stored in session.entries), "the bytes of the file"
    store.close()


def stored_lines(folder: Path) -> list[bytes]:
    return (folder / "s.jsonl").read_bytes().split(b"\n")[1:-1]


@pytest.mark.parametrize("version", [1, 3])
def test_lines_are_read_again_after_a_rewrite_and_an_append_and_after_the_end(tmp_path: Path, version: int) -> None:
    old = [json.dumps({**HEADER, "version": version})]
    for number in range(3):
        entry = json.loads(encode_line(entry_of("user", f"m{number}", f"m{number - 1}" if number else None, "x", "")))
        if version == 1:
            del entry["id"], entry["parentId"]
        old.append(json.dumps(entry))
    (tmp_path / "s.jsonl").write_text("\n".join(old) + "\n", "utf-8")
    store = JsonlSessionStore(tmp_path, tmp_path / "trash")
    session = store.open("s")
    before = [stored.entry for stored in session.entries]
    for number in range(3):
        entry = entry_of("user", f"n{number}", session.leaf_id, f"new {number}", "")
        session.append(entry)  # type: ignore[arg-type]
    assert [stored.raw for stored in session.entries] == stored_lines(tmp_path)
    assert [stored.entry for stored in session.entries][:3] == before
    assert session.entries[4].entry.message == UserMessage(content="new 1")  # type: ignore[union-attr]
    assert [stored.entry.id for stored in session.entries[-2:]] == ["n1", "n2"]
    session.close()
    assert [stored.raw for stored in session.entries] == stored_lines(tmp_path), "what was read stays readable"


def test_a_session_that_nobody_refers_to_lets_its_file_go_at_once(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(json.dumps(HEADER).encode() + b"\n")
    open_files = Path("/proc/self/fd")
    if not open_files.exists():
        pytest.skip("this system does not list open files")
    store = JsonlSessionStore(tmp_path, tmp_path / "trash")
    before = len(list(open_files.iterdir()))
    for _ in range(20):
        session = store.open("s")
        assert list(session.entries) == []
        session.close()
        del session
    assert len(list(open_files.iterdir())) <= before
    store.close()


def test_one_who_only_reads_keeps_what_was_there_when_the_file_is_replaced(tmp_path: Path) -> None:
    line = encode_line(entry_of("user", "a", None, "first", ""))
    path = tmp_path / "s.jsonl"
    path.write_bytes(json.dumps(HEADER).encode() + b"\n" + line + b"\n")
    store = JsonlSessionStore(tmp_path, tmp_path / "trash")
    session = store.look("s")
    fresh = tmp_path / "fresh"
    fresh.write_bytes(b"something else\n")
    fresh.replace(path)
    assert session.entries[0].raw == line and session.read_only
    store.close()
