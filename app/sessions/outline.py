"""The shape of a session without its bodies: what a page, a tree or a context needs to know of every entry.

Entries are columns by their position in the file. Besides its own kind each entry has sums along the path that ends
with it (turns, items, tokens), so that no question about a long session needs a walk over all of it. A new entry costs
the same however many there are.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import get_args

from app.protocol.entries import (
    LEAF,
    MAIN_LINE,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MainLineData,
    MessageEntry,
    SessionInfoEntry,
    entry_data,
    is_side_entry,
)
from app.protocol.estimate import estimate_content, estimate_message, estimate_tokens
from app.protocol.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.sessions.preview import preview
from app.sessions.times import iso_to_ms, usable_ms

NONE = -1
"""No position: before the first entry."""
LOST = -2
"""A parent that is not in the file, or that goes round in a circle of side entries."""

SIDE = 1
"""Never becomes the leaf."""
SHOWN = 2
"""A node of the tree: a message, a compaction, a branch summary."""
ITEM = 4
"""Something that the transcript shows by itself."""
TEXT = 8
"""Has words of its own."""
CALLS = 16
"""Asks for tools."""
FAILED = 32
STOPPED = 64
CUT = 128
SHADOWED = 256
"""A later entry has the same id and counts instead."""
MOVES = 512
"""A ``leaf`` entry of ours: the session goes on at its parent."""
HIDDEN = 1024
"""A message of an extension that is not to be shown."""

MESSAGE_KINDS = frozenset(kind.__struct_config__.tag for kind in get_args(Message))
_ENDS = {"error": FAILED, "aborted": STOPPED, "length": CUT}


@dataclass(frozen=True)
class Size:
    """How much is in the model's context: messages, and an estimate of their tokens."""

    messages: int
    tokens: int


