"""What pages and the API are shown of a session: values, taken under the session lock."""

from dataclasses import dataclass
from typing import Literal

from app.protocol.entries import Entry
from app.protocol.events import Event, QueuedMessage
from app.protocol.messages import Message
from app.render.streaming import Piece
from app.runs.workings import Workings
from app.sessions.context import build_context
from app.sessions.lines import StoredEntry

State = Literal["idle", "running", "waiting"]


@dataclass(frozen=True)
class Status:
    """What a session does now. ``returned`` are messages that were given back unsent and stand there still."""

    session_id: str
    name: str
    state: State
    run_id: str | None
    interrupted: str | None
    queue: list[QueuedMessage]
    returned: list[QueuedMessage]
    read_only: str
    deleted: bool


@dataclass(frozen=True)
class Snapshot(Status):
    """A consistent picture of a session, and the number ``n`` up to which it holds.

    ``messages`` are the context at the leaf, ``path`` the entries up to it, ``stored`` all entries of the file.
    ``partial`` are the events so far of the message that is being written, ``partial_pieces`` the HTML of its text;
    ``newest_run`` is the newest of the branch, ``workings`` what is known of each step on any branch.
    """

    leaf_id: str | None
    path: list[Entry]
    stored: list[StoredEntry]
    n: int
    newest_run: str | None
    partial_id: str | None
    partial: list[Event]
    partial_pieces: list[Piece]
    workings: Workings
    problems: list[str]

    @property
    def messages(self) -> list[Message]:
        return build_context(self.path).messages
