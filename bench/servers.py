"""Starting servers for the benchmarks, and reading what they cost (Linux: /proc)."""

import contextlib
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARE_HELLO = """
import sys, waitress, time
from flask import Flask, Response
app = Flask("hello")

@app.get("/")
def hello():
    return "hello"

@app.get("/stream/<int:count>/<int:ms>")
def stream(count, ms):
    def chunks():
        for number in range(count):
            time.sleep(ms / 1000)
            yield f"id: {number}\\ndata: x\\n\\n".encode()
    return Response(chunks(), mimetype="text/event-stream")

server = waitress.create_server(app, host="127.0.0.1", port=0, threads=int(sys.argv[1]), asyncore_use_poll=True,
                                channel_request_lookahead=1)
print(f"open at http://127.0.0.1:{server.effective_port}/", flush=True)
server.run()
"""
LINK = re.compile(rb"http://127\.0\.0\.1:\d+/\S*")


@dataclass
class Server:
    """A running server: its address, and the seconds from its start to its first answer."""

    process: "subprocess.Popen[bytes]"
    address: str
    token: str = ""
    seconds_to_first_answer: float = 0.0

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found.group(1)) / 1024 if found else 0.0

    def request(self, path: str, data: bytes | None = None) -> urllib.request.Request:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return urllib.request.Request(self.address + path, data, headers)


@contextlib.contextmanager
def started(command: list[str], environment: dict[str, str] | None = None, token: str = "") -> Iterator[Server]:
    """Starts a server, waits for its first 200 and ends it afterwards."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = LINK.search(line)
        if found is None:
            raise SystemExit(f"The server did not start: {line!r} {process.stdout.read()!r}")
        server = Server(process, found.group().decode().partition("?")[0], token)
        with urllib.request.urlopen(server.request("")) as answer:
            assert answer.status == 200
        server.seconds_to_first_answer = time.perf_counter() - began
        yield server
    finally:
        process.terminate()
        process.wait(10)


def hornbook(data: Path, model: str = "offline") -> "contextlib.AbstractContextManager[Server]":
    """Hornbook on a data folder of its own."""
    command = [sys.executable, "-m", "app", "serve", "--no-browser", "--port", "0", "--data", str(data)]
    return started([*command, "--model", model], {"HORNBOOK_TOKEN": "bench"}, "bench")


def bare_flask(threads: int = 64) -> "contextlib.AbstractContextManager[Server]":
    """A Flask hello under the same server with as many threads."""
    return started([sys.executable, "-c", BARE_HELLO, str(threads)])
