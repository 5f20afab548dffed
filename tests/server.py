"""A real ``hornbook serve`` in a process of its own, for what a test client cannot show."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 20.0
"""How long anything may take before a test gives up."""


def clean_environment(**more: str) -> dict[str, str]:
    """Returns the environment without settings of Hornbook, so that a developer's own do not reach the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HORNBOOK_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


def hornbook(*arguments: str, timeout: float = SECONDS, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that ends by itself, and returns its exit code, stdout and stderr."""
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        cwd=ROOT,
        env=clean_environment(**environ),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
    )


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


class Server:
    """A running server. ``link`` is the address that it printed, ``token`` the token in it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.link = self.line_with(" is open at ").split()[-1]
            # The last line of the announcement: all before it is known to be there.
            self.line_with("  stop ")
        except BaseException:
            self.kill()
            raise
        parts = urlsplit(self.link)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self.token = parse_qs(parts.query).get("token", [""])[0]

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def line_with(self, text: str) -> str:
        """Waits for a line of output with ``text`` in it; fails with the whole output when the process ends first."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._find(text) is not None, SECONDS)
            line = self._find(text)
        if line is None:
            state = "ended" if self._ended else f"printed nothing of the kind for {SECONDS:.0f} s"
            raise AssertionError(f"The server {state}; wanted {text!r}. Its output:\n{self.output()}")
        return line

    def _find(self, text: str) -> str | None:
        return next((line for line in self._lines if text in line), None)

    def output(self) -> str:
        """Returns what the process has printed so far, errors included."""
        with self._changed:
            return "".join(self._lines)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)

    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def cookie(self) -> dict[str, str]:
        """The headers of a browser that has been here by the link."""
        return {"Cookie": f"hornbook-{self.port}={self.token}"}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends one request and returns the whole answer. ``headers`` None: the bearer; a dict as body is JSON."""
        sent = dict(self.bearer() if headers is None else headers)
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(response.status, lower(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Answer:
        return self.request("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.request("POST", path, body, **more)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[http.client.HTTPResponse]:
        """Opens a stream; it is closed, as by a browser that leaves, at the end of the block."""
        connection = self.connect()
        try:
            connection.request("GET", path, headers=dict(self.bearer() if headers is None else headers))
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def terminate(self) -> int:
        """Sends SIGTERM and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Ends the process with SIGKILL: it can tidy nothing up."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def wait(self) -> int:
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code


def lower(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns headers by lower-case name; of several with one name the last."""
    return {name.lower(): value for name, value in headers}


@contextmanager
def running_server(
    *arguments: str,
    data: Path,
    workspace: Path,
    port: int = 0,
    model: str = "offline",
    command: Sequence[str] = ("serve",),
    **environ: str,
) -> Iterator[Server]:
    """Starts a server and yields it once it has announced itself; ends it at the end of the block."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "app", *command, "--no-browser"),
            *("--data", str(data), "--workspace", str(workspace)),
            *("--port", str(port), "--model", model, *arguments),
        ],
        cwd=ROOT,
        env=clean_environment(**environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    server = Server(process)
    try:
        yield server
    finally:
        server.kill()
