"""What a session's events say about each step of the tutor: one fold, kept up to date event by event.

Entries hold what was said; only events hold when it happened and what was decided about a tool call. Times are Unix
milliseconds; 0 and None mean unknown, as for what was made again from entries after a crash: such an event carries the
time of the repair, not of the step.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from app.protocol.events import (
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunDone,
    RunKind,
    RunStatus,
    ToolDecisionMade,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from app.protocol.messages import AssistantMessage, UserMessage, tool_calls_of
from app.protocol.model import TextDelta, ThinkingDelta, ThinkingStart, ToolCallDelta, ToolCallEnd, ToolCallStart

PARTIAL_CHARACTERS = 2_000
"""How much of a running tool's output is kept: its end."""

Decision = Literal["", "allow", "block", "rewrite", "confirm"]
FirstKind = Literal["", "text", "thinking", "call"]
Key = tuple[str, str]


class CallFacts(msgspec.Struct, frozen=True):
    """One tool call.

    ``entry_id`` is the assistant message that asked for it, "" when no event tells. ``decision`` is "" until there is
    one. ``args_before`` and ``args_after`` stand where a rule changed the arguments, and are None where the call ran
    as the model sent it. ``partial`` is the newest output while it runs, ``answered`` says that it has its result.
    ``n`` and ``seq`` are of its first event.
    """

    call_id: str
    name: str
    entry_id: str = ""
    run_id: str = ""
    decision: Decision = ""
    rule: str = ""
    reason: str = ""
    args_before: dict[str, Any] | None = None
    args_after: dict[str, Any] | None = None
    started: int = 0
    duration_ms: int | None = None
    running: bool = False
    answered: bool = False
    partial: str = ""
    n: int = 0
    seq: int = 0


class MessageFacts(msgspec.Struct, frozen=True):
    """One assistant message.

    ``asked`` is when its turn had all that the model needs, ``started`` when the model began to answer, ``first`` when
    the first piece of a block came, of the kind ``first_kind`` (in memory only, as deltas are not on disk), ``ended``
    when the message was stored. ``n`` and ``seq`` are of its start; the others have their own, 0 when unknown.
    """

    entry_id: str
    run_id: str = ""
    asked: int = 0
    started: int = 0
    first: int = 0
    first_kind: FirstKind = ""
    ended: int = 0
    n: int = 0
    seq: int = 0
    asked_n: int = 0
    asked_seq: int = 0
    first_n: int = 0
    first_seq: int = 0
    end_n: int = 0
    end_seq: int = 0


class RunFacts(msgspec.Struct, frozen=True):
    """One run; ``status`` is "" as long as it is not over, ``last_entry`` its newest stored assistant message."""

    run_id: str
    kind: RunKind = "prompt"
    started: int = 0
    ended: int = 0
    status: RunStatus | Literal[""] = ""
    error: str = ""
    last_entry: str = ""
    n: int = 0
    seq: int = 0
    end_n: int = 0
    end_seq: int = 0


