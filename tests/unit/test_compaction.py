"""When older parts are summarised, which, and what is never lost or torn apart by it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
)
from app.protocol.estimate import estimate_message
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    tool_calls_of,
)
from app.sessions.compaction import Preparation, Refused, budget_of, files_of, is_due, prepare, used_tokens
from app.sessions.context import build_context
from tests.support import call, say

STAMP = "2026-01-02T03:04:05.678Z"


def entry(entry_id: str, message: Message) -> MessageEntry:
    return MessageEntry(id=entry_id, parent_id=None, timestamp=STAMP, message=message)


def user(entry_id: str, tokens: int = 10) -> MessageEntry:
    return entry(entry_id, UserMessage(content="x" * 4 * tokens))


def tutor(entry_id: str, tokens: int = 10) -> MessageEntry:
    return entry(entry_id, say("y" * 4 * tokens))


def asks(entry_id: str, call_id: str, tool: str = "read_file", **arguments: Any) -> MessageEntry:
    return entry(entry_id, call((call_id, tool, arguments)))


def result(entry_id: str, call_id: str, tokens: int = 10, **more: Any) -> MessageEntry:
    return entry(entry_id, ToolResultMessage(tool_call_id=call_id, content="z" * 4 * tokens, **more))


def compaction(entry_id: str, first_kept: str, summary: str = "They spoke.", **more: Any) -> CompactionEntry:
    base = {"id": entry_id, "parent_id": None, "timestamp": STAMP}
    return CompactionEntry(**base, summary=summary, first_kept_entry_id=first_kept, **more)


def prepared(path: Sequence[Entry], keep: int) -> Preparation:
    found = prepare(path, keep)
    assert isinstance(found, Preparation), found
    return found


def refused(path: Sequence[Entry], keep: int) -> str:
    found = prepare(path, keep)
    assert isinstance(found, Refused)
    return found.reason


def texts(found: Preparation) -> list[str]:
    return [type(message).__name__ for message in found.messages]


TURNS: list[Entry] = [user("u1"), tutor("a1"), user("u2"), tutor("a2"), user("u3"), tutor("a3")]


def test_budgets_are_shares_of_the_window_and_bounded() -> None:
    large, small, unknown = budget_of(200_000), budget_of(8_000), budget_of(0)
    assert (large.reserve, large.keep) == (16_384, 20_000)
    assert (small.reserve, small.keep) == (2_000, 4_000)
    assert unknown == budget_of(128_000)
    for window in (1, 100, 8_000, 128_000, 1_000_000):
        budget = budget_of(window)
        assert 0 < budget.branch_summary <= budget.summary <= max(1, budget.reserve) and budget.room > 0


@pytest.mark.parametrize(("tokens", "window", "due"), [(6_000, 8_000, False), (6_001, 8_000, True), (100, 100, True)])
def test_it_is_due_when_less_than_the_reserve_is_free(tokens: int, window: int, due: bool) -> None:
    assert is_due(tokens, window) is due


def test_the_cut_keeps_about_as_much_as_is_asked_for_and_falls_on_a_message() -> None:
    found = prepared(TURNS, 25)
    assert (found.first_kept_entry_id, len(found.messages), found.split) == ("a2", 3, True)
    assert (found.tokens_before, found.tokens_kept) == (60, 30)
    assert prepared(TURNS, 20).first_kept_entry_id == "u3" and not prepared(TURNS, 20).split


def test_where_everything_fits_nothing_is_summarised() -> None:
    assert refused(TURNS, 1_000) == "nothing_gained"
    assert refused(TURNS, 60) == "nothing_gained"
    assert refused([], 10) == "empty"
    assert (
        refused([ModelChangeEntry(id="m", parent_id=None, timestamp=STAMP, provider="p", model_id="x")], 10) == "empty"
    )


def test_a_summary_of_messages_without_a_text_gains_nothing() -> None:
    hidden = entry("h", BashExecutionMessage(command="x" * 400, exclude_from_context=True))
    assert refused([user("u0", 0), hidden, user("u1")], 5) == "nothing_gained"
    assert refused([*TURNS, compaction("k", "u3"), user("u4")], 25) == "nothing_gained"
    assert len(prepared([user("u0"), hidden, user("u1")], 5).messages) == 2


def test_a_second_compaction_takes_up_what_the_first_one_kept() -> None:
    path = [*TURNS[:4], compaction("k", "u2"), *TURNS[4:], user("u4"), tutor("a4")]
    found = prepared(path, 30)
    assert found.first_kept_entry_id == "a3"
    assert [m for m in found.messages] == [e.message for e in (TURNS[2], TURNS[3], TURNS[4])]  # type: ignore[union-attr]
    assert found.previous_summary == "They spoke."
    assert prepared(path[2:], 30) == found, "what the first one replaced is not needed"


def test_a_compaction_that_kept_nothing_is_gone_on_from_behind_it() -> None:
    path = [*TURNS[:4], compaction("k", "elsewhere"), *TURNS[4:], user("u4")]
    assert [m for m in prepared(path, 10).messages] == [e.message for e in TURNS[4:]]  # type: ignore[union-attr]


def test_right_behind_a_compaction_there_is_nothing_to_do() -> None:
    label = LabelEntry(id="l", parent_id=None, timestamp=STAMP, target_id="u1", label="x")
    assert refused([*TURNS, compaction("k", "u3")], 5) == "already_compacted"
    assert refused([*TURNS, compaction("k", "u3"), label], 5) == "already_compacted"
    assert refused([*TURNS, compaction("k", "nothing")], 5) == "already_compacted"


def test_calls_without_result_must_be_answered_first() -> None:
    assert refused([*TURNS, asks("a4", "c")], 10) == "unanswered_calls"
    assert isinstance(prepare([*TURNS, asks("a4", "c"), result("r", "c")], 10), Preparation)


def test_a_result_larger_than_all_that_is_kept_stays_with_its_call() -> None:
    found = prepared([*TURNS, asks("a4", "c"), result("r", "c", 1_000)], 50)
    assert found.first_kept_entry_id == "a4" and len(found.messages) == 6


def test_settings_before_the_cut_are_kept_with_it_and_split_no_turn() -> None:
    change = ModelChangeEntry(id="m", parent_id=None, timestamp=STAMP, provider="p", model_id="x")
    label = LabelEntry(id="l", parent_id=None, timestamp=STAMP, target_id="u1", label="x")
    found = prepared([*TURNS[:4], change, label, *TURNS[4:]], 20)
    assert (found.first_kept_entry_id, found.split, len(found.messages)) == ("m", False, 4)


def test_notes_and_summaries_of_branches_count_and_may_be_the_first_kept() -> None:
    note = CustomMessageEntry(id="n", parent_id=None, timestamp=STAMP, custom_type="x", content="n" * 400)
    left = BranchSummaryEntry(id="b", parent_id=None, timestamp=STAMP, summary="s" * 400)
    assert prepared([*TURNS, note, user("u4")], 60).first_kept_entry_id == "n"
    assert prepared([*TURNS, left, user("u4")], 60).first_kept_entry_id == "b"


def test_files_are_those_that_calls_have_read_and_written_and_are_carried_on() -> None:
    before = {"readFiles": ["old.md", "notes/x.md"], "modifiedFiles": ["notes/old.md"]}
    odd = {"readFiles": ["branch.md"], "modifiedFiles": [3]}
    path = [
        user("u0"),
        compaction("k", "nothing", details=before, from_hook=False),
        asks("a1", "1", "read_file", path="a.md"),
        result("r1", "1"),
        asks("a2", "2", "write_note", name="x"),
        result("r2", "2", details={"path": "notes/x.md"}),
        asks("a3", "3", "read_file", path="failed.md"),
        result("r3", "3", is_error=True),
        asks("a4", "4", "search_files", query="q"),
        result("r4", "4"),
        BranchSummaryEntry(
            id="b",
            parent_id=None,
            timestamp=STAMP,
            summary="s",
            details=odd,
        ),
        user("u1"),
        user("u2", 1_000),
    ]
    found = prepared(path, 500)
    assert found.read_files == ["a.md", "branch.md", "old.md"]
    assert found.modified_files == ["notes/old.md", "notes/x.md"]
    hooked = compaction("k", "nothing", details=before, from_hook=True)
    assert files_of([hooked]).read == frozenset()


def test_a_file_is_named_by_whatever_names_it() -> None:
    odd: list[Entry] = [asks("a", "1", "read", path=3, name="x.md"), result("r", "1", details={"path": ["y"]})]
    named: list[Entry] = [asks("a", "1", "edit", path="x.md"), result("r", "1", details={"path": 1})]
    assert (files_of(odd).read, files_of(named).modified) == ({"x.md"}, {"x.md"})
    nameless: list[Entry] = [asks("a", "1", "read"), result("r", "1", details="x.md")]
    assert files_of(nameless).read == frozenset()


def test_what_was_read_and_then_written_is_written() -> None:
    path = [asks("a", "1", "read", path="x.md"), result("r", "1"), asks("b", "2", "write", path="x.md")]
    files = files_of([*path, result("s", "2")])
    assert (files.read_only, files.modified) == ([], {"x.md"})


def test_what_is_kept_does_not_name_its_files_yet() -> None:
    kept: list[Entry] = [user("u4"), asks("a4", "c", path="late.md"), result("r", "c"), tutor("a5")]
    assert prepared([*TURNS, *kept], 25).read_files == []


def test_what_the_model_counted_is_taken_from_good_answers_only() -> None:
    usage = Usage(input=90, output=10)
    good = entry("a", AssistantMessage(content="x", usage=usage, stop_reason="stop"))
    broken = entry("a", AssistantMessage(content="x", usage=usage, stop_reason="error"))
    stopped = entry("a", AssistantMessage(content="x", usage=usage, stop_reason="aborted"))
    silent = entry("a", AssistantMessage(content="x", usage=Usage()))
    assert [used_tokens(one) for one in (good, broken, stopped, silent, user("u"))] == [100, 0, 0, 0, 0]


kinds = st.sampled_from(["user", "user", "answer", "calls", "result", "result", "note", "summary", "setting", "label"])


@st.composite
def paths(draw: st.DrawFn) -> list[Entry]:
    """Paths of any shape: results in odd places, without call, twice; ids that repeat."""
    path: list[Entry] = []
    for number in range(draw(st.integers(0, 30))):
        name, size = f"e{number}", draw(st.integers(0, 60))
        base = {"id": name, "parent_id": None, "timestamp": STAMP}
        match draw(kinds):
            case "user":
                path.append(user(name, size))
            case "answer":
                path.append(tutor(name, size))
            case "calls":
                ids = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True))
                blocks: list[Any] = [TextContent(text="t" * size)]
                blocks += [ToolCall(id=one, name="read_file", arguments={"path": name}) for one in ids]
                path.append(entry(name, AssistantMessage(content=blocks, stop_reason="toolUse")))
            case "result":
                path.append(result(name, draw(st.sampled_from("abc")), size))
            case "note":
                path.append(CustomMessageEntry(**base, custom_type="x", content="n" * size))
            case "summary":
                path.append(BranchSummaryEntry(**base, summary="s" * size))
            case "setting":
                path.append(CustomEntry(**base, custom_type="learning-state"))
            case _:
                path.append(LabelEntry(**base, target_id="e0", label="x"))
    return path


def apart(context: Sequence[Message], whole: Sequence[Message]) -> list[str]:
    """Results in a context whose call was before it."""
    asked = {block.id for one in context if isinstance(one, AssistantMessage) for block in tool_calls_of(one)}
    earlier = {block.id for one in whole if isinstance(one, AssistantMessage) for block in tool_calls_of(one)}
    given_ids = [one.tool_call_id for one in context if isinstance(one, ToolResultMessage)]
    return [one for one in given_ids if one in earlier and one not in asked]


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(paths(), st.integers(1, 300)), min_size=1, max_size=4))
def test_whatever_is_compacted_in_whatever_order_nothing_is_lost_and_no_call_torn_from_its_result(
    steps: list[tuple[list[Entry], int]],
) -> None:
    path: list[Entry] = []
    told: list[Message] = []
    for number, (more, keep) in enumerate(steps):
        path += [_renamed(one, f"{number}-{one.id}") for one in more]
        before = build_context(path).messages
        found = prepare(path, keep)
        if isinstance(found, Refused):
            continue
        told += found.messages
        assert found.messages and found.tokens_kept < found.tokens_before
        path.append(compaction(f"k{number}", found.first_kept_entry_id, "s"))
        after = build_context(path).messages
        kept = after[1:]
        assert sum(map(estimate_message, kept)) == found.tokens_kept
        assert before[len(before) - len(kept) :] == kept, "what is kept is the end of what there was"
        assert not apart(kept, found.messages)
        everything = [m for m in build_context([e for e in path if not isinstance(e, CompactionEntry)]).messages]
        assert all(any(one is known for known in (*told, *after)) for one in everything if _identity(one, path))


def _renamed(one: Entry, name: str) -> Entry:
    return msgspec.structs.replace(one, id=name)


def _identity(message: Message, path: Sequence[Entry]) -> bool:
    """Whether a message is stored as such: those of notes and summaries are made anew each time."""
    return any(isinstance(one, MessageEntry) and one.message is message for one in path)
