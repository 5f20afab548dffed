"""What the tutor did, turn by turn and when, as the timeline panel shows it; pure.

A turn is one response of the model and the results of its tool calls. Times come from events. What no event tells, as
in a session of another program, is None here and shows as a dash: it is not made up from the times of entries.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from app.protocol.entries import Entry, MessageEntry
from app.protocol.messages import (
    AssistantMessage,
    ToolCall,
    ToolResultMessage,
    tool_calls_of,
)
from app.runs.picture import Snapshot
from app.runs.workings import CallFacts, MessageFacts, RunFacts, Workings
from app.sessions.window import window_of
from app.web.calls import main_argument
from app.web.context_fill import fill
from app.web.ids import dom_id

SHOWN_TURNS = 20
PAGE_MESSAGES = 500
"""Messages whose turns the page of the timeline shows."""
BAR = 100.0
"""Width of a bar that lasts as long as its turn, in units of the SVG."""
THINNEST = 0.8
BEGIN_THERE = ("sent", "call")
"""Kinds of rows whose ``took`` begins at ``at``; that of the others ends there."""


@dataclass(frozen=True)
class Row:
    """One step of a turn.

    ``kind`` is sent, first (word), began (the answer, where the first word is not known), thinking, asks (for
    ``count`` tools), answers, cut, failed, stopped, writing, call or end. ``at`` is milliseconds from the turn's start,
    ``took`` how long what ended there (or, see BEGIN_THERE, began) lasted. ``x`` and ``width`` place the
    bar, of ``BAR``; a ``width`` of None is no bar. A call has ``name``, ``main`` (argument), ``decision``, ``rule``,
    ``reason`` and ``state``: done, failed, blocked, running, waiting. An end has its run's ``state``: done, aborted,
    error, interrupted, and its error as ``reason``. ``message``, ``call`` and ``node`` are ids on the session's pages.
    ``of_message`` is the message's entry, ``entry_id`` that of a call's result, else the same.
    ``n``, ``seq`` and ``time`` (ISO, "" unknown) are of the step's event; ``n`` is 0 when there is none.
    """

    kind: str
    at: int | None = None
    took: int | None = None
    x: float = 0.0
    width: float | None = None
    id: str = ""
    count: int = 0
    name: str = ""
    main: str = ""
    decision: str = ""
    rule: str = ""
    reason: str = ""
    state: str = ""
    message: str = ""
    call: str = ""
    node: str = ""
    n: int = 0
    seq: int = 0
    time: str = ""
    run_id: str = ""
    entry_id: str = ""
    of_message: str = ""


@dataclass(frozen=True)
class Turn:
    """One turn; ``number`` counts the tutor's messages on the path, ``total`` is in ms, ``working`` says it goes on."""

    number: int
    id: str
    entry_id: str
    run_id: str
    total: int | None
    working: bool
    message: str
    node: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Timeline:
    """The turns shown, newest first, and how many earlier ones are left out."""

    turns: Sequence[Turn]
    earlier: int


def timeline(
    path: Sequence[Entry],
    workings: Workings,
    *,
    numbers: Mapping[str, int],
    active: str | None = None,
    interrupted: str | None = None,
    limit: int | None = SHOWN_TURNS,
) -> Timeline:
    """Returns the turns of a path, or of the end of one, newest first.

    ``numbers`` are those of the tutor's messages by entry, oldest first, the one being written last; ``active`` is the
    run that works now, ``interrupted`` one that was cut off and can be continued; ``limit`` None is all turns.
    """
    newest_first = list(numbers.items())[::-1]
    shown = newest_first if limit is None else newest_first[:limit]
    first_shown = next((i for i, entry in enumerate(path) if shown and entry.id == shown[-1][0]), len(path))
    recent = path[first_shown:]
    messages = {entry.id: message for entry, message in _messages_of_tutor(recent)}
    results = _results_of(recent)
    turns = [
        _turn(number, entry_id, messages.get(entry_id), workings, results, active, interrupted)
        for entry_id, number in shown
    ]
    return Timeline(turns, shown[-1][1] - 1 if shown else 0)


def _messages_of_tutor(path: Sequence[Entry]) -> Iterator[tuple[MessageEntry, AssistantMessage]]:
    for entry in path:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
            yield entry, entry.message


def _results_of(path: Sequence[Entry]) -> dict[tuple[str, str], tuple[str, ToolResultMessage]]:
    """Returns the results, each with its entry's id, by the newest message before it that asked for the call."""
    asker: dict[str, str] = {}
    results: dict[tuple[str, str], tuple[str, ToolResultMessage]] = {}
    for entry in path:
        if not isinstance(entry, MessageEntry):
            continue
        if isinstance(entry.message, AssistantMessage):
            asker.update((call.id, entry.id) for call in tool_calls_of(entry.message))
        elif isinstance(entry.message, ToolResultMessage):
            call_id = entry.message.tool_call_id
            results[asker.get(call_id, ""), call_id] = (entry.id, entry.message)
    return results


