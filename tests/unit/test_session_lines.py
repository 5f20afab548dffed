"""Reading session files: every fault costs at most its own line, and is reported."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.entries import CompactionEntry, CustomEntry, MessageEntry, UnknownEntry
from app.protocol.messages import AssistantMessage, CustomMessage, UserMessage
from app.sessions.lines import ParsedFile, parse
from tests.plain_tree import index_of, path_to

STAMP = "2026-01-02T03:04:05.678Z"
HEADER: dict[str, Any] = {"type": "session", "version": 3, "id": "s", "timestamp": STAMP, "cwd": "/course"}


def user(entry_id: str, parent: str | None, text: str = "hello", **extra: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text, "timestamp": 1_700_000_000_000}
    entry = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": STAMP, "message": message}
    return entry | extra


def without(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys}


def lines(*values: Any, end: str = "\n") -> bytes:
    texts = [v if isinstance(v, bytes) else json.dumps(v, ensure_ascii=False).encode() for v in values]
    return b"".join(text + end.encode() for text in texts)


def ids(parsed: ParsedFile) -> list[str]:
    return [stored.entry.id for stored in parsed.entries]


def parents(parsed: ParsedFile) -> list[str | None]:
    return [stored.entry.parent_id for stored in parsed.entries]


def skipped(parsed: ParsedFile) -> dict[int, str]:
    return {line.line_number: line.reason for line in parsed.skipped}


def text_at(parsed: ParsedFile, position: int) -> Any:
    entry = parsed.entries[position].entry
    assert isinstance(entry, MessageEntry)
    return entry.message.content  # type: ignore[union-attr]


def test_a_sound_file_is_read_as_it_stands_with_the_bytes_of_each_line() -> None:
    strange = user("a", None, later={"field": [1, 2]})
    data = lines(HEADER, strange, user("b", "a"))
    parsed = parse(data, "file")
    assert (parsed.header.id, parsed.header.cwd, parsed.version) == ("s", "/course", 3)
    assert (ids(parsed), parents(parsed)) == (["a", "b"], [None, "a"])
    assert json.loads(parsed.entries[0].raw) == strange, "fields that we do not know stay in the bytes"
    assert not parsed.skipped and not parsed.warnings and not parsed.needs_rewrite and not parsed.problem
    assert parsed.ends_with_newline and parsed.size == len(data) and not parsed.future_version


def test_blank_broken_and_non_object_lines_are_skipped_and_reported() -> None:
    data = lines(HEADER, b"", b"{oops", b"null", b"42", b'"text"', b"[]", b"{}", user("a", None), b"  ")
    parsed = parse(data, "file")
    assert ids(parsed) == ["a"]
    assert skipped(parsed) == {
        2: "blank line",
        3: "not JSON",
        **dict.fromkeys((4, 5, 6, 7), "JSON, but not an object"),
        8: "an object without type and id",
        10: "blank line",
    }
    assert not parsed.needs_rewrite, "skipped lines harm nobody"


def test_a_torn_last_line_is_told_from_a_broken_one() -> None:
    parsed = parse(lines(HEADER, user("a", None)) + b'{"type":"message","id":"b","par', "file")
    assert (ids(parsed), skipped(parsed)) == (["a"], {3: "torn last line: its end was never written"})
    assert not parsed.ends_with_newline and not parsed.needs_rewrite


def test_a_complete_last_line_without_line_end_is_kept() -> None:
    parsed = parse(lines(HEADER, user("a", None))[:-1], "file")
    assert ids(parsed) == ["a"] and not parsed.skipped and not parsed.ends_with_newline


def test_garbage_before_the_header_does_no_harm() -> None:
    parsed = parse(lines(b"garbage", b"", HEADER, user("a", None)), "file")
    assert parsed.header.id == "s" and ids(parsed) == ["a"]
    assert list(skipped(parsed)) == [1, 2] and not parsed.needs_rewrite


def test_entries_before_the_header_are_kept_and_the_file_is_put_in_order_later() -> None:
    parsed = parse(lines(user("a", None), HEADER, user("b", "a")), "file")
    assert ids(parsed) == ["a", "b"] and parsed.header.id == "s" and parsed.needs_rewrite


def test_a_second_header_is_reported_and_ignored() -> None:
    parsed = parse(lines(HEADER, HEADER | {"id": "other"}, user("a", None)), "file")
    assert parsed.header.id == "s" and ids(parsed) == ["a"] and skipped(parsed) == {2: "a second header"}


def test_crlf_is_stripped_and_needs_no_rewrite() -> None:
    parsed = parse(lines(HEADER, user("a", None), end="\r\n"), "file")
    assert ids(parsed) == ["a"] and not parsed.skipped and not parsed.needs_rewrite
    assert parsed.entries[0].raw.endswith(b"}")


def test_a_byte_order_mark_is_accepted_and_goes_at_the_next_write() -> None:
    parsed = parse(b"\xef\xbb\xbf" + lines(HEADER, user("a", None)), "file")
    assert parsed.header.id == "s" and ids(parsed) == ["a"] and not parsed.skipped
    assert "byte order mark" in parsed.needs_rewrite and parsed.version == 3


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x1c"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    text = f"one{separator}two"
    written = lines(HEADER, user("a", None, text)) if separator > "\x7f" else None
    parsed = parse(written or lines(HEADER, json.dumps(user("a", None, text)).encode()), "file")
    assert text_at(parsed, 0) == text and not parsed.skipped


def test_lone_surrogates_keep_the_line_and_its_bytes() -> None:
    raw = json.dumps(user("a", None, "bad \ud800 half")).encode()
    parsed = parse(lines(HEADER, raw), "file")
    assert text_at(parsed, 0) == "bad \ufffd half"
    assert parsed.entries[0].raw == raw and not parsed.skipped and not parsed.needs_rewrite


def test_lone_surrogates_survive_a_migration() -> None:
    entry = without(user("a", None, "bad \ud800 half"), "id", "parentId")
    parsed = parse(lines(without(HEADER, "version"), json.dumps(entry).encode()), "file")
    assert b"\\ud800" in parsed.entries[0].raw


def test_bytes_that_are_not_utf8_cost_only_themselves() -> None:
    raw = json.dumps(user("a", None, "caf?")).encode().replace(b"?", b"\xe9")
    parsed = parse(lines(HEADER, raw), "file")
    assert text_at(parsed, 0) == "caf\ufffd" and parsed.entries[0].raw == raw
    assert any("UTF-8" in warning for warning in parsed.warnings)


def test_unknown_types_stay_in_the_chain() -> None:
    strange = {"type": "hologram", "id": "b", "parentId": "a", "timestamp": STAMP, "beam": 1}
    parsed = parse(lines(HEADER, user("a", None), strange, user("c", "b")), "file")
    assert parsed.entries[1].entry == UnknownEntry(id="b", parent_id="a", timestamp=STAMP, type="hologram")
    path = path_to(index_of(stored.entry for stored in parsed.entries), "c")
    assert [entry.id for entry in path] == ["a", "b", "c"] and not parsed.warnings


def test_a_known_type_that_does_not_fit_is_kept_and_says_where() -> None:
    odd = user("a", None) | {"message": {"role": "user", "content": 7}}
    parsed = parse(lines(HEADER, odd), "file")
    entry = parsed.entries[0].entry
    assert isinstance(entry, UnknownEntry) and "$.message.content" in entry.problem
    assert json.loads(parsed.entries[0].raw) == odd and parsed.warnings


def test_a_stop_reason_that_is_unknown_counts_as_an_error() -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "so far"}], "stopReason": "tired"}
    parsed = parse(lines(HEADER, user("a", None) | {"message": message}), "file")
    entry = parsed.entries[0].entry
    assert isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage)
    assert entry.message.stop_reason == "error"


def test_a_stored_id_occurring_twice_is_reported_and_both_lines_are_kept() -> None:
    parsed = parse(lines(HEADER, user("a", None, "old"), user("a", None, "new"), user("b", "a")), "file")
    assert ids(parsed) == ["a", "a", "b"]
    assert any("more than once" in warning and "a" in warning for warning in parsed.warnings)


@pytest.mark.parametrize("links", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "c", "b": "a", "c": "b"}])
def test_cycles_are_reported(links: dict[str, str]) -> None:
    parsed = parse(lines(HEADER, *(user(entry, parent) for entry, parent in links.items())), "file")
    assert ids(parsed) == list(links) and any("cycle" in warning for warning in parsed.warnings)


def test_an_orphan_is_reported() -> None:
    parsed = parse(lines(HEADER, user("a", "lost")), "file")
    assert ids(parsed) == ["a"] and any("not in the file" in warning for warning in parsed.warnings)


def v1_file() -> bytes:
    entries = [without(user("", None, f"text {n}"), "id", "parentId") for n in range(3)]
    compaction = {"type": "compaction", "timestamp": STAMP, "summary": "sum", "tokensBefore": 9}
    header = without(HEADER, "version") | {"provider": "p", "modelId": "m", "branchedFrom": "/old.jsonl"}
    return lines(header, *entries, compaction | {"firstKeptEntryIndex": 2}, entries[0])


def test_version_1_becomes_a_chain_with_ids_that_stay_the_same() -> None:
    first, second = parse(v1_file(), "file"), parse(v1_file(), "file")
    assert ids(first) == ids(second) and len(set(ids(first))) == 5
    assert all(len(entry_id) == 8 for entry_id in ids(first))
    assert parents(first) == [None, *ids(first)[:-1]]
    assert first.version == 1 and "version 1" in first.needs_rewrite and not first.skipped


def test_version_1_compaction_index_counts_all_objects_with_the_header_at_0() -> None:
    parsed = parse(v1_file(), "file")
    compaction = parsed.entries[3].entry
    assert isinstance(compaction, CompactionEntry)
    assert compaction.first_kept_entry_id == parsed.entries[1].entry.id
    assert "firstKeptEntryIndex" not in json.loads(parsed.entries[3].raw)


@pytest.mark.parametrize("position", [0, 99, -1, None, "x", True])
def test_a_version_1_compaction_index_that_points_nowhere_keeps_nothing(position: Any) -> None:
    compaction = {"type": "compaction", "timestamp": STAMP, "summary": "s", "firstKeptEntryIndex": position}
    parsed = parse(lines(without(HEADER, "version"), compaction), "file")
    entry = parsed.entries[0].entry
    assert isinstance(entry, CompactionEntry) and entry.first_kept_entry_id == ""


def test_migrated_lines_are_version_3_and_read_the_same() -> None:
    old = parse(v1_file(), "file")
    content = b"\n".join([old.header_raw, *(stored.raw for stored in old.entries)]) + b"\n"
    new = parse(content, "file")
    assert [s.entry for s in new.entries] == [s.entry for s in old.entries]
    assert new.header == old.header and new.version == 3 and not new.needs_rewrite
    assert json.loads(new.header_raw)["branchedFrom"] == "/old.jsonl", "unknown header fields are kept"


def test_derived_ids_avoid_ids_in_use() -> None:
    data = v1_file()
    taken = ids(parse(data, "file"))[0]
    assert len(set(ids(parse(data + lines(user(taken, None)), "file")))) == 6


def test_version_2_hook_messages_become_custom_messages() -> None:
    hook = user("a", None) | {"message": {"role": "hookMessage", "customType": "x", "content": "hi", "display": False}}
    parsed = parse(lines(HEADER | {"version": 2}, hook), "file")
    entry = parsed.entries[0].entry
    assert isinstance(entry, MessageEntry)
    assert entry.message == CustomMessage(custom_type="x", content="hi", display=False)
    assert json.loads(parsed.entries[0].raw)["message"]["role"] == "custom" and "2" in parsed.needs_rewrite


def test_teaching_format_with_its_own_ids_and_version_1() -> None:
    header = {"type": "session", "version": 1, "id": "lesson", "timestamp": STAMP}
    parsed = parse(lines(header, user("entry_1", None), user("entry_2", "entry_1")), "file")
    assert ids(parsed) == ["entry_1", "entry_2"] and parents(parsed) == [None, "entry_1"]
    assert (parsed.header.id, parsed.header.version, parsed.version) == ("lesson", 3, 1)


def test_teaching_format_without_header_gets_one() -> None:
    parsed = parse(lines(user("entry_1", None), user("entry_2", "entry_1")), "the-file")
    assert ids(parsed) == ["entry_1", "entry_2"] and parsed.needs_rewrite and not parsed.problem
    assert parsed.header.id == "the-file" and parsed.header.timestamp == STAMP
    assert json.loads(parsed.header_raw)["version"] == 3


@pytest.mark.parametrize("header", [{"id": 7}, {"cwd": None}, {"timestamp": 5}, {"id": ""}, {"parentSession": 3}])
def test_a_header_with_unsound_fields_is_mended(header: dict[str, Any]) -> None:
    parsed = parse(lines(HEADER | header, user("a", None)), "file")
    assert parsed.header.id in ("s", "file") and ids(parsed) == ["a"] and parsed.needs_rewrite
    assert not parse(parsed.header_raw + b"\n", "file").needs_rewrite


def test_missing_ids_parents_and_times_are_filled_in() -> None:
    first = without(user("a", None), "parentId", "timestamp")
    second = without(user("", None), "id", "parentId")
    number = user("", None) | {"id": 5, "parentId": "a"}
    parsed = parse(lines(HEADER, first, second, number, user("d", None) | {"parentId": 5}), "file")
    derived = ids(parsed)[1]
    assert ids(parsed) == ["a", derived, "5", "d"] and parents(parsed) == [None, "a", "a", "5"]
    assert parsed.entries[0].entry.timestamp == "2023-11-14T22:13:20.000Z", "the message's own time"
    assert parsed.needs_rewrite


def test_a_missing_time_alone_needs_no_rewrite() -> None:
    custom = {"type": "custom", "id": "a", "parentId": None, "customType": "x"}
    parsed = parse(lines(HEADER, custom), "file")
    assert parsed.entries[0].entry == CustomEntry(id="a", parent_id=None, timestamp=STAMP, custom_type="x")
    assert json.loads(parsed.entries[0].raw) == custom and not parsed.needs_rewrite


@pytest.mark.parametrize("version", [4, 9, 3.5e300])
def test_a_newer_version_is_read_and_marked(version: float) -> None:
    parsed = parse(lines(HEADER | {"version": version}, user("a", None)), "file")
    assert ids(parsed) == ["a"] and parsed.future_version


@pytest.mark.parametrize("version", [None, "3", True, 0, -5, -1e300])
def test_a_version_that_is_no_number_counts_as_1(version: Any) -> None:
    parsed = parse(lines(HEADER | {"version": version}, user("a", None)), "file")
    assert parsed.version == 1 and ids(parsed) == ["a"]


@pytest.mark.parametrize("data", [b"hello\nworld\n", lines({"question": 1}), b"\x00\x01\x02", b"\xef\xbb\xbfx"])
def test_what_is_no_session_is_named_so(data: bytes) -> None:
    assert parse(data, "file").problem


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"\r\n \n"])
def test_an_empty_file_is_an_empty_session_that_lacks_its_header(data: bytes) -> None:
    parsed = parse(data, "file")
    assert not parsed.problem and parsed.needs_rewrite and parsed.header.id == "file" and not parsed.entries


def test_deep_nesting_costs_only_its_line() -> None:
    deep = b'{"type":"custom","id":"x","data":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    middle = b'{"type":"custom","id":"y","data":' + b"[" * 400 + b"]" * 400 + b"}"
    parsed = parse(lines(HEADER, deep, middle, user("a", None)), "file")
    assert ids(parsed) == ["a"] and set(skipped(parsed).values()) == {"nested too deeply"}


def test_numbers_that_json_does_not_know_are_read() -> None:
    raw = b'{"type":"custom","id":"a","parentId":null,"timestamp":"","customType":"x","data":[NaN,1e999]}'
    assert ids(parse(lines(HEADER, raw), "file")) == ["a"]


def accounted(data: bytes) -> ParsedFile:
    """Parses and asserts that each line is the header, an entry, or skipped."""
    parsed = parse(data, "file")
    body = data.removeprefix(b"\xef\xbb\xbf")
    count = body.count(b"\n") + (1 if body and not body.endswith(b"\n") else 0)
    has_header = any(
        isinstance(value, dict) and value.get("type") == "session"
        for number, line in enumerate(body.split(b"\n"), 1)
        if number <= count and skipped(parsed).get(number, "a second header") == "a second header"
        for value in [json.loads(line.decode(errors="replace"))]
    )
    assert len(parsed.entries) + len(parsed.skipped) + has_header == count
    assert len({line.line_number for line in parsed.skipped}) == len(parsed.skipped)
    return parsed


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
field_names = st.sampled_from(
    ["type", "id", "parentId", "timestamp", "message", "version", "firstKeptEntryIndex", "cwd", "summary"]
)
values = plain | st.sampled_from(["session", "message", "compaction", "label", "a", "b"])
objects = st.builds(
    lambda base, changes, dropped: without(base | changes, *dropped),
    st.sampled_from([HEADER, HEADER | {"version": 1}, user("a", None), user("b", "a"), user("a", "b")]),
    st.dictionaries(field_names, values, max_size=3),
    st.sets(field_names, max_size=2),
)
texts = st.one_of(
    objects.map(lambda value: json.dumps(value).encode()),
    plain.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=12),
)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(data: bytes) -> None:
    accounted(data)


@settings(deadline=None, max_examples=300)
@given(st.lists(texts, max_size=8), st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.binary(max_size=6))
def test_any_mixture_of_lines_can_be_read_and_rewritten(parts: list[bytes], end: bytes, bom: bool, tail: bytes) -> None:
    data = (b"\xef\xbb\xbf" if bom else b"") + b"".join(part + end for part in parts) + tail
    parsed = accounted(data)
    again = parse(data, "file")
    assert ids(again) == ids(parsed) and parents(again) == parents(parsed), "derived ids stay the same"
    rewritten = b"\n".join([parsed.header_raw, *(stored.raw for stored in parsed.entries)]) + b"\n"
    fresh = parse(rewritten, "file")
    assert (ids(fresh), parents(fresh)) == (ids(parsed), parents(parsed)), "a rewrite keeps the tree"
    assert not fresh.skipped and not fresh.needs_rewrite


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_a_damaged_byte_costs_only_its_line(data: st.DataObject) -> None:
    sound = [json.dumps(value).encode() for value in (HEADER, *(user(f"e{n}", None) for n in range(6)))]
    victim = data.draw(st.integers(1, 6))
    at = data.draw(st.integers(0, len(sound[victim]) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != 10))
    damaged = sound[victim][:at] + bytes([byte]) + sound[victim][at + 1 :]
    parsed = accounted(lines(*sound[:victim], damaged, *sound[victim + 1 :]))
    assert {f"e{n}" for n in range(6) if n != victim - 1} <= set(ids(parsed))


def test_user_messages_are_views_of_their_lines() -> None:
    entry = parse(lines(HEADER, user("a", None, "hi")), "file").entries[0].entry
    assert isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage)
    assert (entry.message.content, entry.message.timestamp) == ("hi", 1_700_000_000_000)
