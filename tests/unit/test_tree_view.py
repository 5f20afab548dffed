"""The rows of the session tree: which, in which order, how deep, and how many."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.entries import (
    LEAF,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
)
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from app.web.tree_view import LINE, LONGER, Row, TreeView, tree_rows
from app.web.tree_words import ShownEntry, anchor_of
from tests.plain_tree import index_of, parents_of, path_to
from tests.support import Read

STAMP = "2026-01-02T03:04:05.678Z"
STAMP_MS = 1767323045678


def entry(entry_id: str, parent: str | None, message: Message) -> MessageEntry:
    return MessageEntry(id=entry_id, parent_id=parent, timestamp=STAMP, message=message)


def user(entry_id: str, parent: str | None, text: str = "hi") -> MessageEntry:
    return entry(entry_id, parent, UserMessage(content=text))


def tutor(entry_id: str, parent: str | None, text: str = "well", *calls: str, **more: Any) -> MessageEntry:
    blocks: list[Any] = [TextContent(text=text)] if text else []
    blocks += [ToolCall(id=f"call-{entry_id}-{n}", name=name, arguments={}) for n, name in enumerate(calls)]
    return entry(entry_id, parent, AssistantMessage(content=blocks, **more))


def result(entry_id: str, parent: str | None, call_id: str = "c1", *, is_error: bool = False) -> MessageEntry:
    return entry(
        entry_id, parent, ToolResultMessage(tool_call_id=call_id, tool_name="look", content="seen", is_error=is_error)
    )


def view(entries: Sequence[Entry], leaf_id: str | None = "", *, show: str = "raw", limit: int = 10_000) -> TreeView:
    read: Any = Read(entries)
    leaf = read.leaf if leaf_id == "" else -1 if leaf_id is None else read.outline.position(leaf_id)
    return tree_rows(read, leaf, count=len(entries), keep="lesson" if show == "lesson" else "all", limit=limit)


def ids(rows: Sequence[Row]) -> list[Any]:
    """The ids of rows; of folded ones as a list of their steps'."""
    return [[step.id for step in row.steps] if row.kind == "steps" else row.id for row in rows]


def by_id(found: TreeView) -> dict[str, Row]:
    return {row.id: row for line in found.rows for row in (line, *line.steps) if row.id}


TURN: list[Entry] = [
    user("u", None, "What is a pivot?"),
    tutor("a1", "u", "", "look", "look"),
    result("r1", "a1", "call-a1-0"),
    result("r2", "r1", "call-a1-1"),
    tutor("a2", "r2", "Let me look again.", "look"),
    result("r3", "a2", "call-a2-0", is_error=True),
    tutor("a3", "r3", "The first entry."),
]


def test_a_chain_stays_at_one_depth_with_no_branch() -> None:
    found = view(TURN)
    assert ids(found.rows) == ["u", "a1", "r1", "r2", "a2", "r3", "a3"]
    assert {(row.depth, row.branch, row.branches, row.forks) for row in found.rows} == {(0, 0, 0, 0)}
    assert [row.is_end for row in found.rows] == [False] * 6 + [True]
    assert (found.branches, found.roots, found.at_start) == (1, 1, False)


def test_in_a_lesson_what_stands_between_question_and_answer_is_folded() -> None:
    found = view(TURN, show="lesson")
    assert ids(found.rows) == ["u", ["a1", "r1", "r2", "a2", "r3"], "a3"]
    steps = found.rows[1]
    assert (steps.step_count, steps.failed, steps.on_path) == (5, 1, True)
    assert found.total == 3


@pytest.mark.parametrize("show", ["workings", "raw"])
def test_with_workings_each_entry_is_a_row(show: str) -> None:
    assert ids(view(TURN, show=show).rows) == [one.id for one in TURN]


