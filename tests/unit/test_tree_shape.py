"""The shape of a tree under any filter and with any folds, held against plain walks up the parents."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.entries import Entry
from app.sessions.outline import SHADOWED, SHOWN, Outline, outline_of
from app.web.tree_shape import FILTERS, main_line_of, nodes_of, shape_of, since_fork
from tests.unit.test_tree_view import result, trees, tutor, user

Tree = tuple[list[Entry], str | None]


def shown_in(outline: Outline) -> list[int]:
    return [at for at in range(len(outline)) if outline.flags[at] & SHOWN and not outline.flags[at] & SHADOWED]


def above(outline: Outline, nodes: Sequence[int], at: int) -> int:
    """The nearest node above, -1 for the start."""
    here = outline.parents[at]
    while here >= 0 and not nodes[here]:
        here = outline.parents[here]
    return here


def depth_first(children: dict[int, list[int]]) -> list[int]:
    order, waiting = [], list(reversed(children.get(-1, [])))
    while waiting:
        at = waiting.pop()
        order.append(at)
        waiting.extend(reversed(children.get(at, [])))
    return order


def filtered(data: st.DataObject, outline: Outline) -> bytearray:
    """Any of what is shown, as a filter or a search leaves it."""
    kept = data.draw(st.sets(st.sampled_from(shown_in(outline)))) if shown_in(outline) else set()
    return bytearray(at in kept for at in range(len(outline)))


@given(trees(), st.data())
@settings(max_examples=150)
def test_whatever_is_kept_stands_once_below_the_nearest_that_is_kept_in_the_order_of_the_file(
    tree: Tree, data: st.DataObject
) -> None:
    outline = outline_of(tree[0])
    nodes = filtered(data, outline)
    children: dict[int, list[int]] = {}
    for at, kept in enumerate(nodes):
        if kept:
            children.setdefault(above(outline, nodes, at), []).append(at)
    shape = shape_of(outline, nodes)
    assert shape.places == depth_first(children)
    assert shape.roots == len(children.get(-1, []))
    assert shape.all_ends == sum(shape.ends) == sum(at not in children for at in shape.places)
    depths = {-1: 0}
    for at, depth, branch, forks, ends in zip(
        shape.places, shape.depths, shape.branches, shape.forks, shape.ends, strict=True
    ):
        siblings, below = children[above(outline, nodes, at)], len(children.get(at, []))
        depths[at] = depths[above(outline, nodes, at)] + (len(siblings) > 1)
        assert depth == depths[at]
        assert branch == ((siblings.index(at) + 1, len(siblings)) if len(siblings) > 1 else (0, 0))
        assert (forks, ends) == (below if below > 1 else 0, not below)


@given(trees(), st.data())
@settings(max_examples=100)
def test_folds_hide_all_that_stands_below_them_count_it_and_nothing_else(tree: Tree, data: st.DataObject) -> None:
    outline = outline_of(tree[0])
    nodes = filtered(data, outline)
    whole = shape_of(outline, nodes)
    folded = data.draw(st.sets(st.sampled_from(range(len(outline))))) if len(outline) else set()
    shape = shape_of(outline, nodes, folded)

    def higher(at: int) -> list[int]:
        found = []
        while (at := above(outline, nodes, at)) >= 0:
            found.append(at)
        return found

    hidden = {at for at in whole.places if folded & set(higher(at))}
    assert shape.places == [at for at in whole.places if at not in hidden]
    assert (shape.all_ends, shape.roots) == (whole.all_ends, whole.roots)
    for at, count in zip(shape.places, shape.folded, strict=True):
        assert count == (sum(at in higher(other) for other in whole.places) if at in folded else 0)


@given(trees(), st.sampled_from(FILTERS))
@settings(max_examples=100)
def test_filters_keep_only_what_is_shown_and_but_for_two_where_the_session_goes_on(tree: Tree, keep: str) -> None:
    outline = outline_of(tree[0])
    at = outline.position(tree[1]) if tree[1] else None
    leaf = outline.shown[at] if at is not None else -1
    nodes = nodes_of(outline, len(outline), keep, leaf)
    kept = {at for at, is_node in enumerate(nodes) if is_node}
    assert kept <= set(shown_in(outline))
    assert keep not in ("all", "lesson") or kept == set(shown_in(outline))
    assert keep != "mine" or {outline.kinds[at] for at in kept} <= {"user"}
    assert keep not in ("all", "lesson", "no-tools") or leaf < 0 or leaf in kept


@given(trees())
@settings(max_examples=100)
def test_messages_are_counted_from_the_fork_above(tree: Tree) -> None:
    outline = outline_of(tree[0])
    nodes = nodes_of(outline, len(outline), "all", -1)
    shape = shape_of(outline, nodes)
    forks = {at for at, count in zip(shape.places, shape.forks, strict=True) if count}
    for at, since in zip(shape.places, since_fork(outline, shape), strict=True):
        fork = above(outline, nodes, at)
        while fork >= 0 and fork not in forks:
            fork = above(outline, nodes, fork)
        assert since == outline.items[at] - (outline.items[fork] if fork >= 0 else 0)


def test_messages_that_a_filter_hides_at_the_beginning_of_a_branch_count_too() -> None:
    entries: list[Entry] = [
        user("u", None),
        tutor("a", "u", "", "look"),
        result("r", "a"),
        tutor("b", "r"),
        user("v", "u"),
    ]
    outline = outline_of(entries)
    shape = shape_of(outline, nodes_of(outline, 5, "no-tools", -1))
    assert [outline.ids[at] for at in shape.places] == ["u", "b", "v"]
    assert since_fork(outline, shape) == [1, 2, 1]


def test_the_main_line_goes_to_the_marked_entry_and_on_to_its_newest_end() -> None:
    entries: list[Entry] = [user("a", None)]
    entries += [tutor(name, parent) for name, parent in ("ba", "cb", "db", "ea", "fc")]
    outline = outline_of(entries)
    assert main_line_of(outline, 6) == set()
    outline.main_line = "b"
    assert {outline.ids[at] for at in main_line_of(outline, 6)} == {"a", "b", "c", "f"}
    assert {outline.ids[at] for at in main_line_of(outline, 5)} == {"a", "b", "d"}
    outline.main_line = "gone"
    assert main_line_of(outline, 6) == set()
