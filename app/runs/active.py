"""The run that works now."""

import threading
import uuid
from dataclasses import dataclass, field

from app.protocol.cancel import CancelToken
from app.protocol.events import RunKind, RunStatus

ABORT_SECONDS = 10.0


@dataclass
class ActiveRun:
    """A run between its start and its end in this process.

    ``settled`` is set once it is over; ``status`` and ``error`` then say how. ``open_entry_id`` is that of the
    message being written, ``turn_open`` says that a turn was announced already. ``part`` of ``parts`` is what is being
    summarised just now, 0 when nothing is.
    """

    run_id: str
    kind: RunKind = "prompt"
    cancel: CancelToken = field(default_factory=CancelToken)
    settled: threading.Event = field(default_factory=threading.Event)
    turn_open: bool = False
    open_entry_id: str | None = None
    part: int = 0
    parts: int = 0
    status: RunStatus = "error"
    error: str = ""

    def stop(self, reason: str) -> bool:
        """Asks the run to stop and waits for it; returns False when it has not stopped after 10 s."""
        self.cancel.cancel(reason)
        return self.settled.wait(ABORT_SECONDS)


def new_run_id() -> str:
    """Returns a new run id, unique over all sessions."""
    return f"run_{uuid.uuid4().hex[:16]}"
