"""The way to an entry as a session of its own: pure, from the lines of one file to those of another."""

from collections.abc import Callable, Mapping, Sequence

from app.protocol.codec import encode_line
from app.protocol.entries import CustomEntry, LabelEntry, SessionInfoEntry, is_side_entry
from app.sessions.lines import StoredEntry
from app.sessions.rewriting import line_of, object_of_line

CARRIED_TYPES = frozenset({"learning-void"})
"""Side entries that go along: what they say is about the entries that they hang on, and not about a run."""
_NAME = "{} (copy)"


def fork_of(
    header_raw: bytes,
    path: Sequence[StoredEntry],
    labels: Mapping[str, str],
    *,
    session_id: str,
    parent: str,
    name: str,
    now: str,
    new_id: Callable[[], str],
) -> bytes:
    """Returns the file of a session that holds the entries of ``path`` and goes on at the last of them.

    ``header_raw`` is the header of the old file, whose other fields are kept; ``parent`` is what the new one names as
    its origin. Lines are copied byte for byte; only where an entry hangs on one that is left out its parent is another.
    The current ``labels`` of what was copied come behind it, then the ``name``, if there is one.
    """
    top = {**object_of_line(header_raw), "version": 3, "id": session_id, "timestamp": now, "parentSession": parent}
    named = _NAME.format(name) if name else ""
    lines = [line_of(top), *branch_lines(path, labels, name=named, now=now, new_id=new_id)]
    return b"\n".join(lines) + b"\n"


def branch_lines(
    path: Sequence[StoredEntry], labels: Mapping[str, str], *, name: str, now: str, new_id: Callable[[], str]
) -> list[bytes]:
    """Returns the lines of a session of this path alone, header excepted: its entries, their labels, its name."""
    lines = copied_lines(path)
    copied = [stored.entry.id for stored in path if is_carried(stored)]
    last = next((stored.entry.id for stored in reversed(path) if not is_side_entry(stored.entry)), None)
    for target in copied:
        if target in labels:
            label = LabelEntry(id=new_id(), parent_id=last, timestamp=now, target_id=target, label=labels[target])
            last = label.id
            lines.append(encode_line(label))
    if name:
        lines.append(encode_line(SessionInfoEntry(id=new_id(), parent_id=last, timestamp=now, name=name)))
    return lines


def is_carried(stored: StoredEntry) -> bool:
    """Returns whether an entry goes into a copy of its branch: bookkeeping of runs, names and labels do not."""
    entry = stored.entry
    if isinstance(entry, CustomEntry) and is_side_entry(entry):
        return entry.custom_type in CARRIED_TYPES
    return not is_side_entry(entry)


def copied_lines(path: Sequence[StoredEntry]) -> list[bytes]:
    """Returns the lines of what is carried of a path, hanging on one another without gaps.

    They stand in the order of the path, side entries right behind what they hang on: so the last line leads a reader
    to the path's end, wherever the side entries stood in the old file.
    """
    lines: dict[str | None, list[bytes]] = {None: []}
    anchor: dict[str, str | None] = {}
    heir: dict[str, str | None] = {}
    for stored in path:
        entry = stored.entry
        parent = entry.parent_id
        above = parent if parent in anchor else heir.get(parent or "")
        if not is_carried(stored):
            heir[entry.id] = above
            continue
        line = stored.raw if above == parent else _with_parent(stored.raw, above)
        # One that hangs on nothing comes first, or the copy would open before its first entry.
        anchor[entry.id] = (anchor[above] if above is not None else None) if is_side_entry(entry) else entry.id
        lines.setdefault(anchor[entry.id], []).append(line)
    return [line for group in lines.values() for line in group]


def _with_parent(raw: bytes, parent: str | None) -> bytes:
    return line_of({**object_of_line(raw), "parentId": parent})
