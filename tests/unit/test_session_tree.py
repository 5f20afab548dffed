"""The tree of a session: leaf, path and the nodes that people see."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.entries import (
    LEAF,
    RUN,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    UnknownEntry,
)
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from tests.plain_tree import TreeNode, build_tree, index_of, label_of, leaf_of, path_to

STAMP = "2026-01-02T03:04:05.678Z"


def user(entry_id: str, parent: str | None, text: str = "hi") -> MessageEntry:
    return MessageEntry(id=entry_id, parent_id=parent, timestamp=STAMP, message=UserMessage(content=text))


def custom(entry_id: str, parent: str | None, kind: str) -> CustomEntry:
    return CustomEntry(id=entry_id, parent_id=parent, timestamp=STAMP, custom_type=kind)


def label(entry_id: str, parent: str | None, target: str, text: str | None = "x") -> LabelEntry:
    return LabelEntry(id=entry_id, parent_id=parent, timestamp=STAMP, target_id=target, label=text)


def walk(roots: list[TreeNode]) -> Iterator[tuple[TreeNode, str | None]]:
    """Each node with its parent's id, parents first, in order."""
    stack: list[tuple[TreeNode, str | None]] = [(node, None) for node in reversed(roots)]
    while stack:
        node, parent = stack.pop()
        yield node, parent
        stack.extend((child, node.id) for child in reversed(node.children))


def shape(entries: list[Entry]) -> list[tuple[str, str | None]]:
    return [(node.id, parent) for node, parent in walk(build_tree(entries))]


def test_the_leaf_is_the_last_entry() -> None:
    assert leaf_of([user("a", None), user("b", "a")]) == "b"
    assert leaf_of([]) is None


@pytest.mark.parametrize(
    "side",
    [
        custom("s", "a", RUN),
        custom("s", "a", "tool-started"),
        custom("s", "a", "queued"),
        custom("s", "a", "learning-void"),
        custom("s", "a", "main-line"),
        custom("s", "a", "grant"),
        label("s", "a", "a"),
        SessionInfoEntry(id="s", parent_id="a", timestamp=STAMP, name="n"),
    ],
)
def test_a_side_entry_at_the_end_leaves_the_leaf_to_its_parent(side: Entry) -> None:
    assert leaf_of([user("a", None), side]) == "a"


@pytest.mark.parametrize("kind", ["interaction", "learning-state", "learning-attempt", "hint", "of-others"])
def test_other_custom_entries_become_the_leaf(kind: str) -> None:
    assert leaf_of([user("a", None), custom("c", "a", kind)]) == "c"


def test_a_leaf_entry_moves_the_leaf_to_its_parent() -> None:
    entries = [user("a", None), user("b", "a"), custom("l", "a", LEAF)]
    assert leaf_of(entries) == "a"
    assert leaf_of([*entries, custom("m", None, LEAF)]) is None
    assert leaf_of([*entries, custom("m", None, LEAF), user("c", None)]) == "c"


def test_the_walk_goes_on_over_a_chain_of_side_entries() -> None:
    entries: list[Entry] = [user("a", None), label("l", "a", "a"), label("m", "l", "a"), custom("n", "m", RUN)]
    assert leaf_of(entries) == "a"


def test_a_side_entry_whose_parent_is_lost_falls_back_to_the_last_chain_entry() -> None:
    assert leaf_of([user("a", None), user("b", "a"), custom("r", "lost", RUN)]) == "b"


def test_side_entries_in_a_circle_do_not_hang() -> None:
    assert leaf_of([user("a", None), label("l", "m", "a"), label("m", "l", "a")]) == "a"
    assert leaf_of([label("l", "l", "a")]) is None


def test_the_path_runs_from_the_root_to_the_leaf_over_entries_of_all_kinds() -> None:
    entries = [user("a", None), custom("c", "a", "x"), user("b", "c"), user("other", "a")]
    assert [entry.id for entry in path_to(index_of(entries), "b")] == ["a", "c", "b"]
    assert path_to(index_of(entries), None) == [] == path_to(index_of(entries), "unknown")


