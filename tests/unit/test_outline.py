"""The outline of a session says of every entry what a look at all entries would say."""

from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from app.protocol.entries import (
    LEAF,
    MAIN_LINE,
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
    is_side_entry,
)
from app.protocol.estimate import estimate_message
from app.protocol.messages import AssistantMessage, BashExecutionMessage, Message, TextContent, ToolCall, UserMessage
from app.sessions.context import build_context, context_of
from app.sessions.outline import LOST, NONE, Outline, Size, outline_of
from tests.plain_tree import TreeNode, build_tree, chain_entry, index_of, leaf_of, path_to
from tests.support import call, say

STAMP = "2026-01-02T03:04:05.678Z"
texts = st.text(st.sampled_from("ab 水\n"), max_size=12)


def entry_of(kind: str, name: str, parent: str | None, text: str, target: str) -> Entry:
    base = {"id": name, "parent_id": parent, "timestamp": STAMP}
    match kind:
        case "user":
            return MessageEntry(**base, message=UserMessage(content=text))
        case "answer":
            return MessageEntry(**base, message=say(text))
        case "calls":
            return MessageEntry(**base, message=call((f"c-{name}", "look", {"x": text})))
        case "bash":
            return MessageEntry(**base, message=BashExecutionMessage(command=text))
        case "compaction":
            return CompactionEntry(**base, summary=text, first_kept_entry_id=target)
        case "summary":
            return BranchSummaryEntry(**base, summary=text)
        case "note":
            return CustomMessageEntry(**base, custom_type="x", content=text, display=bool(text))
        case "model":
            return ModelChangeEntry(**base, provider="p", model_id=text or "m")
        case "label":
            return LabelEntry(**base, target_id=target, label=text.strip() or None)
        case "name":
            return SessionInfoEntry(**base, name=text)
        case "unknown":
            return UnknownEntry(**base, type="later")
        case "main":
            return CustomEntry(**base, custom_type=MAIN_LINE, data={"targetId": target})
    return CustomEntry(**base, custom_type=kind, data={})


KINDS = ["user", "answer", "calls", "bash", "compaction", "summary", "note", "model", "unknown", "mine"]
SIDES = ["label", "name", "main", LEAF, "run"]


@st.composite
def files(draw: st.DrawFn, *, sound: bool = False) -> list[Entry]:
    """Entries with any parents: earlier ones, none, and unless ``sound`` also lost or later ones, and doubled ids."""
    count = draw(st.integers(0, 18))
    names = [f"e{number}" for number in range(count)]
    entries: list[Entry] = []
    for number, name in enumerate(names):
        earlier = st.sampled_from(names[:number]) if number else st.none()
        odd = st.none() if sound else st.sampled_from([None, "lost", *names])
        parent = draw(st.one_of(earlier, earlier, earlier, odd))
        own = name if sound or draw(st.integers(0, 14)) else draw(st.sampled_from(names))
        kind = draw(st.sampled_from(KINDS * 3 + SIDES))
        entries.append(entry_of(kind, own, parent, draw(texts), draw(st.sampled_from(names))))
    return entries


def has_circle(entries: Sequence[Entry]) -> bool:
    index = index_of(entries)
    for start in index.values():
        seen: set[str] = set()
        here: Entry | None = start
        while here is not None and here.id not in seen:
            seen.add(here.id)
            here = index.get(here.parent_id or "")
        if here is not None:
            return True
    return False


def ids(outline: Outline, places: Sequence[int]) -> list[str]:
    return [outline.ids[place] for place in places]


@settings(max_examples=120, deadline=None)
@given(files())
def test_leaf_paths_and_tree_are_those_of_the_entries_however_odd_they_are(entries: list[Entry]) -> None:
    outline, index = outline_of(entries), index_of(entries)
    assert outline.ids == [entry.id for entry in entries]
    roots = build_tree(entries)
    shown = [at for at in range(len(entries)) if outline.shown[at] == at]
    assert {outline.ids[at] for at in shown} == {node.id for node in _all(roots)}
    assert outline.roots == len(roots)
    assert outline.ends == sum(not node.children for node in _all(roots))
    for node in _all(roots):
        at = outline.position(node.id)
        assert at is not None and outline.children[at] == len(node.children)
    assert sorted(outline.doubled) == sorted(name for name in index for _ in range(_times(entries, name) - 1))
    if has_circle(entries):
        assert outline.cycles
        return
    assert not outline.cycles
    leaf = outline.ids[outline.leaf] if outline.leaf >= 0 else None
    assert leaf == leaf_of(entries)
    for entry in index.values():
        at = outline.position(entry.id)
        assert at is not None
        assert ids(outline, outline.path(at)) == [passed.id for passed in path_to(index, entry.id)]
        found = chain_entry(index, entry.id)
        chain = outline.chain[at]
        assert found == (UNSET if chain == LOST else None if chain == NONE else outline.ids[chain])


def _times(entries: Sequence[Entry], name: str) -> int:
    return sum(entry.id == name for entry in entries)


def _all(roots: Sequence[TreeNode]) -> Iterator[TreeNode]:
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children)