class Outline:
    """The columns of one session, in file order; grows by ``add`` only.

    Reading is safe while another thread adds, for positions below a length that was taken before. ``parents`` are
    positions, NONE for a root (a lost parent makes one, and each circle is opened at its first entry). ``leaf`` is
    where the session goes on. ``labels`` are the current labels by entry id, ``name`` the session's, ``main_line`` the
    id of the entry that was marked as being on the main line ("" when none was).
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.kinds: list[str] = []
        self.flags = array("H")
        self.times = array("q")
        self.parents = array("i")
        self.chain = array("i")
        self.shown = array("i")
        self.children = array("i")
        self.turns = array("i")
        self.items = array("i")
        self.compacted = array("i")
        self.leaf = NONE
        self.ends = 0
        self.roots = 0
        self.labels: dict[str, str] = {}
        self.name = ""
        self.main_line = ""
        self.first_text = ""
        self.messages = 0
        self.modified = 0
        self.doubled: list[str] = []
        self.cycles: list[str] = []
        self.calls: dict[int, tuple[str, ...]] = {}
        self._first_kept: dict[int, str] = {}
        self._position: dict[str, int] = {}
        self._stated: dict[int, str] = {}
        self._awaited: set[str] = set()
        self._lost: set[int] = set()
        self._own_messages = array("b")
        self._own_tokens = array("i")
        self._sum_messages = array("i")
        self._sum_tokens = array("q")
        self._disordered = False
        self._loading = True

    def __len__(self) -> int:
        return len(self.ids)

    def position(self, entry_id: str) -> int | None:
        """Returns where the entry with that id stands; of a doubled id the later one."""
        return self._position.get(entry_id)

    @property
    def orphans(self) -> list[str]:
        """The entries whose parent is not in the file."""
        return [self.ids[at] for at in self._stated if not self.flags[at] & SHADOWED]

    # Growing

    def add(self, entry: Entry) -> int:
        """Takes the next entry of the file and returns its position."""
        at = len(self.ids)
        former = self._position.get(entry.id)
        if former is not None:
            self._shadow(former)
        self.kinds.append(intern(_kind(entry)))
        self.flags.append(_flags(entry))
        self.times.append(_time(entry))
        self._own_messages.append(_is_sent(entry))
        self._own_tokens.append(_tokens(entry))
        self.parents.append(self._parent(at, entry))
        self.children.append(0)
        for column in (self.chain, self.shown, self.turns, self.items, self.compacted):
            column.append(NONE)
        self._sum_messages.append(0)
        self._sum_tokens.append(0)
        self._note(at, entry)
        self._measure(at)
        self._position[entry.id] = at
        self.ids.append(entry.id)  # last: the length says up to where the columns can be read
        if entry.id in self._awaited:
            self._disordered = True
        if self._disordered and not self._loading:
            self._settle()
        self.leaf = self._leaf()
        return at

    def loaded(self) -> "Outline":
        """Says that the file has been read: puts in order what does not stand after its parent. Returns itself."""
        if self._disordered:
            self._settle()
            self.leaf = self._leaf()
        self._loading = False
        return self

    def _parent(self, at: int, entry: Entry) -> int:
        if entry.parent_id is None:
            return NONE
        if entry.parent_id == entry.id:
            self._disordered = True
            return at
        parent = self._position.get(entry.parent_id)
        if parent is not None:
            return parent
        self._stated[at] = entry.parent_id
        self._awaited.add(entry.parent_id)
        return NONE

    def _shadow(self, at: int) -> None:
        """A doubled id: children of the earlier entry hang on the later one."""
        self.doubled.append(self.ids[at])
        self.flags[at] |= SHADOWED
        self._disordered = True

    def _note(self, at: int, entry: Entry) -> None:
        """Keeps what is true of the session as a whole, and the ids of calls."""
        match entry:
            case MessageEntry(message=UserMessage() as message):
                self._count(at)
                self.first_text = self.first_text or preview(text_of(message.content))
            case MessageEntry(message=AssistantMessage() as message):
                self._count(at)
                calls = tool_calls_of(message)
                if calls:
                    self.calls[at] = tuple(call.id for call in calls)
            case CompactionEntry():
                self._first_kept[at] = entry.first_kept_entry_id
            case LabelEntry():
                label = preview(entry.label or "", 200)
                if label:
                    self.labels[entry.target_id] = label
                else:
                    self.labels.pop(entry.target_id, None)
            case SessionInfoEntry():
                self.name = preview(entry.name or "", 200) or self.name
            case CustomEntry():
                mark = entry_data(entry, MAIN_LINE, MainLineData)
                self.main_line = self.main_line if mark is None else mark.target_id
            case _:
                pass

    def _count(self, at: int) -> None:
        self.messages += 1
        self.modified = max(self.modified, self.times[at])

    def _measure(self, at: int) -> None:
        """Fills an entry's sums from those of its parent."""
        parent, flags = self.parents[at], self.flags[at]
        above = parent >= 0
        if flags & SIDE:
            self.chain[at] = LOST if at in self._stated or at in self._lost else self.chain[parent] if above else NONE
        else:
            self.chain[at] = at
        ancestor = self.shown[parent] if above else NONE
        if flags & SHOWN and not flags & SHADOWED:
            self.shown[at] = at
            self.ends += 1
            if ancestor < 0:
                self.roots += 1
            else:
                self.ends -= not self.children[ancestor]
                self.children[ancestor] += 1
        else:
            self.shown[at] = ancestor
        self.turns[at] = (self.turns[parent] if above else 0) + (self.kinds[at] == "assistant")
        self.items[at] = (self.items[parent] if above else 0) + bool(flags & ITEM)
        self.compacted[at] = at if self.kinds[at] == "compaction" else self.compacted[parent] if above else NONE
        self._sum_messages[at] = (self._sum_messages[parent] if above else 0) + self._own_messages[at]
        self._sum_tokens[at] = (self._sum_tokens[parent] if above else 0) + self._raw_tokens(at)

    def _raw_tokens(self, at: int) -> int:
        """What an entry adds to the sum of its path: a summary counts only while it is the newest."""
        return 0 if self.kinds[at] == "compaction" else self._own_tokens[at]

    def _leaf(self) -> int:
        found = self.chain[-1]
        if found != LOST:
            return found
        return self.last_chain()

    def last_chain(self) -> int:
        """Returns the last entry of the file that can be the leaf."""
        chain = (at for at in range(len(self.ids) - 1, -1, -1) if not self.flags[at] & (SIDE | SHADOWED))
        return next(chain, NONE)

    def _settle(self) -> None:
        """Works out everything anew for a file in which parents stand behind their children, or ids twice."""
        self._find_parents()
        self._open_cycles()
        for at in range(len(self.ids)):
            self.children[at] = 0
        self.ends = self.roots = 0
        for at in self._parents_first():
            self._measure(at)
        self._disordered = False

    def _find_parents(self) -> None:
        """Looks up the parents that have come since, and puts later entries in the place of those with the same id."""
        for at, parent_id in list(self._stated.items()):
            parent = self._position.get(parent_id)
            if parent is not None:
                self.parents[at] = parent
                del self._stated[at]
        for at, parent in enumerate(self.parents):
            if parent >= 0 and self.flags[parent] & SHADOWED:
                self.parents[at] = self._position[self.ids[parent]]

    def _open_cycles(self) -> None:
        """Makes the first entry of each circle a root. A side entry in one leads nowhere."""
        done = bytearray(len(self.ids))
        first_seen: dict[str, int] = {}
        for at, entry_id in enumerate(self.ids):
            first_seen.setdefault(entry_id, at)
        self.cycles = []
        for start in range(len(self.ids)):
            trail: dict[int, None] = {}
            at = start
            while at >= 0 and not done[at] and at not in trail:
                trail[at] = None
                at = self.parents[at]
            if at >= 0 and at in trail:
                circle = list(trail)[list(trail).index(at) :]
                first = min(circle, key=lambda at: first_seen[self.ids[at]])
                self.cycles.append(self.ids[first])
                self.parents[first] = NONE
                if self.flags[first] & SIDE:
                    self._lost.add(first)
            for passed in trail:
                done[passed] = 1

    def _parents_first(self) -> Iterator[int]:
        below: dict[int, list[int]] = {}
        for at, parent in enumerate(self.parents):
            below.setdefault(parent, []).append(at)
        waiting = list(reversed(below.get(NONE, [])))
        while waiting:
            at = waiting.pop()
            yield at
            waiting.extend(reversed(below.get(at, [])))

    # Asking

    def up(self, at: int) -> Iterator[int]:
        """Yields the positions from an entry to its root, the entry first."""
        while at >= 0:
            yield at
            at = self.parents[at]

    def path(self, at: int) -> list[int]:
        """Returns the positions from the root to an entry."""
        path = list(self.up(at))
        path.reverse()
        return path

    def is_message(self, at: int) -> bool:
        """Returns whether an entry is a message."""
        return self.kinds[at] in MESSAGE_KINDS

    def is_above(self, at: int, below: int) -> bool:
        """Returns whether an entry stands on the path to another, or is it."""
        # What stands on a path has at most its sums, so most are told without a walk.
        if at < 0 or below < 0 or self.items[at] > self.items[below]:
            return False
        return any(passed == at for passed in self.up(below))

    def call_ids(self, at: int) -> set[str]:
        """Returns the ids of all tool calls on the path to an entry."""
        if not self.calls:
            return set()
        return {call_id for passed in self.up(at) if passed in self.calls for call_id in self.calls[passed]}

    def in_context(self, at: int) -> list[int]:
        """Returns the entries that make the model's context at the end of a path.

        The newest compaction first, then what it kept, then what came after it; all of the path without one.
        """
        compaction = self.compacted[at] if at >= 0 else NONE
        if compaction < 0:
            return self.path(at)
        after = []
        for passed in self.up(at):
            if passed == compaction:
                break
            after.append(passed)
        kept, _ = self._kept(compaction)
        return [compaction, *kept, *reversed(after)]

    def _kept(self, compaction: int) -> tuple[list[int], int]:
        """Returns what a compaction keeps, in order, and the parent of the first of it."""
        first = self._position.get(self._first_kept[compaction], NONE)
        kept: list[int] = []
        # A first kept entry that is not on the path before the compaction keeps nothing.
        if first >= 0 and self.items[first] <= self.items[compaction]:
            for passed in self.up(self.parents[compaction]):
                if self.kinds[passed] != "compaction":
                    kept.append(passed)
                if passed == first:
                    kept.reverse()
                    return kept, self.parents[first]
        return [], self.parents[compaction]

    def first_relevant(self, at: int) -> int:
        """Returns where a path must begin to hold all that a new compaction has to look at; NONE for its root."""
        compaction = self.compacted[at] if at >= 0 else NONE
        if compaction < 0:
            return NONE
        first = self._position.get(self._first_kept[compaction], NONE)
        return first if self.is_above(first, self.parents[compaction]) else compaction

    def context_size(self, at: int) -> Size:
        """Returns how much is in the model's context at the end of a path; instructions and tools not counted."""
        if at < 0:
            return Size(0, 0)
        compaction = self.compacted[at]
        if compaction < 0:
            return Size(self._sum_messages[at], self._sum_tokens[at])
        before = self._kept(compaction)[1]
        messages = self._sum_messages[at] - (self._sum_messages[before] if before >= 0 else 0)
        tokens = self._sum_tokens[at] - (self._sum_tokens[before] if before >= 0 else 0)
        return Size(messages + 1, tokens + self._own_tokens[compaction])

    def trailing_sides(self, count: int) -> Iterator[int]:
        """Yields the side entries at the end of the first ``count`` entries, the last first."""
        at = count - 1
        while at >= 0 and self.flags[at] & SIDE:
            yield at
            at -= 1


