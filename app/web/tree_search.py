"""Finding entries of a session by their labels and words."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.protocol.entries import Entry, MessageEntry
from app.protocol.messages import AssistantMessage, ToolResultMessage, tool_calls_of
from app.sessions.outline import SHADOWED, SHOWN
from app.sessions.store import Session
from app.web.tree_words import words_of

ROLES = frozenset({"user", "tutor", "tool", "summary", "note"})
"""Words for who speaks, which stand in no line."""
MOST_FOUND = 200
"""Rows that a search shows: the newest."""


@dataclass(frozen=True)
class Found:
    """What a search has found: ``nodes`` says by position which entries are shown, ``hits`` how many there are."""

    nodes: bytearray
    hits: int

    @property
    def cut(self) -> bool:
        """Whether there are more than are shown."""
        return self.hits > MOST_FOUND


def find(session: Session, count: int, words: str) -> Found:
    """Returns where all of the blank-separated ``words`` occur, whatever their case, in a node's label, role or text.

    Reads each of the first ``count`` entries once and keeps none of them.
    """
    wanted = words.casefold().split()
    outline = session.outline
    nodes = bytearray(count)
    hits = 0
    for at in range(count - 1, -1, -1):
        if not outline.flags[at] & SHOWN or outline.flags[at] & SHADOWED:
            continue
        label = outline.labels.get(outline.ids[at], "")
        if label == "" and not _may_hold(session.line(at), wanted):
            continue
        text, who = _said(session.at(at).entry, label)
        if all(word in text or word in who for word in wanted):
            hits += 1
            nodes[at] = hits <= MOST_FOUND
    return Found(nodes, hits)


def _may_hold(line: bytes, wanted: Sequence[str]) -> bool:
    """Whether an entry's line, undecoded, can be one that is looked for: most are told by their bytes alone."""
    if not line.isascii() or b"\\u" in line:
        return True  # another case, or another way to write it, may be hidden in there
    lower = line.lower()
    return all(word.encode() in lower for word in wanted if word.isascii() and word.isalnum() and word not in ROLES)


def _said(entry: Entry, label: str) -> tuple[str, set[str]]:
    """Returns all that an entry says, and the words for who says it, which are looked for as whole words only."""
    text, kind = words_of(entry)
    parts, who = [label, text], {kind}
    if isinstance(entry, MessageEntry):
        who.add(str(entry.message.__struct_config__.tag).casefold())
        if isinstance(entry.message, ToolResultMessage):
            parts.append(entry.message.tool_name)
        if isinstance(entry.message, AssistantMessage):
            for call in tool_calls_of(entry.message):
                parts += [call.name, *map(str, call.arguments.values())]
    return "\n".join(parts).casefold(), who