@settings(max_examples=60, deadline=None)
@given(files())
def test_the_context_of_every_entry_and_its_size_are_those_of_its_path(entries: list[Entry]) -> None:
    outline, index = outline_of(entries), index_of(entries)
    if has_circle(entries):
        return
    for entry in index.values():
        at = outline.position(entry.id)
        assert at is not None
        path = path_to(index, entry.id)
        meant = build_context(path)
        assert context_of(outline, at, lambda place: entries[place]) == meant
        assert outline.context_size(at) == Size(len(meant.messages), sum(map(estimate_message, meant.messages)))
        answers = [one for one in path if isinstance(one, MessageEntry) and isinstance(one.message, AssistantMessage)]
        assert outline.turns[at] == len(answers)
        assert outline.items[at] == sum(map(is_item, path))
        assert outline.call_ids(at) == {block.id for one in answers for block in _calls(one.message)}
        relevant = outline.first_relevant(at)
        from_there = path if relevant == NONE else path[[one.id for one in path].index(outline.ids[relevant]) :]
        assert build_context(from_there).messages == meant.messages
    assert outline.context_size(NONE) == Size(0, 0) and outline.call_ids(NONE) == set()


def is_item(entry: Entry) -> bool:
    """Whether the transcript shows an entry by itself; no entry here is a result or a message of an extension."""
    if isinstance(entry, CustomMessageEntry):
        return entry.display
    return isinstance(entry, MessageEntry | CompactionEntry | BranchSummaryEntry)


def _calls(message: Message) -> list[ToolCall]:
    content = message.content if isinstance(message, AssistantMessage) else []
    return [block for block in content if isinstance(block, ToolCall)]


def test_what_a_compaction_kept_can_begin_with_an_older_compaction() -> None:
    entries = [
        entry_of("user", "a", None, "first", ""),
        entry_of("compaction", "b", "a", "of it", "a"),
        entry_of("user", "c", "b", "second", ""),
        entry_of("compaction", "d", "c", "of both", "b"),
    ]
    outline, context = outline_of(entries), build_context(entries)
    assert [type(message).__name__ for message in context.messages] == ["CompactionSummaryMessage", "UserMessage"]
    first = outline.first_relevant(3)
    assert outline.ids[first] == "b" and build_context(entries[first:]) == context


@st.composite
def odd_files_and_more(draw: st.DrawFn) -> tuple[list[Entry], list[Entry]]:
    """A file however odd, and entries with new ids and known parents: a store adds no others."""
    entries = draw(files())
    names = [entry.id for entry in entries]
    more: list[Entry] = []
    for number in range(draw(st.integers(0, 6))):
        parent = draw(st.sampled_from([None, *names]))
        kind = draw(st.sampled_from(KINDS * 3 + SIDES))
        more.append(entry_of(kind, f"m{number}", parent, draw(texts), draw(st.sampled_from([*names, "lost"]))))
        names.append(f"m{number}")
    return entries, more


def grown_is_whole(loaded: Sequence[Entry], added: Sequence[Entry]) -> None:
    grown, whole = outline_of(loaded), outline_of([*loaded, *added])
    for entry in added:
        grown.add(entry)
    for name in ("ids", "kinds", "flags", "parents", "chain", "shown", "children", "turns", "items", "compacted"):
        assert list(getattr(grown, name)) == list(getattr(whole, name)), name
    for name in ("leaf", "ends", "roots", "labels", "name", "main_line", "first_text", "messages", "modified"):
        assert getattr(grown, name) == getattr(whole, name), name
    for name in ("doubled", "cycles", "orphans", "calls"):
        assert getattr(grown, name) == getattr(whole, name), name
    assert list(map(grown.context_size, range(len(grown)))) == list(map(whole.context_size, range(len(whole))))


@settings(max_examples=60, deadline=None)
@given(files(sound=True), st.integers(0, 18))
def test_an_outline_that_grows_is_the_outline_of_all(entries: list[Entry], loaded: int) -> None:
    grown_is_whole(entries[:loaded], entries[loaded:])


@settings(max_examples=60, deadline=None)
@given(odd_files_and_more())
def test_the_outline_of_an_odd_file_grows_as_that_of_a_sound_one(parts: tuple[list[Entry], list[Entry]]) -> None:
    grown_is_whole(*parts)


@settings(max_examples=80, deadline=None)
@given(files(sound=True))
def test_labels_name_and_main_line_are_the_last_ones(entries: list[Entry]) -> None:
    outline = outline_of(entries)
    labels: dict[str, str] = {}
    name, main_line = "", ""
    for entry in entries:
        if isinstance(entry, LabelEntry):
            labels.pop(entry.target_id, None)
            labels |= {entry.target_id: " ".join(entry.label.split())} if entry.label else {}
        elif isinstance(entry, SessionInfoEntry):
            name = " ".join((entry.name or "").split()) or name
        elif isinstance(entry, CustomEntry) and entry.custom_type == MAIN_LINE:
            main_line = entry.data["targetId"]
    assert (outline.labels, outline.name, outline.main_line) == (labels, name, main_line)
    sides = list(outline.trailing_sides(len(entries)))
    assert all(is_side_entry(entries[at]) for at in sides)
    assert not sides or sides[-1] == 0 or not is_side_entry(entries[sides[-1] - 1])


def test_a_long_chain_is_walked_and_not_recursed() -> None:
    outline = Outline()
    for number in range(30_000):
        outline.add(entry_of("user", f"m{number}", f"m{number - 1}" if number else None, "x", ""))
    outline.loaded()
    assert len(outline.path(29_999)) == 30_000 and outline.items[29_999] == 30_000
    assert outline.is_above(0, 29_999) and not outline.is_above(29_999, 0)
    assert not outline.is_above(NONE, 5) and not outline.is_above(5, NONE)


def test_blocks_of_text_make_the_first_words_of_a_session() -> None:
    outline = outline_of(
        [
            MessageEntry(id="a", parent_id=None, timestamp=STAMP, message=UserMessage(content=" \n")),
            MessageEntry(
                id="b", parent_id="a", timestamp=STAMP, message=UserMessage(content=[TextContent(text="What is it?")])
            ),
        ]
    )
    assert (outline.first_text, outline.messages) == ("What is it?", 2)
