"""What pages and the API are shown of a session: values, taken under the session lock."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from app.protocol.events import Event, QueuedMessage, RunKind
from app.protocol.messages import Message
from app.render.streaming import Piece
from app.runs.workings import Workings
from app.sessions.outline import Size
from app.sessions.store import Session
from app.sessions.window import Window, window_of

State = Literal["idle", "running", "waiting"]


@dataclass(frozen=True)
class Status:
    """What a session does now. ``returned`` are messages that were given back unsent and stand there still.

    ``kind`` says what the run that works now is for; it summarises ``part`` of ``parts``, 0 when nothing.
    ``not_summarised`` says why the last summary failed, until the next run begins. ``tokens`` is about how much is in
    the context at the leaf, instructions and tools not counted.
    """

    session_id: str
    name: str
    state: State
    run_id: str | None
    kind: RunKind
    part: int
    parts: int
    interrupted: str | None
    not_summarised: str
    tokens: int
    queue: list[QueuedMessage]
    returned: list[QueuedMessage]
    read_only: str
    deleted: bool


@dataclass(frozen=True)
class Snapshot(Status):
    """A consistent picture of a session, and the number ``n`` up to which it holds.

    ``leaf`` is the position of the leaf, ``count`` how many entries there are, ``branches`` how many ends their tree
    has; ``session`` is there to read entries from, which never change. ``recent`` are the last messages of the path and
    ``messages`` the context at the leaf, both read when they are asked for. ``partial`` are the events so far of the
    message that is being written, ``partial_pieces`` the HTML of its text; ``newest_run`` is the newest of the branch,
    ``workings`` what is known of each step on any branch.
    """

    session: Session
    leaf_id: str | None
    leaf: int
    count: int
    branches: int
    n: int
    newest_run: str | None
    partial_id: str | None
    partial: list[Event]
    partial_pieces: list[Piece]
    workings: Workings
    problems: list[str]

    @property
    def messages(self) -> list[Message]:
        return self.session.context(self.leaf_id).messages

    @cached_property
    def recent(self) -> Window:
        return window_of(self.session, self.leaf)

    def numbers_in(self, window: Window) -> dict[str, int]:
        """Returns the numbers of the turns in a window, that of the message being written included."""
        if self.partial_id is None:
            return window.numbers
        return {**window.numbers, self.partial_id: self.turns + 1}

    @property
    def turns(self) -> int:
        """How many messages of the tutor stand on the path."""
        return self.session.outline.turns[self.leaf] if self.leaf >= 0 else 0

    @property
    def context_size(self) -> Size:
        """How much is in the context at the leaf."""
        return self.session.outline.context_size(self.leaf)
