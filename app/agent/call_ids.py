"""Tool call ids that belong to one call each, whatever a model sends."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

import msgspec

from app.protocol.model import ModelEvent, ToolCallEnd, ToolCallStart


class CallIds:
    """Replaces ids that are empty or taken, before a message is shown or stored."""

    def __init__(self, used: AbstractSet[str], new_id: Callable[[], str]) -> None:
        self._used = set(used)
        self._new_id = new_id
        self._of_block: dict[int, str] = {}

    def next_message(self) -> None:
        """Call it before each response: block numbers begin again."""
        self._of_block.clear()

    def settle(self, event: ModelEvent) -> ModelEvent:
        """Returns the event with an id that is no other call's; start and end of a call get the same one."""
        if isinstance(event, ToolCallStart) and event.id:
            return msgspec.structs.replace(event, id=self._fresh(event.id, event.content_index))
        if isinstance(event, ToolCallEnd):
            call_id = self._fresh(event.tool_call.id, event.content_index)
            return msgspec.structs.replace(event, tool_call=msgspec.structs.replace(event.tool_call, id=call_id))
        return event

    def _fresh(self, call_id: str, index: int) -> str:
        if index not in self._of_block:
            taken = not call_id.strip() or call_id in self._used
            self._of_block[index] = self._new_id() if taken else call_id
            self._used.add(self._of_block[index])
        return self._of_block[index]
