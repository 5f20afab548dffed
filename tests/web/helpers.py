"""What the tests of the web share: a model that waits for the test, and a strict reader of event streams."""

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bs4 import BeautifulSoup
from flask import Flask
from flask.testing import FlaskClient

from app.protocol.cancel import CancelToken
from app.protocol.model import (
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
)

SECONDS = 20.0


class Gate:
    """A turn of a FakeModel: says ``first``, sets ``reached``, waits for ``open`` or a cancel, then says ``rest``."""

    def __init__(self, first: str = "one ", rest: str = "two") -> None:
        self.first = first
        self.rest = rest
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        yield StreamStart()
        yield TextStart(content_index=0)
        yield TextDelta(content_index=0, delta=self.first)
        self.reached.set()
        while not self.open.is_set() and not cancel.wait(0.005):
            pass
        if cancel.cancelled:
            yield StreamError(reason="aborted", error_message=cancel.reason)
            return
        yield TextDelta(content_index=0, delta=self.rest)
        yield TextEnd(content_index=0)
        yield StreamDone(reason="stop")

    def wait(self) -> None:
        """Returns once ``first`` is said and can be seen by readers."""
        assert self.reached.wait(SECONDS), "the model was never asked"


@dataclass(frozen=True)
class ServerSentEvent:
    """One event of a stream. ``lines`` are its data fields."""

    event: str
    id: str
    lines: list[str]

    @property
    def data(self) -> str:
        return "\n".join(self.lines)

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def parse_stream(body: bytes) -> list[ServerSentEvent]:
    """Returns the events of a whole stream; fails on anything that is not well formed (comments and retry aside)."""
    text = body.decode("utf-8")
    assert "\r" not in text
    assert text.endswith("\n\n"), "the stream breaks off inside an event"
    return list(events_of(text.split("\n")))


def events_of(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """Yields events from lines without line ends, as they come."""
    event, event_id, data = "", "", []
    for line in lines:
        if not line:
            if data:
                yield ServerSentEvent(event, event_id, data)
            event, event_id, data = "", "", []
            continue
        name, colon, value = line.partition(":")
        assert colon, f"not a field: {line!r}"
        value = value.removeprefix(" ")
        match name:
            case "event":
                event = value
            case "id":
                event_id = value
            case "data":
                data.append(value)
            case "retry":
                assert value.isdecimal()
            case _:
                assert name == "", f"unknown field {name!r}"


def chunks_of(response: Any) -> Iterator[str]:
    """Yields the lines of a streaming answer of the test client as they come."""
    rest = ""
    for chunk in response.iter_encoded():
        rest += chunk.decode("utf-8")
        *whole, rest = rest.split("\n")
        yield from whole


def settle(client: FlaskClient, run_id: str) -> list[ServerSentEvent]:
    """Waits until a run is over and returns its events."""
    return parse_stream(client.get(f"/api/runs/{run_id}/events").data)


def say_to(client: FlaskClient, text: str, **more: Any) -> Any:
    """Sends a prompt, waits for its end and returns the answer's JSON."""
    response = client.post("/api/prompt", json={"text": text, **more})
    assert response.status_code == 200, response.text
    return response.json


def start(client: FlaskClient, text: str = "hello", **more: Any) -> tuple[str, str]:
    """Starts a run; returns the ids of the run and its session."""
    response = client.post("/api/runs", json={"text": text, **more})
    assert response.status_code == 201, response.text
    return response.json["runId"], response.json["sessionId"]


def stop_app(app: Flask) -> None:
    """Lets go of all files and readers, as at the end of the process; runs stay unfinished on disk."""
    app.extensions["hornbook"].supervisor.close()


def page(body: bytes | str) -> BeautifulSoup:
    """Returns a page or fragment as parsed HTML."""
    return BeautifulSoup(body, "html.parser")


def word(event: dict[str, Any]) -> str:
    """Returns an event of the API as a short word, deltas by their kind."""
    kind: str = event["type"]
    if kind == "message_update":
        return f"upd:{event['assistantMessageEvent']['type']}"
    if kind in ("message_start", "message_end"):
        message = event.get("message")
        return f"{kind}:{message['role'] if message else 'discarded'}"
    if kind == "tool_decision":
        return f"{kind}:{event['decision']}"
    return kind


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """Returns the text of each message."""
    return [text_of(message) for message in messages]


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the tool calls of an assistant's message."""
    return [block for block in message["content"] if block["type"] == "toolCall"]
