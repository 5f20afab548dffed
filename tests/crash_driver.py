"""Plays a run in a process that kills itself at a chosen step. Nothing in the product knows of it.

Reads jobs from stdin, one JSON object a line, and answers each with one line on stdout. A job is done in a child,
forked before any thread, file or lock exists here, so that a process start costs little. What a client of that child
would know is written to ``told.jsonl`` at once: each event when readers can see it, and what was acknowledged.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from app.models.script import Script, ScriptedModel
from app.protocol.cancel import CancelToken
from app.protocol.model import ModelEvent, ModelRequest, TextDelta
from app.protocol.tools import Effect, ToolContext, ToolDefinition
from app.runs.eventlog import JsonlEventLog
from app.runs.live import LiveSession
from app.runs.log import EventFile
from app.runs.supervisor import Supervisor
from app.sessions.appending import LineFile
from app.sessions.files import Files
from app.tools import notes
from app.tools.folders import Folder
from app.tools.registry import workspace_tools
from app.tools.workspace import Workspace
from tests.running import InlineExecutor, resume, supervisor_in

PROMPT = "Write a note about this folder."
FOLLOW_UP = "And what is in it?"
NOTE = "The lesson says: 你好.\n"
TURNS: list[dict[str, Any]] = [
    {"text": "I look around.", "toolCalls": [{"name": "list_files"}]},
    {
        "thinking": "Now the note.",
        "toolCalls": [
            {"name": "write_note", "arguments": {"name": "lesson", "content": NOTE}},
            {"name": "read_file", "arguments": {"path": "lesson.md"}},
        ],
    },
    {"text": "The note is written."},
    {"text": "It holds one sentence."},
]


class Steps:
    """Counts the steps of a job and dies at number ``at``; in a dry run it only names them."""

    def __init__(self, at: int | None) -> None:
        self.names: list[str] = []
        self._at = at

    def __call__(self, name: str) -> None:
        if self.is_next(name):
            die()

    def is_next(self, name: str) -> bool:
        """Counts a step at which the caller dies in its own way."""
        self.names.append(name)
        return len(self.names) == self._at


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Told:
    """What a client has received, on disk as soon as it has."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "told.jsonl", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, line: bytes) -> None:
        os.write(self._fd, line + b"\n")

    def acknowledge(self, what: str, **more: Any) -> None:
        self(json.dumps({"acknowledged": what, **more}).encode())


class QueueingModel:
    """The scripted model; while it says its first words a person sends a follow-up."""

    def __init__(self, chunk: int, steps: Steps) -> None:
        turns = [{**turn, "chunk": chunk} for turn in TURNS]
        self._script = ScriptedModel(msgspec.convert({"turns": turns}, Script))
        self._steps = steps
        self.name, self.id = self._script.name, self._script.id
        self.provider, self.api = self._script.provider, self._script.api
        self.context_window = self._script.context_window
        self.send_follow_up = lambda: None

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        self._steps("the model is asked")
        for event in self._script.stream(request, cancel):
            yield event
            if isinstance(event, TextDelta):
                send, self.send_follow_up = self.send_follow_up, lambda: None
                send()


