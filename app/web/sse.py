"""Server-sent events: framing, heartbeat, and when a stream ends."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from flask import Response

from app.runs.buffer import Record

HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 1.0
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


class StreamSlots:
    """How many streams may be open at once: each holds a thread of the server."""

    def __init__(self, most: int) -> None:
        self._slots = threading.Semaphore(most)

    def take(self) -> bool:
        return self._slots.acquire(blocking=False)

    def give_back(self) -> None:
        self._slots.release()


class _Held:
    """An iterator that gives its slot back when the server closes it, even if it was never started."""

    def __init__(self, chunks: Iterator[bytes], slots: StreamSlots) -> None:
        self._chunks = chunks
        self._slots: StreamSlots | None = slots

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.give_back()


def stream_response(chunks: Iterator[bytes], slots: StreamSlots) -> Response:
    """Returns a streaming answer that holds one of ``slots``, which the caller has taken."""
    return Response(_Held(chunks, slots), mimetype="text/event-stream", headers=HEADERS)


def refused_stream() -> Response:
    """Returns an answer that makes a page try again later: hx-sse never retries a first connect that failed."""
    return Response(b"retry: 2000\n\n", mimetype="text/event-stream", headers=HEADERS)


def follow(
    wait: Callable[[float], list[Record]],
    render: Callable[[list[Record]], bytes],
    *,
    over: Callable[[], bool],
    gone: Callable[[], bool],
) -> Iterator[bytes]:
    """Yields what ``render`` makes of what ``wait(seconds)`` returns, until ``over()`` or the client is ``gone()``.

    A comment is sent after 15 s of silence; the client is looked for every second, since a dead one holds a thread.
    """
    yield RETRY
    silent_since = time.monotonic()
    while not gone():
        found = wait(LOOK_SECONDS)
        chunk = render(found) if found else b""
        if chunk:
            yield chunk
            silent_since = time.monotonic()
        elif time.monotonic() - silent_since >= HEARTBEAT_SECONDS:
            yield HEARTBEAT
            silent_since = time.monotonic()
        if not found and over():
            return


def client_gone(environ: dict[str, Any]) -> Callable[[], bool]:
    """Returns the server's own test for a client that has hung up; False where the server has none."""
    test: Callable[[], bool] | None = environ.get("waitress.client_disconnected")
    return test if test is not None else lambda: False
