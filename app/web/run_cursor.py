"""A run's events as JSON, for one reader of the API."""

from app.protocol.events import RunDone
from app.runs.buffer import Record
from app.runs.live import LiveSession
from app.web import sse


class RunCursor:
    """One reader of one run's events: remembers how far it has read."""

    def __init__(self, live: LiveSession, run_id: str, after_seq: int) -> None:
        self._live = live
        self._run_id = run_id
        self._after_seq = after_seq
        self._n = 0
        self._done = False

    def greet(self) -> bytes:
        return b""

    def wait(self, seconds: float, hold: float) -> list[Record]:
        if self._done:
            return []
        found = self._live.log.wait(self._n, seconds, self._run_id, hold=hold)
        if found:
            self._n = found[-1].n
            self._done = isinstance(found[-1].event, RunDone)
        return found

    def render(self, records: list[Record]) -> bytes:
        return b"".join(
            sse.frame(record.data, event=_type_of(record), event_id=record.event.seq)
            for record in records
            if (record.event.seq or 0) > self._after_seq
        )

    def over(self) -> bool:
        return self._done or self._live.log.closed


def _type_of(record: Record) -> str:
    return str(type(record.event).__struct_config__.tag)