def instrument(folder: Path, steps: Steps) -> Files:
    """Puts steps around every write to session and log and around the tool's effect; returns the session's files."""
    append, write, emit = LineFile.append, EventFile._write, JsonlEventLog.emit
    rename, create = Folder.rename, notes._create

    def stepped_append(self: Any, *args: Any, **more: Any) -> Any:
        steps("before an entry")
        placed = append(self, *args, **more)
        steps("after an entry")
        return placed

    def torn_write(fd: int, data: bytes) -> int:
        if steps.is_next("half an entry"):
            os.write(fd, data[: len(data) // 2])
            die()
        return os.write(fd, data)

    def stepped_write(self: Any, data: bytes) -> None:
        if steps.is_next("half a log line"):
            self.path.parent.mkdir(exist_ok=True)
            with self.path.open("ab") as file:
                file.write(data[: len(data) // 2])
            die()
        write(self, data)
        steps("event stored, not shown")

    def stepped_emit(self: Any, *args: Any, **more: Any) -> Any:
        steps("before an event")
        made = emit(self, *args, **more)
        steps("after an event")
        return made

    def counted_rename(self: Any, old: str, new: str) -> None:
        rename(self, old, new)
        with (folder / "effects.log").open("a") as file:
            file.write(f"{new}\n")

    def stepped_create(*args: Any) -> None:
        steps("before the effect")
        create(*args)
        steps("after the effect")

    LineFile.append = stepped_append  # type: ignore[method-assign]
    EventFile._write = stepped_write  # type: ignore[method-assign]
    JsonlEventLog.emit = stepped_emit  # type: ignore[method-assign]
    Folder.rename = counted_rename  # type: ignore[method-assign]
    notes._create = stepped_create
    # A killed process loses nothing that it has written, so waiting for the disk would only cost time.
    return Files(write=torn_write, fsync=lambda fd: None)


def stepped_tool(tool: ToolDefinition, steps: Steps) -> ToolDefinition:
    def execute(parameters: Any, context: ToolContext) -> Any:
        def before_effect(effect: Effect) -> bool:
            steps(f"in {tool.name}, before tool-started")
            return context.before_effect(effect)

        steps(f"in {tool.name}, at its start")
        result = tool.execute(parameters, ToolContext(context.cancel, before_effect, context.update))
        steps(f"in {tool.name}, at its end")
        return result

    return ToolDefinition(tool.name, tool.description, tool.parameters, execute)


def follow(live: LiveSession, told: Told, after: int) -> None:
    """Makes ``told`` a reader of the session: what it missed now, the rest when readers can see it."""
    for record in live.log.after(after):
        told(record.data)
    show = live.log.buffer.append

    def shown(records: Any) -> None:
        show(records)
        for record in records:
            told(record.data)

    live.log.buffer.append = shown  # type: ignore[method-assign]


def play(job: dict[str, Any], steps: Steps) -> None:
    """Does a job: {folder, at, chunk}. In a new folder a prompt is sent; in an old one its run is taken up."""
    folder = Path(job["folder"])
    model = QueueingModel(job["chunk"], steps)
    workspace = folder / "workspace"
    is_new = not workspace.exists()
    if is_new:
        workspace.mkdir()
        (workspace / "lesson.md").write_text("# Lesson\n\n你好\n")
        maker = supervisor_in(folder, model)
        maker.create()
        maker.close()
    tools = [stepped_tool(tool, steps) for tool in workspace_tools(Workspace(workspace))]
    files = instrument(folder, steps)
    supervisor = supervisor_in(folder, model, tools, files=files, executor=InlineExecutor())
    if is_new:
        prompt(supervisor, model, Told(folder))
    else:
        take_up_again(supervisor, Told(folder), last_told(folder))


def prompt(supervisor: Supervisor, model: QueueingModel, told: Told) -> None:
    live = supervisor.resolve(None)
    follow(live, told, 0)

    def send_follow_up() -> None:
        queued = supervisor.prompt(live.id, FOLLOW_UP, queue=True)
        told.acknowledge("follow-up", runId=queued.run.run_id)

    model.send_follow_up = send_follow_up
    begin = live.begin

    def acknowledged(*args: Any, **more: Any) -> Any:
        run = begin(*args, **more)
        told.acknowledge("prompt", runId=run.run_id)
        return run

    live.begin = acknowledged  # type: ignore[method-assign]
    supervisor.prompt(live.id, PROMPT)


def take_up_again(supervisor: Supervisor, told: Told, after: int) -> None:
    live = supervisor.resolve(None)
    follow(live, told, after)
    if live.interrupted is not None:
        resume(supervisor, live.interrupted)


def last_told(folder: Path) -> int:
    lines = [json.loads(line) for line in (folder / "told.jsonl").read_bytes().splitlines()]
    return max((line["n"] for line in lines if "n" in line), default=0)


def in_child(job: dict[str, Any]) -> dict[str, Any]:
    """Does a job in a child and returns {signal, exit}; the steps of a whole one are left in ``steps.json``."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            steps = Steps(job["at"])
            play(job, steps)
            Path(job["folder"], "steps.json").write_text(json.dumps(steps.names))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    return {"signal": os.WTERMSIG(status) if killed else 0, "exit": 0 if killed else os.WEXITSTATUS(status)}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(in_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