def test_a_fork_starts_branches_below_it_in_the_order_of_the_file() -> None:
    entries = [*TURN, user("x", "u", "with a picture"), tutor("x1", "x"), user("v", "a3"), user("y", "u", "in words")]
    found = by_id(view(entries, "v", show="lesson"))
    assert list(found)[:2] == ["u", "a1"] and list(found)[-4:] == ["v", "x", "x1", "y"]
    assert (found["u"].forks, found["u"].depth) == (3, 0)
    assert [(found[one].depth, found[one].branch, found[one].branches) for one in ("x", "x1", "y", "v")] == [
        (1, 2, 3),
        (1, 0, 0),
        (1, 3, 3),
        (1, 0, 0),
    ]
    lines = view(entries, "v", show="lesson").rows
    assert (lines[1].kind, lines[1].branch, lines[1].branches) == ("steps", 1, 3), "the fold opens its branch"
    assert [one for one, row in found.items() if row.is_end] == ["v", "x1", "y"]
    assert view(entries).branches == 3


def test_several_first_messages_are_branches_of_the_start() -> None:
    found = view([user("a", None), user("b", None)], "b")
    assert [(row.depth, row.branch, row.branches, row.on_path) for row in found.rows] == [
        (1, 1, 2, False),
        (1, 2, 2, True),
    ]
    assert found.roots == 2


def test_the_path_is_marked_and_ends_where_you_are() -> None:
    entries = [user("a", None), tutor("b", "a"), user("c", "b"), user("d", "b")]
    found = view(entries, "b")
    assert [(row.id, row.on_path, row.is_leaf) for row in found.rows] == [
        ("a", True, False),
        ("b", True, True),
        ("c", False, False),
        ("d", False, False),
    ]


def test_a_leaf_that_is_not_shown_leaves_the_mark_to_the_row_above_it() -> None:
    entries = [
        user("a", None),
        ModelChangeEntry(id="m", parent_id="a", timestamp=STAMP, provider="p", model_id="x"),
    ]
    (row,) = view(entries, "m").rows
    assert row.is_leaf


@pytest.mark.parametrize("entries", [[], [user("a", None)]])
def test_before_the_first_entry_you_are_at_the_start(entries: list[Entry]) -> None:
    found = view(entries, None)
    assert found.at_start and not any(row.on_path or row.is_leaf for row in found.rows)


def test_where_you_are_is_never_inside_a_fold() -> None:
    assert ids(view(TURN, "r2", show="lesson").rows) == ["u", ["a1", "r1"], "r2", ["a2", "r3"], "a3"]


def test_rows_say_who_speaks_and_how_it_begins_without_a_prefix() -> None:
    entries: list[Entry] = [
        user("u", None, "one\n two"),
        tutor("t", "u", "", "look", "read"),
        result("r", "t"),
        entry("s", "r", BashExecutionMessage(command="ls")),
        entry("k", "s", CustomMessage(custom_type="x", content="noted")),
        CompactionEntry(id="c", parent_id="k", timestamp=STAMP, summary="so far", first_kept_entry_id="u"),
        BranchSummaryEntry(id="b", parent_id="c", timestamp=STAMP, summary="left behind"),
        tutor("e", "b", "", stop_reason="error", error_message="no answer"),
    ]
    assert [(row.kind, row.text, row.tools, row.mark) for row in view(entries).rows] == [
        ("user", "one two", (), ""),
        ("tutor", "", ("look", "read"), ""),
        ("tool", "seen", ("look",), ""),
        ("note", "$ ls", (), ""),
        ("note", "noted", (), ""),
        ("summary", "so far", (), ""),
        ("summary", "left behind", (), ""),
        ("tutor", "no answer", (), "failed"),
    ]
    assert view(entries).rows[5].entry_type == "compaction"
    assert view(entries).rows[2].entry_type == "message toolResult"


@pytest.mark.parametrize(("reason", "mark"), [("aborted", "stopped"), ("length", "cut"), ("error", "failed")])
def test_an_answer_that_did_not_end_well_is_marked_and_never_folded(reason: str, mark: str) -> None:
    entries = [user("u", None), tutor("t", "u", "", stop_reason=reason), user("v", "t")]
    found = view(entries, show="lesson")
    assert ids(found.rows) == ["u", "t", "v"] and found.rows[1].mark == mark


def test_only_rows_on_the_path_lead_into_the_lesson_and_the_others_can_be_read_on() -> None:
    long = "word " * 200
    entries = [user("u", None, long), user("v", None, long), result("r", "u", "call 1"), user("w", None, "short")]
    found = by_id(view(entries, "r"))
    assert (found["u"].anchor, found["u"].more) == ("m-u", "")
    assert found["r"].anchor == anchor_of(entries[2]) and found["r"].anchor.startswith("c-")
    assert found["v"].anchor == "" and LINE < len(found["v"].more) <= LONGER
    assert (found["w"].anchor, found["w"].more) == ("", "")


