"""One reader of a session's page: what it has seen, and what it gets next."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flask_babel import force_locale

from app.protocol.events import LeafMoved, SessionDeleted
from app.runs.buffer import Record
from app.web import sse
from app.web.ids import session_url
from app.web.pieces import NumberedPiece, Writer
from app.web.session_page import View
from app.web.shared import Shared


@dataclass
class PageCursor:
    """One reader of a session's page stream: what it has seen, and how new events look to it."""

    writer: Writer
    shared: Shared
    n: int
    _deleted: bool = False

    def wait(self, seconds: float, hold: float) -> list[Record]:
        return [] if self._deleted else self.writer.live.log.wait(self.n, seconds, hold=hold)

    def over(self) -> bool:
        return self._deleted or self.writer.live.log.closed

    def greet(self) -> bytes:
        """Returns the state as it is now: after a restart no event tells a waiting page that its run has stopped."""
        with self._reading():
            if self.n > self.writer.live.log.last:  # the log was lost, and its numbers begin again
                return self._show_all()
            return _frames([(self.n, self.writer.status())]) if self.writer.view.beside else b""

    def render(self, records: list[Record]) -> bytes:
        """Returns an SSE message for each piece.

        htmx looks up all targets of a message before it swaps any, so a piece must not share a message with another
        that it lands in.
        """
        live = self.writer.live
        with self._reading():
            if any(isinstance(record.event, LeafMoved) for record in records):
                message = self._show_all()
            else:
                self.n = records[-1].n
                key = (live.id, self.writer.view, records[0].n, self.n)
                message = self.shared.get(key, lambda: _frames(self.writer.of(records)))
        # One that was brought back has the event of its deletion in its past.
        if any(isinstance(record.event, SessionDeleted) for record in records) and live.status().deleted:
            self._deleted = True
            message += sse.frame(b"end", event="close")
        return message

    def _show_all(self) -> bytes:
        picture = self.writer.live.snapshot()
        self.n = picture.n
        return _frames([(self.n, piece) for piece in self.writer.everything(picture)])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """A stream runs outside of a request: texts still come in the reader's language."""
        with self.writer.app.app_context(), force_locale(self.writer.view.prefs.lang):
            yield


def _frames(pieces: Iterable[NumberedPiece]) -> bytes:
    return b"".join(sse.frame(piece.encode("utf-8", "replace"), event_id=n) for n, piece in pieces)


def stream_url(session_id: str, view: View, n: int) -> str:
    """Returns the address of the stream that keeps a page up to date that was rendered up to ``n``."""
    kind = ("" if view.beside else "&only=panel") + ("&all=1" if view.everything else "")
    prefs = view.prefs
    return f"{session_url(session_id, 'stream')}?after={n}&show={prefs.show}&lang={prefs.lang}&panel={view.panel}{kind}"
