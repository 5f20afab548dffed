"""A part of a path: how much, and what lies around it."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.sessions.outline import ITEM
from app.sessions.window import end_around, stored_path, window_of
from tests.support import Read
from tests.unit.test_outline import files


@settings(max_examples=80, deadline=None)
@given(files(sound=True), st.integers(1, 6))
def test_a_window_holds_the_last_messages_of_a_path_with_all_between_them(entries: Any, most: int) -> None:
    read: Any = Read(entries)
    outline = read.outline
    for leaf in range(len(entries)):
        path = outline.path(leaf)
        window = window_of(read, leaf, most=most)
        assert list(window.places) == path[len(path) - len(window.places) :]
        shown = sum(bool(outline.flags[place] & ITEM) for place in window.places)
        items = sum(bool(outline.flags[place] & ITEM) for place in path)
        assert shown == min(most, items) and (window.earlier, window.later) == (items - shown, 0)
        if window.earlier:
            before = window_of(read, leaf, most=most, end=outline.parents[window.places[0]])
            assert before.later == shown and before.earlier + before.later <= items
            assert [*before.places, *window.places] == path[len(path) - len(before.places) - len(window.places) :]


@settings(max_examples=80, deadline=None)
@given(files(sound=True), st.data())
def test_a_window_around_an_entry_holds_it_and_says_when_it_is_elsewhere(entries: Any, data: st.DataObject) -> None:
    if not entries:
        return
    read: Any = Read(entries)
    outline = read.outline
    leaf, around = (data.draw(st.integers(0, len(entries) - 1)) for _ in range(2))
    end = end_around(outline, leaf, around, most=12)
    if around not in outline.path(leaf):
        assert end is None
        return
    assert end is not None
    window = window_of(read, leaf, most=12, end=end)
    assert around in window.places


@settings(max_examples=100, deadline=None)
@given(files(sound=True))
def test_the_way_to_an_entry_takes_along_what_hangs_on_it(entries: Any) -> None:
    read: Any = Read(entries)
    read.position = lambda name: read.outline.position(name)
    for entry in entries:
        path = set(read.outline.path(read.outline.position(entry.id)))
        found = [stored.entry.id for stored in stored_path(read, entry.id)]
        assert found[: len(path)] == [read.outline.ids[at] for at in sorted(path)]
        assert len(found) == len(set(found))
