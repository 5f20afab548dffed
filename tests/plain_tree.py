"""The tree that entries form by their parent ids, worked out plainly: what the outline is compared with."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from app.protocol.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    Entry,
    MessageEntry,
    is_side_entry,
)
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.sessions.preview import preview

ShownEntry = MessageEntry | CompactionEntry | BranchSummaryEntry


class TreeNode(msgspec.Struct, kw_only=True):
    """A shown entry with those that follow it, in file order.

    A long session is a chain as deep as it has messages, so whoever walks or encodes nodes must not recurse.
    """

    id: str
    label: str
    children: "list[TreeNode]"


def index_of(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Returns entries by id; of a doubled id the later entry counts."""
    return {entry.id: entry for entry in entries}


def leaf_of(entries: Sequence[Entry]) -> str | None:
    """Returns the id where a session with these entries goes on; None is before the first entry.

    That is the last entry, or while it is a side entry its parent (a ``leaf`` entry has its target as
    parent). Where that walk meets a parent that is lost, the last chain entry in the file has to do.
    """
    if not entries:
        return None
    index = index_of(entries)
    found = chain_entry(index, entries[-1].id)
    if not isinstance(found, UnsetType):
        return found
    valid = (entry for entry in reversed(entries) if index[entry.id] is entry)
    return next((entry.id for entry in valid if not is_side_entry(entry)), None)


def chain_entry(index: Mapping[str, Entry], entry_id: str | None) -> str | UnsetType | None:
    """Returns the entry itself, or where its parents first come to one that is no side entry.

    None is before the first entry; UNSET means that a parent is lost or that they go round in a circle.
    """
    seen: set[str] = set()
    while entry_id is not None:
        entry = index.get(entry_id)
        if entry is None or entry_id in seen:
            return UNSET
        if not is_side_entry(entry):
            return entry_id
        seen.add(entry_id)
        entry_id = entry.parent_id
    return None


def path_to(index: Mapping[str, Entry], leaf_id: str | None) -> list[Entry]:
    """Returns the entries from the root to ``leaf_id``; a missing parent or a cycle ends the walk."""
    path: list[Entry] = []
    seen: set[str] = set()
    entry = None if leaf_id is None else index.get(leaf_id)
    while entry is not None and entry.id not in seen:
        seen.add(entry.id)
        path.append(entry)
        entry = None if entry.parent_id is None else index.get(entry.parent_id)
    path.reverse()
    return path


def parents_of(index: Mapping[str, Entry]) -> dict[str, str | None]:
    """Returns each entry's parent id, None where it is a root or the parent is not there."""
    return {entry.id: entry.parent_id if entry.parent_id in index else None for entry in index.values()}


def cycle_starts(parents: Mapping[str, str | None]) -> list[str]:
    """Returns of each cycle the id that comes first in ``parents``: taken as a root, it opens the cycle."""
    order = {entry_id: position for position, entry_id in enumerate(parents)}
    done: set[str] = set()
    starts: list[str] = []
    for entry_id in parents:
        trail: dict[str, int] = {}
        current: str | None = entry_id
        while current is not None and current not in done and current not in trail:
            trail[current] = len(trail)
            current = parents[current]
        if current is not None and current in trail:
            cycle = list(trail)[trail[current] :]
            starts.append(min(cycle, key=order.__getitem__))
        done.update(trail)
    return starts


def build_tree(entries: Sequence[Entry]) -> list[TreeNode]:
    """Returns the roots of the tree of messages, compactions and branch summaries.

    Other entries hand their children to the nearest shown ancestor; an entry that has none is a root.
    Every shown entry is there exactly once, of a doubled id the later one, also when parents form cycles.
    """
    index = index_of(entries)
    parents = parents_of(index)
    for start in cycle_starts(parents):
        parents[start] = None
    shown = [entry for entry in entries if isinstance(entry, ShownEntry) and index[entry.id] is entry]
    nodes = {entry.id: TreeNode(id=entry.id, label=label_of(entry), children=[]) for entry in shown}
    roots: list[TreeNode] = []
    nearest: dict[str, str | None] = {}
    for entry in shown:
        ancestor = _shown_ancestor(entry.id, parents, nodes, nearest)
        siblings = roots if ancestor is None else nodes[ancestor].children
        siblings.append(nodes[entry.id])
    return roots


def _shown_ancestor(
    entry_id: str,
    parents: Mapping[str, str | None],
    nodes: Mapping[str, TreeNode],
    nearest: dict[str, str | None],
) -> str | None:
    """Walks up to a shown entry; ``nearest`` remembers where hidden entries lead: none is passed twice."""
    hidden: list[str] = []
    current = parents[entry_id]
    while current is not None and current not in nodes and current not in nearest:
        hidden.append(current)
        current = parents[current]
    found = nearest[current] if current is not None and current in nearest else current
    for passed in hidden:
        nearest[passed] = found
    return found


def label_of(entry: ShownEntry) -> str:
    """Returns a one-line preview of a shown entry: who speaks and how it begins."""
    if isinstance(entry, CompactionEntry):
        return _line("compaction:", entry.summary)
    if isinstance(entry, BranchSummaryEntry):
        return _line("branch summary:", entry.summary)
    return _message_label(entry.message)


def _message_label(message: Message) -> str:
    match message:
        case ToolResultMessage():
            return _line(f"[{preview(message.tool_name, 40) or 'tool'}]", text_of(message.content))
        case BashExecutionMessage():
            return _line("$", message.command)
        case BranchSummaryMessage():
            return _line("branch summary:", message.summary)
        case CompactionSummaryMessage():
            return _line("compaction:", message.summary)
        case AssistantMessage():
            return _line("assistant:", _assistant_text(message))
        case UserMessage():
            return _line("user:", text_of(message.content))
    return _line("custom:", text_of(message.content))


def _assistant_text(message: AssistantMessage) -> str:
    """What the assistant said, else which tools it called, else how it ended."""
    text = text_of(message.content)
    if text.strip():
        return text
    calls = " ".join(f"[{call.name}]" for call in tool_calls_of(message))
    return calls or message.error_message or (f"({message.stop_reason})" if message.stop_reason else "")


def _line(lead: str, text: str) -> str:
    return f"{lead} {preview(text)}".rstrip()