def outline_of(entries: Iterable[Entry]) -> Outline:
    """Returns the outline of a file's entries."""
    outline = Outline()
    for entry in entries:
        outline.add(entry)
    return outline.loaded()


def _kind(entry: Entry) -> str:
    """An entry's type; of a message its role, of a custom entry its own type behind "custom:"."""
    match entry:
        case MessageEntry():
            return str(entry.message.__struct_config__.tag)
        case CustomEntry():
            return f"custom:{entry.custom_type}"
    tag = entry.__struct_config__.tag
    return str(tag) if tag is not None else "unknown"


def _flags(entry: Entry) -> int:
    flags = SIDE if is_side_entry(entry) else 0
    match entry:
        case MessageEntry(message=AssistantMessage() as message):
            flags |= SHOWN | ITEM | _ENDS.get(message.stop_reason or "", 0)
            flags |= TEXT if text_of(message.content).strip() else 0
            flags |= CALLS if tool_calls_of(message) else 0
        case MessageEntry(message=ToolResultMessage() as message):
            flags |= SHOWN | (FAILED if message.is_error else 0)
        case MessageEntry(message=CustomMessage() as message):
            flags |= SHOWN | TEXT | (ITEM if message.display else HIDDEN)
        case MessageEntry() | CompactionEntry() | BranchSummaryEntry():
            flags |= SHOWN | ITEM | TEXT
        case CustomMessageEntry():
            flags |= ITEM if entry.display else HIDDEN
        case CustomEntry(custom_type=kind) if kind == LEAF:
            flags |= MOVES
        case _:
            pass
    return flags


def _time(entry: Entry) -> int:
    """When it was, in Unix milliseconds; 0 unknown."""
    stated = usable_ms(entry.message.timestamp) if isinstance(entry, MessageEntry) else None
    return stated or usable_ms(iso_to_ms(entry.timestamp)) or 0


def _is_sent(entry: Entry) -> int:
    """Whether the entry is a message of the context; a compaction is counted where it is the newest."""
    match entry:
        case MessageEntry() | CustomMessageEntry():
            return 1
        case BranchSummaryEntry():
            return int(bool(entry.summary))
    return 0


def _tokens(entry: Entry) -> int:
    match entry:
        case MessageEntry():
            return estimate_message(entry.message)
        case CustomMessageEntry():
            return estimate_content(entry.content)
        case CompactionEntry() | BranchSummaryEntry():
            return estimate_tokens(entry.summary)
    return 0