def test_the_path_starts_at_an_orphan_and_ends_in_a_cycle() -> None:
    entries = [user("a", "lost"), user("b", "a"), user("x", "y"), user("y", "x"), user("z", "z")]
    index = index_of(entries)
    assert [entry.id for entry in path_to(index, "b")] == ["a", "b"]
    assert [entry.id for entry in path_to(index, "y")] == ["x", "y"]
    assert [entry.id for entry in path_to(index, "z")] == ["z"]


def test_of_a_doubled_id_the_later_entry_counts() -> None:
    entries = [user("a", None, "old"), user("b", None), user("a", "b", "new"), user("c", "a")]
    assert shape(entries) == [("b", None), ("a", "b"), ("c", "a")]
    assert [entry.id for entry in path_to(index_of(entries), "c")] == ["b", "a", "c"]
    assert build_tree(entries)[0].children[0].label == "user: new"


def test_hidden_entries_hand_their_children_to_the_nearest_shown_ancestor() -> None:
    entries: list[Entry] = [
        ModelChangeEntry(id="m", parent_id=None, timestamp=STAMP, provider="p", model_id="x"),
        user("a", "m"),
        custom("c", "a", "note"),
        UnknownEntry(id="u", parent_id="c", timestamp=STAMP, type="hologram"),
        user("b", "u"),
        CustomMessageEntry(id="cm", parent_id="b", timestamp=STAMP, custom_type="x", content="y"),
        BranchSummaryEntry(id="s", parent_id="cm", timestamp=STAMP, summary="left"),
        CompactionEntry(id="k", parent_id="s", timestamp=STAMP, summary="short", first_kept_entry_id="a"),
    ]
    assert shape(entries) == [("a", None), ("b", "a"), ("s", "b"), ("k", "s")]


def test_children_and_roots_stand_in_file_order_also_when_the_parent_comes_later() -> None:
    entries = [user("c", "a"), user("a", None), user("b", "a"), user("r", "lost"), user("d", "a")]
    assert shape(entries) == [("a", None), ("c", "a"), ("b", "a"), ("d", "a"), ("r", None)]


def test_cycles_become_roots_and_lose_nothing() -> None:
    entries = [user("t", "b"), user("a", "b"), user("b", "a"), user("self", "self"), user("z", "self")]
    assert shape(entries) == [("a", None), ("b", "a"), ("t", "b"), ("self", None), ("z", "self")]


def test_a_cycle_through_hidden_entries_loses_nothing() -> None:
    entries = [custom("h", "b", "x"), user("a", "h"), user("b", "a")]
    assert shape(entries) == [("a", None), ("b", "a")]


@pytest.mark.parametrize("hidden_between", [False, True])
def test_a_chain_of_100_000_entries_is_no_burden(hidden_between: bool) -> None:
    count = 100_000
    entries: list[Entry] = [
        custom(str(n), str(n - 1) if n else None, "x")
        if hidden_between and 0 < n < count - 1
        else user(str(n), str(n - 1) if n else None)
        for n in range(count)
    ]
    nodes = list(walk(build_tree(entries)))
    assert len(nodes) == (2 if hidden_between else count)
    assert nodes[-1][0].id == str(count - 1)
    assert len(path_to(index_of(entries), leaf_of(entries))) == count


def test_a_long_hidden_chain_with_a_branch_at_each_entry_is_walked_once() -> None:
    count = 60_000
    hidden: list[Entry] = [custom(str(n), str(n - 1) if n else None, "x") for n in range(count)]
    shown: list[Entry] = [user(f"u{n}", str(n)) for n in range(count)]
    assert len(build_tree([*hidden, *shown])) == count, "walking up anew for each would take minutes"


def test_a_cycle_of_100_000_entries_is_no_burden() -> None:
    entries = [user(str(n), str((n - 1) % 100_000)) for n in range(100_000)]
    assert len(list(walk(build_tree(entries)))) == 100_000
    assert len(path_to(index_of(entries), "5")) == 100_000


