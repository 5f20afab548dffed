"""Server-sent events: framing, heartbeat, and when a stream ends."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from flask import Request, Response

from app.runs.buffer import Record, is_delta
from app.runs.live import LiveSession

HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 1.0
GATHER_SECONDS = 0.08
"""Deltas go out at most about 12 times a second; the first of a message, and everything else, at once."""
RETRY = b"retry: 1000\n\n"
HEARTBEAT = b": heartbeat\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def frame(data: bytes, *, event: str = "", event_id: int | None = None) -> bytes:
    """Returns one event. Every line of ``data`` gets its own field; CR would end a line, so none is left."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    head = b""
    if event:
        head += b"event: " + event.encode() + b"\n"
    if event_id is not None:
        head += f"id: {event_id}\n".encode()
    return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"


def last_event_id(value: str | None) -> int:
    """Returns the number in a Last-Event-ID header or ``after`` parameter; 0 when absent or not a number."""
    return int(value) if value and value.isascii() and value.isdecimal() and len(value) < 19 else 0


def start_of(request: Request) -> int:
    """Returns the number after which a reader goes on: what its page was rendered to, or what it has had since."""
    return max(last_event_id(request.args.get("after")), last_event_id(request.headers.get("Last-Event-ID")))


class Slots:
    """How many of something may go on at once: each holds a thread of the server."""

    def __init__(self, most: int) -> None:
        self._slots = threading.Semaphore(most)

    def take(self) -> bool:
        return self._slots.acquire(blocking=False)

    def give_back(self) -> None:
        self._slots.release()


class _Held:
    """An iterator that lets go of what it holds when the server closes it, even if it was never started."""

    def __init__(self, chunks: Iterator[bytes], release: Callable[[], None]) -> None:
        self._chunks = chunks
        self._release: Callable[[], None] | None = release

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


def stream_response(chunks: Iterator[bytes], live: LiveSession, slots: Slots) -> Response:
    """Returns a streaming answer that reads ``live`` and holds one of ``slots``, which the caller has taken."""
    live.add_reader()

    def release() -> None:
        live.remove_reader()
        slots.give_back()

    return Response(_Held(chunks, release), mimetype="text/event-stream", headers=HEADERS)


def refused_stream(piece: str = "") -> Response:
    """Returns an answer that makes a page try again later: hx-sse never retries a first connect that failed.

    ``piece`` is what the page shows meanwhile.
    """
    chunk = b"retry: 2000\n\n" + (frame(piece.encode()) if piece else b"")
    return Response(chunk, mimetype="text/event-stream", headers=HEADERS)


class Reader(Protocol):
    """One reader of a session's events."""

    def greet(self) -> bytes:
        """Returns what a new reader gets first; may be empty."""
        ...

    def wait(self, seconds: float, hold: float) -> list[Record]:
        """Waits for something new; see EventBuffer.wait."""
        ...

    def render(self, records: list[Record]) -> bytes:
        """Returns what goes over the wire; may be empty."""
        ...

    def over(self) -> bool:
        """Returns whether nothing more can come."""
        ...


def follow(reader: Reader, gone: Callable[[], bool]) -> Iterator[bytes]:
    """Yields what a reader gets and renders, until it is over or the client is ``gone()``.

    A comment is sent after 15 s of silence; the client is looked for every second, since a dead one holds a thread.
    """
    yield RETRY + reader.greet()
    sent = time.monotonic()
    deltas_sent = 0.0
    while not gone():
        hold = max(0.0, deltas_sent + GATHER_SECONDS - time.monotonic())
        found = reader.wait(LOOK_SECONDS, hold)
        chunk = reader.render(found) if found else b""
        if chunk:
            yield chunk
            sent = time.monotonic()
            if is_delta(found[-1]):
                deltas_sent = sent
        elif time.monotonic() - sent >= HEARTBEAT_SECONDS:
            yield HEARTBEAT
            sent = time.monotonic()
        if not found and reader.over():
            return


def client_gone(environ: dict[str, Any]) -> Callable[[], bool]:
    """Returns the server's own test for a client that has hung up; False where the server has none."""
    test: Callable[[], bool] | None = environ.get("waitress.client_disconnected")
    return test if test is not None else lambda: False
