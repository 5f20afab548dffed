"""What a model is given at a leaf: the messages of the path, with the last compaction applied."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.protocol.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
)
from app.protocol.messages import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
)
from app.sessions.outline import Outline
from app.sessions.times import iso_to_ms

NO_THINKING = "off"


@dataclass(frozen=True)
class Context:
    """The messages in order; ``model`` is (provider, model id) as last used or chosen, None when never."""

    messages: list[Message]
    model: tuple[str, str] | None
    thinking_level: str


def build_context(path: Sequence[Entry]) -> Context:
    """Returns the context at the end of ``path`` (root to leaf entries, may be empty)."""
    messages = [message for entry in _in_context(path) if (message := message_of(entry)) is not None]
    return Context(messages=messages, model=_model(reversed(path)), thinking_level=_level(reversed(path)))


def context_of(outline: Outline, at: int, read: Callable[[int], Entry]) -> Context:
    """Returns the context at the end of the path to a position, as ``build_context`` does.

    Only entries that matter to it are read.
    """
    messages = [message for place in outline.in_context(at) if (message := message_of(read(place))) is not None]
    return Context(
        messages=messages,
        model=_model(read(place) for place in outline.up(at) if outline.kinds[place] in ("model_change", "assistant")),
        thinking_level=_level(
            read(place) for place in outline.up(at) if outline.kinds[place] == "thinking_level_change"
        ),
    )


def _in_context(path: Sequence[Entry]) -> list[Entry]:
    """The last compaction first, then what it kept, then what came after it; all of the path without one."""
    at = next((i for i in reversed(range(len(path))) if isinstance(path[i], CompactionEntry)), None)
    if at is None:
        return list(path)
    compaction = path[at]
    assert isinstance(compaction, CompactionEntry)
    before = path[:at]
    # A first kept entry that is not on the path before the compaction keeps nothing.
    kept = next((i for i, entry in enumerate(before) if entry.id == compaction.first_kept_entry_id), at)
    earlier = [entry for entry in before[kept:] if not isinstance(entry, CompactionEntry)]
    return [compaction, *earlier, *path[at + 1 :]]


def message_of(entry: Entry) -> Message | None:
    """Returns what an entry is in the context; None when it is nothing there."""
    match entry:
        case MessageEntry():
            return entry.message
        case CompactionEntry():
            return CompactionSummaryMessage(
                summary=entry.summary, tokens_before=entry.tokens_before, timestamp=_milliseconds(entry)
            )
        case BranchSummaryEntry() if entry.summary:
            return BranchSummaryMessage(summary=entry.summary, from_id=entry.from_id, timestamp=_milliseconds(entry))
        case CustomMessageEntry():
            return CustomMessage(
                custom_type=entry.custom_type,
                content=entry.content,
                display=entry.display,
                details=entry.details,
                timestamp=_milliseconds(entry),
            )
    return None


def _milliseconds(entry: Entry) -> int:
    return iso_to_ms(entry.timestamp) or 0


def _model(newest_first: Iterable[Entry]) -> tuple[str, str] | None:
    for entry in newest_first:
        if isinstance(entry, ModelChangeEntry):
            return entry.provider, entry.model_id
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
            message = entry.message
            if message.provider and message.model:
                return message.provider, message.model
    return None


def _level(newest_first: Iterable[Entry]) -> str:
    levels = (entry for entry in newest_first if isinstance(entry, ThinkingLevelChangeEntry))
    last = next(levels, None)
    return NO_THINKING if last is None else last.thinking_level