class Workings:
    """The fold over a session's events, branches included. The values never change, so a copy is shallow.

    ``calls`` are found by the entry that asked for them and their id, since another branch may have a call of the same
    id. What it holds for an event is bounded: no text of a message and no result of a tool.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.calls: dict[Key, CallFacts] = {}
        self.messages: dict[str, MessageFacts] = {}
        self.runs: dict[str, RunFacts] = {}
        self._asked: dict[str, Event] = {}
        self._askers: dict[str, list[tuple[str, str]]] = {}
        self._running: dict[str, set[Key]] = {}
        for event in events:
            self.add(event)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workings):
            return NotImplemented
        return (self.calls, self.messages, self.runs) == (other.calls, other.messages, other.runs)

    def copy(self) -> "Workings":
        """Returns the facts as they are now; ``add`` must not be called on them."""
        other = Workings()
        other.calls, other.messages, other.runs = dict(self.calls), dict(self.messages), dict(self.runs)
        return other

    def call(self, entry_id: str, call_id: str) -> CallFacts | None:
        """Returns what is known of the call ``call_id`` that the message ``entry_id`` asked for."""
        return self.calls.get((entry_id, call_id)) or self.calls.get(("", call_id))

    def add(self, event: Event) -> None:
        """Takes the next event of the session."""
        match event:
            case MessageUpdate():
                self._add_piece(event)
            case MessageStart():
                self._start_message(event)
            case MessageEnd():
                self._end_message(event)
            case ToolExecutionStart():
                self._start_call(event)
            case ToolDecisionMade():
                self._decide(event)
            case ToolExecutionUpdate():
                known = self.calls.get(self._key(event))
                if known is not None and known.running:
                    self._put(replace(known, partial=event.partial_result[-PARTIAL_CHARACTERS:]))
            case ToolExecutionEnd():
                self._end_call(event)
            case TurnStart():
                self._asked[event.run_id or ""] = event
            case AgentStart():
                run_id = event.run_id or ""
                self.runs[run_id] = RunFacts(run_id, event.kind, _time(event), n=event.n, seq=event.seq or 0)
            case RunDone():
                self._end_run(event)
            case _:
                pass

    def nothing_runs(self) -> None:
        """Says that no call works any more: the process that ran them is gone."""
        for run_id in list(self._running):
            self._stop_calls(run_id)

    # Messages

    def _add_piece(self, event: MessageUpdate) -> None:
        facts = self.messages.get(event.entry_id or "")
        if facts is not None and not facts.first:
            kind = _first_kind(event)
            if kind:
                self.messages[facts.entry_id] = replace(
                    facts, first=_time(event), first_kind=kind, first_n=event.n, first_seq=event.seq or 0
                )

    def _start_message(self, event: MessageStart) -> None:
        if isinstance(event.message, AssistantMessage) and event.entry_id is not None:
            run_id = event.run_id or ""
            asked = self._asked.get(run_id)
            self.messages[event.entry_id] = MessageFacts(
                event.entry_id,
                run_id,
                asked=_time(asked) if asked else 0,
                started=_time(event),
                n=event.n,
                seq=event.seq or 0,
                asked_n=asked.n if asked else 0,
                asked_seq=(asked.seq or 0) if asked else 0,
            )

    def _end_message(self, event: MessageEnd) -> None:
        run_id, entry_id = event.run_id or "", event.entry_id or ""
        if event.discarded:
            self.messages.pop(entry_id, None)
        elif isinstance(event.message, UserMessage):
            # The turn of a person's message is announced before the message itself.
            self._asked[run_id] = event
        elif isinstance(event.message, AssistantMessage):
            facts = self.messages.get(entry_id) or MessageFacts(entry_id, run_id)
            self.messages[entry_id] = replace(facts, ended=_time(event), end_n=event.n, end_seq=event.seq or 0)
            for call in tool_calls_of(event.message):
                self._askers.setdefault(call.id, []).append((run_id, entry_id))
            if run_id in self.runs:
                self.runs[run_id] = replace(self.runs[run_id], last_entry=entry_id)

    # Calls

    def _key(self, event: ToolExecutionStart | ToolDecisionMade | ToolExecutionUpdate | ToolExecutionEnd) -> Key:
        """Returns the key of an event's call: asked for by its run, or else by the newest that has no end yet.

        A run also answers calls that an earlier one left open at the leaf.
        """
        call_id = event.tool_call_id
        askers = self._askers.get(call_id, [])
        of_run = [entry_id for run_id, entry_id in askers if run_id == event.run_id]
        found = of_run or [entry_id for _, entry_id in askers if not self._is_answered((entry_id, call_id))]
        return (found[-1] if found else "", call_id)

    def _is_answered(self, key: Key) -> bool:
        facts = self.calls.get(key)
        return facts is not None and facts.answered

    def _call(self, event: ToolExecutionStart | ToolDecisionMade | ToolExecutionEnd) -> CallFacts:
        key = self._key(event)
        known = self.calls.get(key)
        if known is not None:
            return known
        entry_id, call_id = key
        return CallFacts(call_id, event.tool_name, entry_id, event.run_id or "", n=event.n, seq=event.seq or 0)

    def _put(self, facts: CallFacts) -> None:
        self.calls[facts.entry_id, facts.call_id] = facts

    def _start_call(self, event: ToolExecutionStart) -> None:
        facts = self._call(event)
        runs = not event.recovered
        self._put(replace(facts, started=_time(event), duration_ms=None, running=runs, answered=False, partial=""))
        if runs:
            self._running.setdefault(event.run_id or "", set()).add((facts.entry_id, facts.call_id))

    def _decide(self, event: ToolDecisionMade) -> None:
        changed = event.args_before != event.args_after
        self._put(
            replace(
                self._call(event),
                decision=event.decision,
                rule=event.rule,
                reason=event.reason,
                args_before=event.args_before if changed else None,
                args_after=event.args_after if changed else None,
            )
        )

    def _end_call(self, event: ToolExecutionEnd) -> None:
        facts = self._call(event)
        # One that another run began, or that nobody did, has no duration here.
        timed = not event.recovered and facts.started and facts.run_id == event.run_id
        took = event.duration_ms if timed else None
        self._put(replace(facts, duration_ms=took, running=False, answered=True, partial=""))
        for keys in self._running.values():
            keys.discard((facts.entry_id, facts.call_id))

    def _stop_calls(self, run_id: str) -> None:
        for key in self._running.pop(run_id, ()):
            self.calls[key] = replace(self.calls[key], running=False, partial="")

    # Runs

    def _end_run(self, event: RunDone) -> None:
        run_id = event.run_id or ""
        self._stop_calls(run_id)
        self._asked.pop(run_id, None)
        self.runs[run_id] = replace(
            self.runs.get(run_id) or RunFacts(run_id),
            ended=_time(event),
            status=event.status,
            error=event.error,
            end_n=event.n,
            end_seq=event.seq or 0,
        )


def _time(event: Event) -> int:
    return 0 if event.recovered else event.ts


def _first_kind(event: MessageUpdate) -> FirstKind:
    match event.assistant_message_event:
        case TextDelta():
            return "text"
        case ThinkingStart() | ThinkingDelta():
            return "thinking"
        case ToolCallStart() | ToolCallDelta() | ToolCallEnd():
            return "call"
        case _:
            return ""
