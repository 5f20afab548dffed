"""What tests of whole runs need: a supervisor in a folder, models that wait for the test, and what must always hold."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.agent.guards import DEFAULT_HOOKS
from app.protocol.cancel import CancelToken
from app.protocol.entries import Entry
from app.protocol.events import Event, MessageUpdate, QueuedMessage, RunDone
from app.protocol.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, text_of, tool_calls_of
from app.protocol.model import AnyModel, ModelEvent, ModelRequest, events_of_message
from app.protocol.tools import ToolDefinition
from app.runs.active import ActiveRun
from app.runs.equipment import Equipment
from app.runs.eventlog import JsonlEventLogs
from app.runs.executor import Executor
from app.runs.history import History, RunRecord
from app.runs.live import LiveSession
from app.runs.supervisor import Queued, Started, Supervisor
from app.sessions.files import Files
from app.sessions.jsonl import JsonlSessionStore

PATIENCE = 30.0
"""Seconds after which a test gives up on something that should happen at once."""


def supervisor_in(
    folder: Path,
    model: AnyModel,
    tools: Sequence[ToolDefinition] = (),
    *,
    files: Files | None = None,
    executor: Executor | None = None,
    **more: Any,
) -> Supervisor:
    """Returns a supervisor with its data in ``folder``, which may hold some already."""
    trash = folder / "trash"
    return Supervisor(
        JsonlSessionStore(folder / "sessions", trash, files),
        JsonlEventLogs(folder / "runs", trash),
        Equipment(model, tools, DEFAULT_HOOKS, "You teach."),
        cwd=str(folder),
        executor=executor,
        **more,
    )


HOLDER = """
import sys
from pathlib import Path
from app.sessions.jsonl import JsonlSessionStore
session = JsonlSessionStore(Path(sys.argv[1]), Path(sys.argv[2])).open(sys.argv[3])
print(session.read_only or "writable", flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(sessions: Path, trash: Path, session_id: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Another process that has a session open until its input ends, with what it says about it."""
    arguments = [sys.executable, "-c", HOLDER, str(sessions), str(trash), session_id]
    root = Path(__file__).parents[1]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


class InlineExecutor:
    """Runs a worker where it is started, so that a prompt returns when its run is over."""

    def start(self, work: Callable[[], None], name: str) -> None:
        work()


class Gate:
    """Holds a model's turn until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def turn(self, message: AssistantMessage) -> Callable[[ModelRequest, CancelToken], Iterable[ModelEvent]]:
        """A turn for FakeModel: waits at the gate, whatever is cancelled meanwhile, then says ``message``."""

        def play(request: ModelRequest, cancel: CancelToken) -> Iterable[ModelEvent]:
            self.reached.set()
            assert self.opened.wait(PATIENCE), "the gate was never opened"
            return events_of_message(message)

        return play


def started(begun: Started | Queued) -> Started:
    assert isinstance(begun, Started)
    return begun


def abort(supervisor: Supervisor, run_id: str) -> tuple[LiveSession, ActiveRun | None]:
    """Stops a run, as the API does."""
    live = supervisor.session_of(run_id, to_write=True)
    return live, live.abort(run_id)


def resume(supervisor: Supervisor, run_id: str) -> Started:
    """Continues a run, as the API does."""
    return supervisor.resume(supervisor.session_of(run_id, to_write=True), run_id)


def settle(run: ActiveRun) -> ActiveRun:
    """Waits until a run is over."""
    assert run.settled.wait(PATIENCE), "the run never ended"
    return run


def runs_of(entries: Iterable[Entry]) -> list[RunRecord]:
    """The runs that entries tell of, in the order of their starts."""
    return list(history_of(entries).runs.values())


def queue_of(entries: Iterable[Entry]) -> list[QueuedMessage]:
    """The messages that wait by what entries say."""
    return history_of(entries).queue


def history_of(entries: Iterable[Entry]) -> History:
    """What entries say about runs, taken one after another."""
    history = History()
    for entry in entries:
        history.add(entry)
    return history


def ask(supervisor: Supervisor, text: str = "q", session_id: str | None = None) -> Started:
    """Sends a prompt and waits until its run is over."""
    begun = started(supervisor.prompt(session_id, text))
    settle(begun.run)
    return begun


def entries_of(live: LiveSession) -> list[Entry]:
    return [stored.entry for stored in live.session.entries]


def events_of(live: LiveSession, run_id: str | None = None) -> list[Event]:
    return [record.event for record in live.log.after(0, run_id)]


def lasting(events: Iterable[Event]) -> list[Event]:
    """Events without deltas."""
    return [event for event in events if not isinstance(event, MessageUpdate)]


def ends_of(live: LiveSession, run_id: str) -> list[RunDone]:
    return [event for event in events_of(live, run_id) if isinstance(event, RunDone)]


def said(messages: Iterable[Message]) -> list[str]:
    """Messages as short words: who, and the text."""
    words = []
    for message in messages:
        match message:
            case UserMessage():
                words.append(f"user: {text_of(message.content)}")
            case AssistantMessage():
                calls = "".join(f"[{call.id}]" for call in tool_calls_of(message))
                words.append(f"assistant: {text_of(message.content)}{calls}")
            case ToolResultMessage():
                words.append(f"result {message.tool_call_id}{'!' if message.is_error else ''}")
            case _:
                words.append(type(message).__name__)
    return words


def assert_valid(messages: Sequence[Message], *, may_lack_results: bool = False) -> None:
    """Every call has exactly one result, right behind its message and in the order of the calls."""
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert not isinstance(message, ToolResultMessage), f"a result without its call: {message.tool_call_id}"
        if not isinstance(message, AssistantMessage):
            continue
        for call in tool_calls_of(message):
            if not rest and may_lack_results:
                return
            result = rest.pop(0) if rest else None
            assert isinstance(result, ToolResultMessage) and result.tool_call_id == call.id, said(messages)