def _turn(
    number: int,
    entry_id: str,
    message: AssistantMessage | None,
    workings: Workings,
    results: Mapping[tuple[str, str], tuple[str, ToolResultMessage]],
    active: str | None,
    interrupted: str | None,
) -> Turn:
    facts = workings.messages.get(entry_id) or MessageFacts(entry_id)
    run = workings.runs.get(facts.run_id)
    start = facts.asked or facts.started
    rows = _model_rows(facts, message, start)
    calls = tool_calls_of(message) if message is not None else []
    for call in calls:
        result_entry, result = results.get((entry_id, call.id), ("", None))
        rows.append(_call_row(call, workings.call(entry_id, call.id), result, result_entry, start))
    if run is not None and run.last_entry == entry_id:
        rows += _end_rows(run, start, interrupted)
    open_calls = any(row.state in ("running", "waiting") for row in rows)
    working = message is None or (open_calls and active is not None and facts.run_id == active)
    ends = [end for row in rows if row.kind != "end" and (end := _end_of(row)) is not None]
    known = bool(facts.ended) and all(row.at is not None and row.took is not None for row in rows if row.kind == "call")
    total = max(ends) if ends and known and not working else None
    span = max(ends, default=0)
    return Turn(
        number=number,
        id=dom_id("tl", entry_id),
        entry_id=entry_id,
        run_id=facts.run_id,
        total=total,
        working=working,
        message=dom_id("m", entry_id),
        node=dom_id("n", entry_id),
        rows=[_with_bar(_with_links(row, entry_id, facts.run_id), span) for row in rows],
    )


def _model_rows(facts: MessageFacts, message: AssistantMessage | None, start: int) -> list[Row]:
    began = facts.first or facts.started
    asked_n, asked_seq = (facts.asked_n, facts.asked_seq) if facts.asked else (facts.n, facts.seq)
    rows = [Row("sent", _since(start, start), _since(began, start), n=asked_n, seq=asked_seq, time=_iso(start))]
    if facts.first:
        kind = {"thinking": "thinking", "call": "began"}.get(facts.first_kind, "first")
        at = _since(facts.first, start)
        rows.append(Row(kind, at, n=facts.first_n, seq=facts.first_seq, time=_iso(facts.first)))
    elif facts.started:
        rows.append(Row("began", _since(facts.started, start), n=facts.n, seq=facts.seq, time=_iso(facts.started)))
    if message is None:
        rows.append(Row("writing", _since(began, start), time=_iso(began)))
        return rows
    count = len(tool_calls_of(message))
    kinds = {"aborted": "stopped", "error": "failed", "length": "cut"}
    kind = kinds.get(message.stop_reason or "", "asks" if count else "answers")
    rows.append(
        Row(
            kind,
            _since(facts.ended, start),
            _since(facts.ended, began),
            count=count,
            n=facts.end_n,
            seq=facts.end_seq,
            time=_iso(facts.ended),
        )
    )
    return rows


def _call_row(
    call: ToolCall, facts: CallFacts | None, result: ToolResultMessage | None, result_entry: str, start: int
) -> Row:
    known = facts or CallFacts(call.id, call.name)
    return Row(
        "call",
        _since(known.started, start),
        known.duration_ms,
        id=dom_id("tc", call.id),
        name=call.name,
        main=main_argument(call.arguments if known.args_after is None else known.args_after),
        decision=known.decision,
        rule=known.rule,
        reason=known.reason,
        state=_state(known, result),
        call=dom_id("c", call.id),
        node=dom_id("n", result_entry) if result_entry else "",
        n=known.n,
        seq=known.seq,
        time=_iso(known.started),
        entry_id=result_entry,
    )


def _state(facts: CallFacts, result: ToolResultMessage | None) -> str:
    if result is None:
        return "running" if facts.running else "waiting"
    if facts.decision == "block":
        return "blocked"
    return "failed" if result.is_error else "done"


def _end_rows(run: RunFacts, start: int, interrupted: str | None) -> list[Row]:
    status = run.status or ("interrupted" if run.run_id == interrupted else "")
    if not status or status == "waiting":
        return []
    return [
        Row(
            "end",
            _since(run.ended, start),
            state=status,
            reason=run.error,
            n=run.end_n,
            seq=run.end_seq,
            time=_iso(run.ended),
        )
    ]


def _with_links(row: Row, entry_id: str, run_id: str) -> Row:
    return replace(
        row,
        message=dom_id("m", entry_id),
        node=row.node or dom_id("n", entry_id),
        run_id=run_id,
        entry_id=row.entry_id or entry_id,
        of_message=entry_id,
    )


def _end_of(row: Row) -> int | None:
    if row.at is None:
        return None
    return row.at + (row.took or 0) if row.kind in BEGIN_THERE else row.at


def _with_bar(row: Row, span: int) -> Row:
    """Returns the row with its bar, drawn to the scale of ``span``, the turn's length in milliseconds."""
    if row.at is None or row.kind in ("end", "writing") or (row.kind in BEGIN_THERE and row.took is None):
        return row
    took = row.took or 0
    begins = row.at if row.kind in BEGIN_THERE else row.at - took
    scale = BAR / span if span > 0 else 0.0
    width = min(max(took * scale, THINNEST), BAR)
    x = min(max(begins * scale, 0.0), BAR - width)
    return replace(row, x=round(x, 2), width=round(width, 2))


def _since(time: int, start: int) -> int | None:
    """Returns the milliseconds from ``start`` to ``time``, None when one is unknown; a clock set back counts as 0."""
    return max(time - start, 0) if time and start else None


def _iso(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    try:
        return (
            datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (OverflowError, ValueError, OSError):
        return ""


def timeline_values(picture: Snapshot, *, everything: bool, window: int | None) -> dict[str, Any]:
    """Returns what partials/timeline.html needs of a session, beside ``prefs``, ``base``, ``tree_base`` and ``oob``.

    ``everything``: many turns and not only the newest; ``window`` of the model in tokens, None or 0 when unknown.
    """
    part = window_of(picture.session, picture.leaf, most=PAGE_MESSAGES) if everything else picture.recent
    shown = timeline(
        part.entries,
        picture.workings,
        numbers=picture.numbers_in(part),
        active=picture.run_id,
        interrupted=picture.interrupted,
        limit=None if everything else SHOWN_TURNS,
    )
    size = picture.context_size
    return {"timeline": shown, "fill": fill(size.tokens, window), "session_id": picture.session_id}
