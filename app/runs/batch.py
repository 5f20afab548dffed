"""Entries that go to disk together: one write, one fsync, all or nothing."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from app.protocol.codec import clean_text
from app.protocol.entries import (
    LEAF,
    MAIN_LINE,
    QUEUED,
    RUN,
    TOOL_STARTED,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    KnownEntry,
    LabelEntry,
    MainLineData,
    MessageEntry,
    QueuedData,
    RunData,
    SessionInfoEntry,
    ToolStartedData,
)
from app.protocol.events import RunKind
from app.protocol.messages import Message
from app.sessions.store import Session
from app.sessions.times import now_iso


@dataclass(frozen=True)
class Compacted:
    """A summary and what it replaces: all before ``first_kept_entry_id``, which was ``tokens_before`` with the rest."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: dict[str, Any]


class Batch:
    """Collects entries for a session: messages chain from the leaf on, side entries hang on the leaf so far."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._parent = session.leaf_id
        self._timestamp = now_iso()
        self.entries: list[KnownEntry] = []

    def message(self, message: Message, entry_id: str | None = None) -> MessageEntry:
        """Adds a message as child of the newest chain entry."""
        entry = MessageEntry(
            id=entry_id or self._session.new_id(),
            parent_id=self._parent,
            timestamp=self._timestamp,
            message=message,
        )
        self._parent = entry.id
        self.entries.append(entry)
        return entry

    def run(
        self, run_id: str, status: Literal["started", "done"], reason: str = "", *, kind: RunKind = "prompt"
    ) -> None:
        self._side(RUN, RunData(run_id=run_id, status=status, reason=reason, kind=kind))

    def compaction(self, made: Compacted) -> CompactionEntry:
        """Adds a compaction as child of the newest chain entry."""
        entry = CompactionEntry(
            id=self._session.new_id(),
            parent_id=self._parent,
            timestamp=self._timestamp,
            summary=clean_text(made.summary),
            first_kept_entry_id=made.first_kept_entry_id,
            tokens_before=made.tokens_before,
            details=made.details,
            from_hook=False,
        )
        self._parent = entry.id
        self.entries.append(entry)
        return entry

    def branch_summary(self, target: str | None, summary: str, from_id: str, details: Any) -> BranchSummaryEntry:
        """Adds the summary of the branch that was left at ``from_id`` as child of ``target``, which moves there."""
        entry = BranchSummaryEntry(
            id=self._session.new_id(),
            parent_id=target,
            timestamp=self._timestamp,
            summary=clean_text(summary),
            from_id=from_id,
            details=details,
            from_hook=False,
        )
        self._parent = entry.id
        self.entries.append(entry)
        return entry

    def label(self, target: str, label: str) -> None:
        """Adds the entry that names another; "" takes its name away."""
        self.entries.append(
            LabelEntry(
                id=self._session.new_id(),
                parent_id=self._parent,
                timestamp=self._timestamp,
                target_id=target,
                label=label or None,
            )
        )

    def main_line(self, target: str) -> None:
        """Adds the mark of the main line; "" takes it back."""
        self._side(MAIN_LINE, MainLineData(target_id=target))

    def queued(self, queue_id: str, status: Literal["added", "removed", "returned"], text: str = "") -> None:
        self._side(QUEUED, QueuedData(id=queue_id, status=status, text=text))

    def taken(self, queue_id: str, entry_id: str) -> None:
        """Says that a queued message becomes the entry ``entry_id``, which must be added next."""
        self._side(QUEUED, QueuedData(id=queue_id, status="taken", entry_id=entry_id))

    def tool_started(self, data: ToolStartedData) -> None:
        self._side(TOOL_STARTED, data)

    def leaf(self, target: str | None) -> None:
        """Adds the entry that makes ``target`` the leaf: it hangs on the target, so that Pi opens the same branch."""
        self._parent = target
        self._side(LEAF, {})

    def name(self, name: str) -> None:
        self.entries.append(
            SessionInfoEntry(id=self._session.new_id(), parent_id=self._parent, timestamp=self._timestamp, name=name)
        )

    def _side(self, custom_type: str, data: Any) -> None:
        self.entries.append(
            CustomEntry(
                id=self._session.new_id(),
                parent_id=self._parent,
                timestamp=self._timestamp,
                custom_type=custom_type,
                data=msgspec.to_builtins(data),
            )
        )
