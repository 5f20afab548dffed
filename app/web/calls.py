"""Tool calls as a page shows them: one line a turn, rows, or everything; pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from app.protocol.messages import AssistantMessage, ToolCall, ToolResultMessage, text_of, tool_calls_of
from app.runs.workings import CallFacts, Workings
from app.sessions.preview import preview
from app.web.file_urls import workspace_url
from app.web.ids import dom_id

QUIET_TOOLS = frozenset({"list_files", "read_file", "search_files"})
"""Tools that only look: what they do may be folded into one line. Every other call acts, and is always a row."""

MAIN_ARGUMENTS = ("path", "pattern", "query", "name", "file", "text")
SHOWN_CHARACTERS = 4_000
HEAD_LINES = 3


@dataclass(frozen=True)
class CallItem:
    """A tool call with what was decided about it and, once there is one, its result.

    ``state`` is waiting, running, done, failed or blocked. ``before`` and ``after`` are the arguments as JSON,
    ``after`` only where a rule rewrote them. ``head`` are the first lines of the result, ``text`` its beginning;
    ``cut`` says that it has more, ``size`` its length in bytes. ``url`` leads to the lines that were read or written,
    ``result_entry`` is the result's entry. ``acts``: it is a row of its own, however little is shown.
    """

    id: str
    timeline_id: str
    name: str
    main: str
    before: str
    after: str
    state: str
    decision: str
    rule: str
    reason: str
    milliseconds: int | None
    partial: str
    head: str
    text: str
    cut: bool
    size: int
    url: str
    result_entry: str
    acts: bool


@dataclass(frozen=True)
class CallsItem:
    """The calls of one message: ``quiet`` ones fit into one line, ``shown`` ones are always rows."""

    id: str
    entry_id: str
    calls: Sequence[CallItem]

    @property
    def quiet(self) -> list[CallItem]:
        return [call for call in self.calls if not call.acts]

    @property
    def shown(self) -> list[CallItem]:
        return [call for call in self.calls if call.acts]

    @property
    def lead(self) -> CallItem | None:
        """The quiet call that the line names: one that read a file, else the first."""
        quiet = self.quiet
        return next((call for call in quiet if call.name == "read_file"), quiet[0] if quiet else None)

    @property
    def working(self) -> bool:
        """Whether a quiet call has no result yet."""
        return any(call.state in ("waiting", "running") for call in self.quiet)

    @property
    def milliseconds(self) -> int | None:
        """How long the quiet calls took together; None while that is not known."""
        times = [call.milliseconds for call in self.quiet]
        return sum(time or 0 for time in times) if any(time is not None for time in times) else None


def calls_item(
    entry_id: str,
    message: AssistantMessage,
    results: Mapping[str, tuple[str, ToolResultMessage]],
    workings: Workings,
) -> CallsItem | None:
    """Returns the calls of a message, None when it has none; ``results`` are (entry id, message) by call id."""
    calls = [call_item(call, results.get(call.id), workings.call(entry_id, call.id)) for call in tool_calls_of(message)]
    return CallsItem(dom_id("k", entry_id), entry_id, calls) if calls else None


def call_item(call: ToolCall, answer: tuple[str, ToolResultMessage] | None, facts: CallFacts | None) -> CallItem:
    """Returns the item of one call; ``answer`` is its result with that one's entry id."""
    result_entry, result = answer or ("", None)
    arguments = call.arguments if facts is None or facts.args_after is None else facts.args_after
    text = text_of(result.content) if result is not None else ""
    decision = facts.decision if facts is not None else ""
    state = _state(result, facts)
    rewritten = arguments != call.arguments
    return CallItem(
        id=dom_id("c", call.id),
        timeline_id=dom_id("tc", call.id),
        name=call.name,
        main=main_argument(arguments),
        before=pretty(call.arguments),
        after=pretty(arguments) if rewritten else "",
        state=state,
        decision="rewrite" if rewritten and decision != "block" else decision,
        rule=facts.rule if facts is not None else "",
        reason=facts.reason if facts is not None else "",
        milliseconds=facts.duration_ms if facts is not None else None,
        partial=facts.partial if facts is not None and result is None else "",
        head="\n".join(text[:SHOWN_CHARACTERS].split("\n")[:HEAD_LINES]),
        text=text[:SHOWN_CHARACTERS],
        cut=len(text) > SHOWN_CHARACTERS,
        size=len(text.encode("utf-8", "surrogatepass")),
        url=_url(call.name, arguments, result),
        result_entry=result_entry,
        acts=call.name not in QUIET_TOOLS or state in ("failed", "blocked") or rewritten or decision == "confirm",
    )


def _state(result: ToolResultMessage | None, facts: CallFacts | None) -> str:
    if result is None:
        return "running" if facts is not None and facts.running else "waiting"
    if facts is not None and facts.decision == "block":
        return "blocked"
    return "failed" if result.is_error else "done"


def main_argument(arguments: Mapping[str, Any]) -> str:
    """Returns the argument that tells most about a call, on one line; "" when it has none that is text."""
    texts = [arguments[name] for name in MAIN_ARGUMENTS if isinstance(arguments.get(name), str)]
    return preview(texts[0], 100) if texts else ""


def pretty(value: Any) -> str:
    """Returns a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def pretty_json(line: bytes) -> str:
    """Returns a line of a session file as indented JSON; as it is where it cannot be read."""
    try:
        # A lone surrogate can be written as an escape in JSON, and cannot be sent in a page.
        return pretty(json.loads(line)).encode("utf-8", "replace").decode("utf-8")
    except (ValueError, RecursionError):
        return line.decode("utf-8", "replace")


def _url(name: str, arguments: Mapping[str, Any], result: ToolResultMessage | None) -> str:
    """Returns where in the files pages the call's file stands; "" when it is about none that is there."""
    if result is None or result.is_error:
        return ""
    details = result.details if result.details is not UNSET and isinstance(result.details, dict) else {}
    path = details.get("path") if isinstance(details.get("path"), str) else arguments.get("path")
    if name not in ("read_file", "list_files", "write_note") or not isinstance(path, str):
        return ""
    return workspace_url(path.strip("/"), _lines_read(details))


@dataclass(frozen=True)
class Passage:
    """A part of a file that the tutor has read: where it is shown, and which lines (empty: all)."""

    path: str
    url: str
    lines: str


def passage_of(call: ToolCall, result: ToolResultMessage) -> Passage | None:
    """Returns what a call has read; None when it read no file."""
    url = _url(call.name, call.arguments, result) if call.name == "read_file" else ""
    if not url or not isinstance(result.details, dict):
        return None
    lines = _lines_read(result.details)
    return Passage(str(result.details.get("path", "")), url, "-".join(map(str, lines)) if lines else "")


def _lines_read(details: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the lines that read_file says it has read; None when that was all of them."""
    first, last = details.get("firstLine"), details.get("lastLine")
    if not isinstance(first, int) or not isinstance(last, int) or last < first:
        return None
    return None if (first, last) == (1, details.get("totalLines")) else (first, last)
