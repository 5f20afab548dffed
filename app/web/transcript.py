"""A session's path as things that a page shows; pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.protocol.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
)
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ThinkingContent,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from app.render.language import language_of
from app.render.markdown import Rendered
from app.render.streaming import Piece, combine
from app.runs.workings import Workings
from app.sessions.times import iso_to_ms, usable_ms
from app.web.calls import CallsItem, calls_item
from app.web.ids import dom_id
from app.web.sent import Sent

Results = Mapping[str, tuple[str, ToolResultMessage]]
Render = Callable[[str], Rendered]


@dataclass(frozen=True)
class Thinking:
    """What the model thought before it spoke; ``redacted`` when only its provider can read it."""

    text: str
    redacted: bool


@dataclass(frozen=True)
class MessageItem:
    """A message.

    ``who`` is user, tutor, summary or note. A tutor's text is ``html``; others' is ``text``. While it is being written
    ``writing`` is set and ``tail`` holds what follows its finished blocks, as HTML too. ``number`` is its turn's.
    ``problem`` says how it ended when not well: stopped, failed, turns or length, with ``detail``. A summary is of
    another ``branch``, or of older parts, whose ``tokens`` became how many.
    """

    id: str
    entry_id: str
    who: str
    text: str = ""
    html: str = ""
    tail: str = ""
    lang: str = ""
    time: int | None = None
    number: int | None = None
    writing: bool = False
    problem: str = ""
    detail: str = ""
    thinking: Sequence[Thinking] = ()
    usage: Usage | None = None
    model: str = ""
    milliseconds: int | None = None
    calls: CallsItem | None = None
    sent: Sent | None = None
    branch: bool = False
    tokens: tuple[int, int] | None = None


def transcript(
    path: Sequence[Entry],
    workings: Workings,
    render: Render,
    *,
    numbers: Mapping[str, int],
    sent: Mapping[str, Sent],
    context_after: Mapping[str, int],
    partial_id: str | None = None,
    partial: Sequence[Piece] = (),
) -> list[MessageItem]:
    """Returns the items of a path, the message that is being written included.

    By entry, ``numbers`` are those of the turns, ``sent`` what the model was sent, ``context_after`` how many tokens a
    compaction left.
    """
    results = results_of(path)
    items: list[MessageItem] = []
    for entry in path:
        match entry:
            case MessageEntry():
                item = message_item(
                    entry.id,
                    entry.message,
                    render,
                    results=results,
                    workings=workings,
                    number=numbers.get(entry.id),
                    sent=sent.get(entry.id),
                    entry_time=iso_to_ms(entry.timestamp),
                )
                items += [item] if item is not None else []
            case CompactionEntry() | BranchSummaryEntry():
                items.append(summary_item(entry, render, context_after.get(entry.id, 0)))
            case CustomMessageEntry(display=True):
                items.append(MessageItem(dom_id("m", entry.id), entry.id, "note", text_of(entry.content)))
            case _:
                pass
    if partial_id is not None:
        items.append(being_written(partial_id, combine(partial), numbers.get(partial_id), sent.get(partial_id)))
    return items


def summary_item(entry: CompactionEntry | BranchSummaryEntry, render: Render, tokens_after: int) -> MessageItem:
    """Returns the item of a summary; of one of older parts, ``tokens_after`` is what the context was then."""
    tokens = (entry.tokens_before, tokens_after) if isinstance(entry, CompactionEntry) else None
    return MessageItem(
        dom_id("m", entry.id),
        entry.id,
        "summary",
        entry.summary,
        html=render(entry.summary).html,
        lang=language_of(entry.summary),
        time=iso_to_ms(entry.timestamp),
        branch=tokens is None,
        tokens=tokens,
    )


def being_written(entry_id: str, so_far: Piece, number: int | None, sent: Sent | None) -> MessageItem:
    """Returns the item of a message of the tutor that is not complete."""
    return MessageItem(
        dom_id("m", entry_id),
        entry_id,
        "tutor",
        html=so_far.blocks,
        tail=so_far.tail,
        number=number,
        writing=True,
        sent=sent,
    )


def results_of(path: Sequence[Entry]) -> dict[str, tuple[str, ToolResultMessage]]:
    """Returns the tool results of a path, each with its entry's id, by the id of the call that they answer."""
    return {
        entry.message.tool_call_id: (entry.id, entry.message)
        for entry in path
        if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage)
    }


def message_item(
    entry_id: str,
    message: Message,
    render: Render,
    *,
    results: Results,
    workings: Workings,
    number: int | None = None,
    sent: Sent | None = None,
    entry_time: int | None = None,
) -> MessageItem | None:
    """Returns the item of one message; None for a tool result, which stands with its call, and for a hidden one."""
    item_id = dom_id("m", entry_id)
    time = usable_ms(message.timestamp) or entry_time
    match message:
        case AssistantMessage():
            item = _of_tutor(entry_id, message, render, results=results, workings=workings)
            return replace(item, number=number, time=time, sent=sent)
        case UserMessage():
            text = text_of(message.content)
            return MessageItem(item_id, entry_id, "user", text, lang=language_of(text), time=time)
        case ToolResultMessage():
            return None
        case CustomMessage():
            return MessageItem(item_id, entry_id, "note", text_of(message.content)) if message.display else None
        case BashExecutionMessage():
            return MessageItem(item_id, entry_id, "note", f"$ {message.command}\n{message.output}")
        case _:
            return MessageItem(item_id, entry_id, "summary", message.summary, html=render(message.summary).html)


def _of_tutor(
    entry_id: str,
    message: AssistantMessage,
    render: Render,
    *,
    results: Results,
    workings: Workings,
) -> MessageItem:
    text = text_of(message.content)
    problem, detail = _problem_of(message)
    facts = workings.messages.get(entry_id)
    blocks = [] if isinstance(message.content, str) else message.content
    return MessageItem(
        dom_id("m", entry_id),
        entry_id,
        "tutor",
        text,
        html=render(text).html if text else "",
        lang=language_of(text),
        problem=problem,
        detail=detail,
        thinking=[Thinking(block.thinking, block.redacted) for block in blocks if isinstance(block, ThinkingContent)],
        usage=message.usage if message.usage is not None and message.usage.total_tokens else None,
        model=message.model or "",
        milliseconds=facts.ended - facts.started if facts is not None and facts.started and facts.ended else None,
        calls=calls_item(entry_id, message, results, workings),
    )


def _problem_of(message: AssistantMessage) -> tuple[str, str]:
    error = message.error_message or ""
    match message.stop_reason:
        case "aborted":
            return "stopped", ""
        case "error" if error == "max_turns_exceeded":
            return "turns", ""
        case "error":
            return "failed", error
        case "length":
            return "length", ""
        case _:
            return "", ""