def test_what_the_lesson_does_not_show_has_no_anchor() -> None:
    hidden = entry("h", None, CustomMessage(custom_type="x", content="y", display=False))
    assert view([hidden]).rows[0].anchor == ""
    assert anchor_of(CustomEntry(id="l", parent_id=None, timestamp=STAMP, custom_type=LEAF)) == ""


@pytest.mark.parametrize(
    ("stamp", "told", "time"), [(STAMP, 5, 5), (STAMP, 0, STAMP_MS), ("?", 0, None), ("?", float("inf"), None)]
)
def test_the_time_is_the_messages_else_the_entrys_else_unknown(stamp: str, told: float, time: int | None) -> None:
    one = MessageEntry(id="a", parent_id=None, timestamp=stamp, message=UserMessage(content="x", timestamp=told))
    assert view([one]).rows[0].time == time


def test_a_picture_alone_has_no_text() -> None:
    picture = UserMessage(content=[ImageContent(data="", mime_type="image/png")])
    assert view([entry("a", None, picture)]).rows[0].text == ""


# Large and odd trees


def forks(count: int) -> list[Entry]:
    """A line of messages, each of which was also answered in another way."""
    entries: list[Entry] = []
    above = None
    for number in range(count):
        entries += [user(f"m{number}", above, f"message {number}"), user(f"o{number}", above, f"other {number}")]
        above = f"m{number}"
    return entries


def test_with_a_limit_the_path_near_its_end_and_branch_points_stay_and_gaps_are_counted() -> None:
    chain: list[Entry] = [user("m0", None)]
    for number in range(1, 1000):
        chain.append(user(f"m{number}", f"m{number - 1}"))
    entries = [*chain, user("side", "m100"), user("far", "m5")]
    found = view(entries, "m999", show="workings", limit=40)
    shown = ids(found.rows)
    assert len(shown) == 40 and found.total == len(entries)
    assert {"m5", "m100", "m999", "m985"} <= set(shown)
    assert sum(row.left_out for row in found.rows) + found.left_out + len(found.rows) == found.total
    assert found.rows[shown.index("m5")].left_out == 5


def test_a_long_fold_shows_its_newest_steps_and_counts_the_others() -> None:
    entries: list[Entry] = [user("u", None)]
    for number in range(500):
        entries.append(result(f"r{number}", entries[-1].id, is_error=number == 0))
    entries.append(tutor("t", entries[-1].id))
    steps = view(entries, show="lesson", limit=30).rows[1]
    assert ([step.id for step in steps.steps][-1], len(steps.steps)) == ("r499", 30)
    assert (steps.steps_left_out, steps.step_count, steps.failed) == (470, 500, 1)


@pytest.mark.parametrize("show", ["lesson", "raw"])
@pytest.mark.parametrize("limit", [120, 100_000])
def test_a_chain_of_thousands_and_a_comb_of_forks_are_no_deeper_to_python(show: str, limit: int) -> None:
    chain: list[Entry] = [user("m0", None)]
    for number in range(1, 6_000):
        chain.append(tutor(f"m{number}", f"m{number - 1}", "", "look"))
    assert view(chain, show=show, limit=limit).branches == 1
    comb = forks(1_500)
    found = view(comb, "m1499", show=show, limit=limit)
    assert found.branches == 1_501
    assert max(row.depth for row in found.rows) == 1_500


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Entry], str | None]:
    """Entries of several kinds with any parents: forks, roots, lost parents, now and then a circle; and any leaf."""
    count = draw(st.integers(0, 25))
    names = [f"e{number}" for number in range(count)]
    entries: list[Entry] = []
    for number, name in enumerate(names):
        earlier = st.sampled_from(names[:number]) if number else st.none()
        parent = draw(st.one_of(earlier, earlier, earlier, st.none(), st.sampled_from([*names, "lost"])))
        kind = draw(st.sampled_from(["user", "answer", "calls", "result", "summary", "model", LEAF]))
        match kind:
            case "user":
                entries.append(user(name, parent))
            case "answer":
                entries.append(tutor(name, parent))
            case "calls":
                entries.append(tutor(name, parent, "", "look"))
            case "result":
                entries.append(result(name, parent))
            case "summary":
                entries.append(BranchSummaryEntry(id=name, parent_id=parent, timestamp=STAMP, summary="s"))
            case "model":
                entries.append(ModelChangeEntry(id=name, parent_id=parent, timestamp=STAMP, provider="p", model_id="m"))
            case _:
                entries.append(CustomEntry(id=name, parent_id=parent, timestamp=STAMP, custom_type=LEAF))
    return entries, draw(st.sampled_from([None, *names]))