def message_label(message: object) -> str:
    return label_of(MessageEntry(id="a", parent_id=None, timestamp=STAMP, message=message))  # type: ignore[arg-type]


def test_labels_say_who_speaks_and_how_it_begins() -> None:
    call = ToolCall(id="1", name="read_file", arguments={})
    image = ImageContent(data="", mime_type="image/png")
    result = ToolResultMessage(tool_call_id="1", tool_name="read_file", content=[TextContent(text="# Ti\ntle")])
    assert message_label(UserMessage(content="列出\n\n工作区文件")) == "user: 列出 工作区文件"
    assert message_label(UserMessage(content=[image, TextContent(text="see")])) == "user: see"
    assert message_label(UserMessage(content="")) == "user:"
    assert message_label(AssistantMessage(content=[TextContent(text="Well"), call])) == "assistant: Well"
    assert message_label(AssistantMessage(content=[call])) == "assistant: [read_file]"
    assert message_label(AssistantMessage(content=[], error_message="No key")) == "assistant: No key"
    assert message_label(AssistantMessage(content=[], stop_reason="aborted")) == "assistant: (aborted)"
    assert message_label(result) == "[read_file] # Ti tle"
    assert message_label(BashExecutionMessage(command="ls -l")) == "$ ls -l"
    compaction = CompactionEntry(id="k", parent_id=None, timestamp=STAMP, summary="s", first_kept_entry_id="")
    assert label_of(compaction) == "compaction: s"
    assert label_of(BranchSummaryEntry(id="b", parent_id=None, timestamp=STAMP, summary="t")) == ("branch summary: t")


def test_labels_are_short_and_hold_no_control_or_direction_characters() -> None:
    dirty = "\x1b[31mred\x00\u202eevil\u2066\u2028next\ttab\ud800"
    assert message_label(UserMessage(content=dirty)) == "user: [31mredevil next tab"
    result = ToolResultMessage(tool_call_id="1", tool_name="a\nb\x1b", content="x")
    assert message_label(result) == "[a b] x"
    long = message_label(UserMessage(content="word " * 1000))
    assert len(long) <= len("user: ") + 80 and long.endswith("…")
    assert message_label(UserMessage(content=" " * 5000 + "late")).startswith("user:")


def test_joined_emoji_and_scripts_survive_in_labels() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert message_label(UserMessage(content=family)) == f"user: {family}"


names = st.sampled_from("abcdefgh")
random_entries = st.lists(
    st.builds(
        lambda make, entry_id, parent: make(entry_id, parent),
        st.sampled_from(
            [user, user, lambda i, p: custom(i, p, "x"), lambda i, p: custom(i, p, RUN), lambda i, p: label(i, p, "a")]
        ),
        names,
        st.none() | names | st.just("lost"),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=500)
@given(random_entries)
def test_the_tree_holds_every_shown_entry_exactly_once(entries: list[Entry]) -> None:
    index = index_of(entries)
    shown = [entry.id for entry in index.values() if isinstance(entry, MessageEntry)]
    assert sorted(node.id for node, _ in walk(build_tree(entries))) == sorted(shown)


@settings(deadline=None, max_examples=500)
@given(random_entries)
def test_parents_in_the_tree_are_the_nearest_shown_ancestors_on_the_path(entries: list[Entry]) -> None:
    index = index_of(entries)
    for node, parent in walk(build_tree(entries)):
        above = [entry.id for entry in path_to(index, node.id)[:-1] if isinstance(entry, MessageEntry)]
        assert parent is None or parent == above[-1]


@settings(deadline=None, max_examples=500)
@given(random_entries)
def test_the_leaf_is_an_entry_that_can_carry_on(entries: list[Entry]) -> None:
    leaf = leaf_of(entries)
    assert leaf is None or not isinstance(index_of(entries)[leaf], LabelEntry)
    assert leaf is None or path_to(index_of(entries), leaf)[-1].id == leaf
