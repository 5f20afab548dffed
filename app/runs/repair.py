"""Which events a crash swallowed: pure comparison of a run's entries with its logged events.

An entry is always written before its event, so at a crash only the newest events can lack. They are made again from
the entries, marked ``recovered``; a message that was being written when the process died ends as ``discarded``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from app.protocol.entries import MessageEntry
from app.protocol.events import (
    AgentStart,
    Event,
    LeafMoved,
    MessageEnd,
    MessageStart,
    QueueChanged,
    QueuedMessage,
    RunDone,
    SessionRenamed,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from app.protocol.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    tool_calls_of,
    unanswered_calls,
)


@dataclass
class _Logged:
    """What a run's log holds so far, kept up to date while events are added."""

    begun: bool = False
    turn_open: bool = False
    turn_answer: AssistantMessage | None = None
    message_open: MessageStart | None = None
    ended_entries: set[str] = field(default_factory=set)
    started_entries: set[str] = field(default_factory=set)
    started_calls: set[str] = field(default_factory=set)
    ended_calls: set[str] = field(default_factory=set)

    def see(self, event: Event) -> None:
        self.begun = True
        match event:
            case TurnStart():
                self.turn_open, self.turn_answer = True, None
            case TurnEnd():
                self.turn_open, self.turn_answer = False, None
            case MessageStart():
                self.message_open = event
                self.started_entries.add(event.entry_id or "")
            case MessageEnd():
                self.message_open = None
                self.ended_entries.add(event.entry_id or "")
                if isinstance(event.message, AssistantMessage):
                    self.turn_answer = event.message
            case ToolExecutionStart():
                self.started_calls.add(event.tool_call_id)
            case ToolExecutionEnd():
                self.ended_calls.add(event.tool_call_id)
            case _:
                pass


def logged_as_done(events: Sequence[Event]) -> RunDone | None:
    """Returns the run's end, if its log has one."""
    return next((event for event in reversed(events) if isinstance(event, RunDone)), None)


def missing_events(entries: Sequence[MessageEntry], events: Sequence[Event]) -> list[Event]:
    """Returns the events, without numbers, that a run's message ``entries`` imply and its log ``events`` lack.

    The turn stays open when calls of it have no result yet: the resumed loop answers them and ends it. The end of
    the run itself (agent_end, run_done) is not among them: the caller knows the leaf.
    """
    repair = _Repair(entries, events)
    for entry in entries:
        if entry.id not in repair.logged.ended_entries:
            repair.add_message(entry)
    repair.close_what_is_open([entry.message for entry in entries])
    return repair.made


def missing_session_events(
    events: Iterable[Event],
    queue: Sequence[QueuedMessage],
    returned: Sequence[QueuedMessage],
    leaf_id: str | None,
    name: str,
) -> list[Event]:
    """Returns the events, without numbers, after which readers of all ``events`` of a session know its state."""
    told_queue = QueueChanged(queue=[])
    told_leaf: str | None = None
    told_name = ""
    for event in events:
        match event:
            case QueueChanged():
                told_queue = event
            case LeafMoved() | RunDone():
                told_leaf = event.leaf_id
            case MessageEnd(discarded=False):
                told_leaf = event.entry_id
            case SessionRenamed():
                told_name = event.name
            case _:
                pass
    made: list[Event] = []
    if (told_queue.queue, told_queue.returned) != (list(queue), list(returned)):
        made.append(QueueChanged(queue=list(queue), returned=list(returned), recovered=True))
    if told_leaf != leaf_id:
        made.append(LeafMoved(leaf_id=leaf_id, recovered=True))
    if told_name != name:
        made.append(SessionRenamed(name=name, recovered=True))
    return made


class _Repair:
    def __init__(self, entries: Sequence[MessageEntry], events: Sequence[Event]) -> None:
        self.logged = _Logged()
        for event in events:
            self.logged.see(event)
        self.made: list[Event] = []
        self._arguments = {
            call.id: call.arguments
            for entry in entries
            if isinstance(entry.message, AssistantMessage)
            for call in tool_calls_of(entry.message)
        }
        if not self.logged.begun:
            self._emit(AgentStart())

    def _emit(self, event: Event) -> None:
        event = msgspec.structs.replace(event, recovered=True)
        self.logged.see(event)
        self.made.append(event)

    def add_message(self, entry: MessageEntry) -> None:
        self._discard_open_message(except_id=entry.id)
        message = entry.message
        if isinstance(message, ToolResultMessage):
            self._add_call_events(message)
        else:
            if self.logged.turn_answer is not None:
                self._end_turn()
            if not self.logged.turn_open:
                self._emit(TurnStart())
        if entry.id not in self.logged.started_entries:
            self._emit(MessageStart(entry_id=entry.id, message=_as_started(message)))
        self._emit(MessageEnd(entry_id=entry.id, message=message))

    def _add_call_events(self, message: ToolResultMessage) -> None:
        call_id, name = message.tool_call_id, message.tool_name
        # A call of an earlier run, which this one only gave its error result, was not taken up here.
        if call_id in self._arguments and call_id not in self.logged.started_calls:
            args = self._arguments[call_id]
            self._emit(ToolExecutionStart(tool_call_id=call_id, tool_name=name, args=args))
        if call_id not in self.logged.ended_calls:
            result = {"content": msgspec.to_builtins(message.content)}
            self._emit(ToolExecutionEnd(tool_call_id=call_id, tool_name=name, result=result, is_error=message.is_error))

    def _discard_open_message(self, except_id: str = "") -> None:
        opened = self.logged.message_open
        if opened is not None and opened.entry_id != except_id:
            self._emit(MessageEnd(entry_id=opened.entry_id, discarded=True))

    def _end_turn(self) -> None:
        if not self.logged.turn_open:
            return
        answer = self.logged.turn_answer
        if answer is None:
            self._emit(TurnEnd(stop_reason="interrupted"))
        else:
            calls = [call.id for call in tool_calls_of(answer)]
            self._emit(TurnEnd(stop_reason=answer.stop_reason or "stop", tool_results=calls))

    def close_what_is_open(self, messages: Sequence[Message]) -> None:
        self._discard_open_message()
        if not unanswered_calls(messages)[1]:
            self._end_turn()


def _as_started(message: Message) -> Message:
    """Returns the message as message_start carries it: what a model or a tool writes follows at the end."""
    if isinstance(message, AssistantMessage | ToolResultMessage):
        return msgspec.structs.replace(message, content=[])
    return message