def has_circle(entries: Sequence[Entry]) -> bool:
    parents = parents_of(index_of(entries))
    for start in parents:
        seen, here = set(), parents[start]
        while here is not None and here not in seen:
            seen.add(here)
            here = parents[here]
        if here is not None:
            return True
    return False


@given(trees(), st.sampled_from(["lesson", "workings", "raw"]))
@settings(max_examples=100)
def test_every_shown_entry_stands_once_behind_its_parent_as_deep_as_there_are_forks(
    tree: tuple[list[Entry], str | None], show: str
) -> None:
    entries, leaf = tree
    found = view(entries, leaf, show=show)
    flat = [row for line in found.rows for row in (line.steps if line.kind == "steps" else (line,))]
    index = index_of(entries)
    shown = {one.id for one in entries if isinstance(one, ShownEntry)}
    assert sorted(row.id for row in flat) == sorted(shown)
    assert all(row.left_out == row.steps_left_out == 0 for row in found.rows) and found.left_out == 0
    if has_circle(entries):
        return
    path = {one.id for one in path_to(index, leaf)} & shown
    assert {row.id for row in flat if row.on_path} == path
    assert [row.id for row in flat if row.is_leaf] == [
        one.id for one in reversed(path_to(index, leaf)) if one.id in shown
    ][:1]
    assert found.at_start == (not path)
    assert show == "lesson" or all(row.kind != "steps" for row in found.rows)
    depths: dict[str | None, int] = {None: 0}
    children: dict[str | None, list[str]] = {}
    for row in flat:
        children.setdefault(above(index, row.id), []).append(row.id)
    for row in flat:
        parent = above(index, row.id)
        assert parent in depths, "a parent stands before its children"
        forked = len(children[parent]) > 1
        depths[row.id] = depths[parent] + forked
        assert row.depth == depths[row.id]
        assert row.is_end == (row.id not in children)
    opened = [(row.branch, row.branches) for row in found.rows if row.branch]
    assert sorted(opened) == sorted(
        (number + 1, len(siblings))
        for siblings in children.values()
        if len(siblings) > 1
        for number in range(len(siblings))
    )
    for line in found.rows:
        if line.kind == "steps":
            assert not any(step.is_end or step.forks or step.is_leaf or step.kind == "user" for step in line.steps)


def above(index: dict[str, Entry], entry_id: str) -> str | None:
    """The nearest entry above that has a row."""
    parents = parents_of(index)
    here = parents[entry_id]
    while here is not None and not isinstance(index[here], ShownEntry):
        here = parents[here]
    return here


@given(trees(), st.integers(1, 30), st.sampled_from(["lesson", "raw"]))
@settings(max_examples=70)
def test_under_any_limit_the_rows_are_those_of_the_whole_tree_in_their_order_with_honest_gaps(
    tree: tuple[list[Entry], str | None], limit: int, show: str
) -> None:
    entries, leaf = tree
    whole, part = view(entries, leaf, show=show), view(entries, leaf, show=show, limit=limit)
    assert part.total == whole.total == len(whole.rows)
    assert len(part.rows) == min(limit, whole.total)
    positions: list[int] = []
    for row in part.rows:
        positions.append((positions[-1] + 1 if positions else 0) + row.left_out)
    assert part.left_out == whole.total - 1 - (positions[-1] if positions else -1)
    for row, position in zip(part.rows, positions, strict=True):
        twin = whole.rows[position]
        assert (row.id, row.kind, row.depth, row.step_count) == (twin.id, twin.kind, twin.depth, twin.step_count)
    assert sum(len(row.steps) for row in part.rows) <= limit
    if not whole.at_start:
        assert any(row.is_leaf for row in part.rows)
