"""Searching a session's tree: what is found, what of it is shown, what is marked."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.entries import Entry, LabelEntry, MessageEntry
from app.protocol.messages import AssistantMessage, TextContent, ToolCall
from app.web.found_words import excerpt, marked
from app.web.tree_search import find
from tests.support import Read
from tests.unit.test_tree_view import STAMP, result, tutor, user

LETTERS = st.text('abIİıßsΣσς秩éE\u0301 \n"\\/ut-', max_size=14)
WORDS = st.text("abIİıßsΣσς秩éE\u0301ut/-", min_size=1, max_size=3)


def found(entries: list[Entry], words: str) -> list[str]:
    read: Any = Read(entries)
    nodes = find(read, len(entries), words).nodes
    return [one.id for one, hit in zip(entries, nodes, strict=True) if hit]


@given(st.lists(LETTERS, max_size=6), st.lists(LETTERS, max_size=2), st.lists(WORDS, min_size=1, max_size=2))
@settings(max_examples=200)
def test_all_words_are_found_in_text_and_label_in_any_case_however_they_are_stored(
    texts: list[str], labels: list[str], words: list[str]
) -> None:
    entries: list[Entry] = [user(f"e{n}", f"e{n - 1}" if n else None, text) for n, text in enumerate(texts)]
    for number, label in enumerate(labels[: len(texts)]):
        entries.append(
            LabelEntry(id=f"l{number}", parent_id="e0", timestamp=STAMP, target_id=f"e{number}", label=label)
        )
    read: Any = Read(entries)
    told = [f"{read.outline.labels.get(f'e{n}', '')}\n{text}".casefold() for n, text in enumerate(texts)]
    wanted = [word.casefold() for word in words]
    assert found(entries, " ".join(words)) == [
        f"e{n}" for n, text in enumerate(told) if all(word in text for word in wanted)
    ]


def test_who_speaks_is_found_by_the_whole_word_and_tools_by_their_names_and_arguments() -> None:
    asks = AssistantMessage(
        content=[TextContent(text="hm")]
        + [ToolCall(id=f"c{n}", name=f"tool_{n}", arguments={"path": f"{n}.md"}) for n in range(30)]
    )
    entries: list[Entry] = [
        user("u", None, "tutorials"),
        MessageEntry(id="a", parent_id="u", timestamp=STAMP, message=asks),
        result("r", "a"),
        tutor("b", "r", "end"),
    ]
    assert found(entries, "tutor") == ["u", "a", "b"]
    assert found(entries, "tut") == ["u"]
    assert found(entries, "toolresult") == found(entries, "look") == ["r"]
    assert found(entries, "Tool_29") == found(entries, "29.md hm") == ["a"]
    assert found(entries, "user tutor") == ["u"]


@given(LETTERS.map(lambda text: text * 20), st.lists(WORDS, max_size=3).map(" ".join))
@settings(max_examples=200)
def test_marks_leave_the_text_as_it_is_and_every_mark_holds_a_word(text: str, words: str) -> None:
    pieces = marked(text, words)
    assert "".join(piece for piece, _ in pieces) == text
    wanted = words.casefold().split()
    assert all(any(word in piece.casefold() for word in wanted) for piece, hit in pieces if hit)
    assert any(hit for _, hit in pieces) == any(word in text.casefold() for word in wanted)
    assert not any(word in piece.casefold() for piece, hit in pieces if not hit for word in wanted)


@pytest.mark.parametrize(
    ("text", "words", "marks"),
    [
        ("Straße und Gasse", "strasse SS", ["Straße", "ss"]),
        ("Maß", "s", ["ß"]),
        ("a pivot, PIVOTS", "pivot pivots", ["pivot", "PIVOTS"]),
        ("nothing", "", []),
    ],
)
def test_marks_are_the_longest_words_in_their_own_writing(text: str, words: str, marks: list[str]) -> None:
    assert [piece for piece, hit in marked(text, words) if hit] == marks


def test_a_row_begins_near_the_first_word_when_that_stands_far_in() -> None:
    text = "filler " * 50 + "then the pivot comes. " + "filler " * 50
    line = excerpt(text, "PIVOT", 80)
    assert line.startswith("…filler ") and "pivot comes" in line and len(line) <= 80
    assert excerpt(text, "", 80) == excerpt(text, "filler pivot", 80) == excerpt(text, "absent", 80)
    assert excerpt(text, "absent", 80).startswith("filler")


@given(LETTERS.map(lambda text: text * 30), WORDS, st.integers(40, 90))
@settings(max_examples=100)
def test_an_excerpt_is_never_longer_than_its_line(text: str, words: str, limit: int) -> None:
    assert len(excerpt(text, words, limit)) <= limit
