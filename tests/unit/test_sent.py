"""What the model was sent for each answer: how much, and what of it was new."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app.protocol.entries import (
    LEAF,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
)
from app.protocol.estimate import estimate_message, estimate_tokens
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from app.sessions.context import build_context
from app.sessions.window import window_of
from app.web.sent import Part, Sent, sent_of
from tests.support import Read, call, say

STAMP = "2026-01-02T03:04:05.678Z"
FIXED = 100


def entry(entry_id: str, message: Message) -> MessageEntry:
    return MessageEntry(id=entry_id, parent_id=None, timestamp=STAMP, message=message)


def user(entry_id: str, text: str = "asks") -> MessageEntry:
    return entry(entry_id, UserMessage(content=text))


def tutor(entry_id: str, text: str = "tells") -> MessageEntry:
    return entry(entry_id, say(text))


def result(entry_id: str, text: str) -> MessageEntry:
    return entry(entry_id, ToolResultMessage(tool_call_id="c", tool_name="look", content=text))


def compaction(entry_id: str, summary: str, first_kept: str) -> CompactionEntry:
    return CompactionEntry(
        id=entry_id, parent_id=None, timestamp=STAMP, summary=summary, first_kept_entry_id=first_kept
    )


def requests(path: Sequence[Entry], fixed: int = 0, partial_id: str | None = None) -> Mapping[str, Sent]:
    above = [None, *(entry.id for entry in path)]
    chained = [replace(entry, parent_id=parent) for entry, parent in zip(path, above, strict=False)]
    read: Any = Read(chained)
    return sent_of(read, window_of(read, read.leaf), fixed, partial_id)


def words(sent: Sent) -> list[str]:
    return [f"{part.kind}: {part.text}" for part in sent.new]


def test_each_request_holds_all_before_it_and_says_what_is_new() -> None:
    path: list[Entry] = [
        user("u", "Where?"),
        entry("a", call(("c", "look", {}), ("d", "list", {}))),
        result("r", "here\nand there"),
        result("s", "b"),
        tutor("b", "There."),
        user("v", "Why?"),
        tutor("e"),
    ]
    sent = requests(path, FIXED)
    assert list(sent) == ["a", "b", "e"]
    assert [words(one) for one in sent.values()] == [
        ["user: Where?"],
        ["tutor: look list", "tool: here and there", "tool: b"],
        ["tutor: There.", "user: Why?"],
    ]
    assert [(one.messages, one.earlier) for one in sent.values()] == [(1, 0), (4, 1), (6, 4)]
    assert [one.fixed for one in sent.values()] == [100] * 3


def test_tokens_are_one_for_four_characters_with_instructions_and_tools_among_them() -> None:
    path = [user("u", "x" * 41), tutor("a", "y" * 40), user("v", "z"), tutor("b")]
    assert [one.tokens for one in requests(path, FIXED).values()] == [111, 122]
    assert [(one.tokens, one.fixed) for one in requests(path).values()] == [(11, 0), (22, 0)]
    assert [part.tokens for part in requests(path, FIXED)["b"].new] == [10, 1]


def test_after_a_compaction_all_is_new_and_what_it_replaced_is_gone() -> None:
    path: list[Entry] = [
        user("u", "x" * 4_000),
        tutor("a", "old"),
        user("v", "kept"),
        tutor("b", "kept too"),
        compaction("k", "They spoke.", "v"),
        user("w", "next"),
        tutor("c"),
        tutor("d"),
    ]
    sent = requests(path)
    assert words(sent["c"]) == ["summary: They spoke.", "user: kept", "tutor: kept too", "user: next"]
    kept = sum(map(estimate_tokens, ("They spoke.", "kept", "kept too", "next")))
    assert (sent["c"].messages, sent["c"].earlier, sent["c"].tokens) == (4, 0, kept)
    assert words(sent["d"]) == ["tutor: tells"]
    assert sent["b"].messages == 3 and sent["b"].tokens > 1_000, "what was sent before it stays as it was"


def test_summaries_of_branches_notes_and_shell_commands_are_sent_and_bookkeeping_is_not() -> None:
    path: list[Entry] = [
        LabelEntry(id="l", parent_id=None, timestamp=STAMP, target_id="u", label="x"),
        BranchSummaryEntry(id="s", parent_id=None, timestamp=STAMP, summary="Another way\nwas left."),
        BranchSummaryEntry(id="t", parent_id=None, timestamp=STAMP, summary=""),
        CustomMessageEntry(id="n", parent_id=None, timestamp=STAMP, custom_type="x", content="a hint", display=False),
        entry("sh", BashExecutionMessage(command="ls -l", output="much")),
        CustomEntry(id="m", parent_id=None, timestamp=STAMP, custom_type=LEAF),
        user("u", "on"),
        tutor("a"),
    ]
    sent = requests(path)["a"]
    assert words(sent) == ["summary: Another way was left.", "note: a hint", "note: ls -l", "user: on"]
    assert sent.tokens == sum(map(estimate_tokens, ("Another way\nwas left.", "a hint", "ls -l", "much", "on")))


def test_the_message_being_written_has_been_sent_what_is_there_so_far() -> None:
    path: list[Entry] = [user("u", "one"), tutor("a"), user("v", "two")]
    assert words(requests(path, FIXED, "p")["p"]) == ["tutor: tells", "user: two"]
    assert requests([], FIXED, "p")["p"] == Sent(0, 100, 100, [])
    stored = requests([*path, tutor("p")], FIXED, "p")
    assert words(stored["p"]) == ["tutor: tells", "user: two"], "once it is stored, it is not counted to itself"
    assert "p" not in requests(path, FIXED)


def test_a_hostile_message_is_named_in_one_short_line() -> None:
    part = Part(
        UserMessage(content=[TextContent(text="a\u202eb\n\x00<b>" + "c" * 500), ImageContent(data="", mime_type="i")])
    )
    assert part.text.startswith("ab <b>c") and len(part.text) <= 80 and "\n" not in part.text
    assert Part(AssistantMessage(content=[])).text == ""


texts = st.text(st.sampled_from("ab \n水\U0001f30a"), max_size=30)
assistants = st.builds(
    AssistantMessage,
    content=st.lists(
        texts.map(lambda text: TextContent(text=text))
        | texts.map(lambda text: ToolCall(id="c", name="look", arguments={"x": text})),
        max_size=3,
    ),
)
messages = st.one_of(
    texts.map(lambda text: UserMessage(content=text)),
    assistants,
    texts.map(lambda text: ToolResultMessage(tool_call_id="c", content=text)),
    st.builds(BashExecutionMessage, command=texts, output=texts, exclude_from_context=st.booleans()),
)


@st.composite
def paths(draw: st.DrawFn) -> list[Entry]:
    """Any path: messages, summaries and compactions that keep from anywhere, or nothing."""
    path: list[Entry] = []
    for index in range(draw(st.integers(0, 14))):
        name = f"e{index}"
        match draw(st.sampled_from(["message"] * 6 + ["compaction", "summary", "note", "leaf"])):
            case "compaction":
                path.append(compaction(name, draw(texts), f"e{draw(st.integers(0, index + 1))}"))
            case "summary":
                path.append(BranchSummaryEntry(id=name, parent_id=None, timestamp=STAMP, summary=draw(texts)))
            case "note":
                path.append(
                    CustomMessageEntry(id=name, parent_id=None, timestamp=STAMP, custom_type="x", content=draw(texts))
                )
            case "leaf":
                path.append(CustomEntry(id=name, parent_id=None, timestamp=STAMP, custom_type=LEAF))
            case _:
                path.append(entry(name, draw(messages)))
    return path


def answers(path: Sequence[Entry]) -> list[int]:
    return [
        index
        for index, one in enumerate(path)
        if isinstance(one, MessageEntry) and isinstance(one.message, AssistantMessage)
    ]


@settings(max_examples=60, deadline=None)
@given(paths(), st.integers(0, 9_999))
def test_a_request_is_what_the_context_before_the_answer_holds(path: list[Entry], fixed: int) -> None:
    sent = requests(path, fixed, "partial")
    places = [*answers(path), len(path)]
    names = [*(path[place].id for place in places[:-1]), "partial"]
    assert list(sent) == names
    for place, name in zip(places, names, strict=True):
        context = build_context(path[:place]).messages
        one = sent[name]
        assert one.messages == len(context)
        assert one.tokens == sum(map(estimate_message, context)) + fixed
        assert [part.message for part in one.new] == context[one.earlier :]
    for (before, _), (place, name) in pairwise(zip(places, names, strict=True)):
        if not any(isinstance(one, CompactionEntry) for one in path[before:place]):
            assert sent[name].earlier == len(build_context(path[:before]).messages)
