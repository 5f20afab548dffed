"""Any order of prompts, moves, summaries, compactions, names, copies and restarts, against a plain account of each."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.models.script import Script, ScriptedModel, ScriptedTurn
from app.protocol.cancel import CancelToken
from app.protocol.entries import CompactionEntry, CustomEntry, Entry, MessageEntry
from app.protocol.events import MessageEnd
from app.protocol.messages import CompactionSummaryMessage, Message, UserMessage, text_of
from app.protocol.model import ModelEvent, ModelRequest
from app.runs.errors import Conflict
from app.runs.live import LiveSession
from app.runs.supervisor import Queued, Started, Supervisor
from app.sessions.context import message_of
from tests.running import InlineExecutor, entries_of, events_of, supervisor_in

ANSWER = ScriptedTurn(text="answer " + "word " * 150, chunk=1_000)


class Disturbed(ScriptedModel):
    """Lets a test do something in the middle of the next answer."""

    meanwhile: Callable[[], object] | None = None

    def stream(self, request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        yield from super().stream(request, cancel)


class Trees(RuleBasedStateMachine):
    """A session that is used in any order; ``parents`` is all that is known of its tree, by plain bookkeeping."""

    points = Bundle("points")

    @initialize(target=points)
    def begin(self) -> str:
        self.folder = Path(tempfile.mkdtemp())
        self.model = Disturbed(
            Script(turns=[], after=ANSWER, summary=ScriptedTurn(text="In short."), context_window=900)
        )
        self.supervisor = self._new()
        self.session_id = self.supervisor.create().id
        self.labels: dict[str, str] = {}
        self.leaf: str | None = None
        self.asked = 0
        self.questions: list[str] = []
        self.returned: list[str] = []
        self.name = ""
        return self.ask()

    def _new(self) -> Supervisor:
        return supervisor_in(self.folder, self.model, executor=InlineExecutor())

    @property
    def live(self) -> LiveSession:
        return self.supervisor.open(self.session_id)

    def _question(self) -> str:
        self.asked += 1
        return f"question {self.asked}"

    def _sent(self, text: str, status: str = "done", *, returned: str = "") -> str:
        """Sends a message whose run is over at once; returns where the session stands then."""
        begun = self.supervisor.prompt(self.session_id, text, returned=returned)
        assert isinstance(begun, Started) and begun.run.status == status
        self.leaf = self.live.session.leaf_id
        return str(self.leaf)

    def _queue(self) -> str:
        text = self._question()
        assert isinstance(self.supervisor.prompt(self.session_id, text, queue=True), Queued)
        assert [waiting.text for waiting in self.live.queue][-1] == text
        return text

    @rule(target=points)
    def ask(self) -> str:
        self.questions.append(self._question())
        return self._sent(self.questions[-1])

    @rule(target=points)
    def ask_twice(self) -> str:
        """A second question comes while the first is answered, and is answered in the same run."""
        self.questions.append(first := self._question())
        self.model.meanwhile = lambda: self.questions.append(self._queue())
        return self._sent(first)

    @rule(target=points)
    def stop(self) -> str:
        """An answer is stopped while another question waits, which is given back."""

        def meanwhile() -> None:
            self.returned.append(self._queue())
            run = self.live.snapshot().run_id
            assert run is not None and self.live.abort(run) is not None

        self.questions.append(first := self._question())
        self.model.meanwhile = meanwhile
        return self._sent(first, "aborted")

    @precondition(lambda self: self.returned)
    @rule(target=points)
    def send_again(self) -> str:
        waiting = self.live.status().returned[0]
        self.questions.append(self.returned.pop(0))
        assert waiting.text == self.questions[-1]
        return self._sent(waiting.text, returned=waiting.id)

    @rule(name=st.sampled_from(["Limits", "  ", "界限"]))
    def rename(self, name: str) -> None:
        self.live.rename(name)
        self.name = name.strip() or self.name

    @rule(point=points)
    def move(self, point: str) -> None:
        self.live.move(point)
        self.leaf = point
        assert self.live.session.leaf_id == point

    @rule(point=points)
    def move_with_a_summary(self, point: str) -> None:
        known = {entry.id for entry in entries_of(self.live)}
        moved = self.supervisor.move(self.session_id, point, summary=True)
        self.leaf = self.live.session.leaf_id
        if isinstance(moved, Started):
            (made,) = [e for e in entries_of(self.live) if e.id not in known and not isinstance(e, CustomEntry)]
            assert made.parent_id == point and self.leaf == made.id
        else:
            assert self.leaf == point

    @rule()
    def compact(self) -> None:
        before = self.live.snapshot().messages
        try:
            begun = self.supervisor.compact(self.session_id)
        except Conflict:
            assert self.live.snapshot().messages == before
            return
        self.leaf = self.live.session.leaf_id
        assert begun.run.status in ("done", "error")
        if begun.run.status == "done":
            after = self.live.snapshot().messages
            assert isinstance(after[0], CompactionSummaryMessage)
            assert after[1:] == before[len(before) - len(after) + 1 :]

    @rule(point=points, name=st.sampled_from(["", "here", "there"]))
    def label(self, point: str, name: str) -> None:
        self.live.label(point, name)
        self.labels.pop(point, None)
        self.labels |= {point: name} if name else {}

    @rule(point=points)
    def copy(self, point: str) -> None:
        made = self.supervisor.fork(self.session_id, point)
        assert made.snapshot().messages == self.live.session.context(point).messages
        on_path = {entry.id for entry in self.live.session.path(point)}
        assert made.session.outline.labels == {n: label for n, label in self.labels.items() if n in on_path}
        count = len(self.live.session.outline)
        self.supervisor.prompt(made.id, "on its own")
        assert len(self.live.session.outline) == count

    @rule()
    def restart(self) -> None:
        before = self._all()
        self.supervisor.close()
        self.supervisor = self._new()
        assert self._all() == before, "reload equals memory"

    def _all(self) -> dict[str, Any]:
        picture, outline = self.live.snapshot(), self.live.session.outline
        names = (
            "ids",
            "kinds",
            "parents",
            "chain",
            "shown",
            "children",
            "turns",
            "items",
            "compacted",
            "labels",
            "ends",
        )
        return {
            **{name: list(getattr(outline, name)) if name != "ends" else outline.ends for name in names},
            "messages": picture.messages,
            "leaf": picture.leaf_id,
            "size": picture.context_size,
            "branches": picture.branches,
            "name": picture.name,
            "queue": picture.queue,
            "returned": picture.returned,
        }

    @invariant()
    def the_context_is_that_of_a_plain_walk(self) -> None:
        entries = {entry.id: entry for entry in entries_of(self.live)}
        assert self.live.session.leaf_id == self.leaf
        path: list[Entry] = []
        here = self.leaf
        while here is not None:
            path.insert(0, entries[here])
            here = entries[here].parent_id
        assert self.live.snapshot().messages == plain_context(path), "siblings never mix"
        assert self.live.session.outline.labels == self.labels
        status = self.live.status()
        assert (status.state, status.name, status.queue) == ("idle", self.name, [])
        assert [waiting.text for waiting in status.returned] == self.returned

    @invariant()
    def nothing_is_missing_that_was_not_summarised(self) -> None:
        path = self.live.session.path()
        compactions = [at for at, entry in enumerate(path) if isinstance(entry, CompactionEntry)]
        messages = [e.message for e in path if isinstance(e, MessageEntry)]
        context = self.live.snapshot().messages
        if not compactions:
            assert [m for m in context if any(m is one or m == one for one in messages)] == messages
            return
        newest = path[compactions[-1]]
        assert isinstance(newest, CompactionEntry)
        first = [entry.id for entry in path].index(newest.first_kept_entry_id)
        told = [text_of(e.message.content) for e in path[first:] if isinstance(e, MessageEntry)]  # type: ignore[union-attr]
        there = [text_of(m.content) for m in context if hasattr(m, "content")]
        assert there == told

    @invariant()
    def messages_are_told_in_the_order_of_the_file(self) -> None:
        stored = [entry.id for entry in entries_of(self.live) if isinstance(entry, MessageEntry)]
        told = [event.entry_id for event in events_of(self.live) if isinstance(event, MessageEnd)]
        assert told == stored
        questions = [
            text_of(entry.message.content)
            for entry in entries_of(self.live)
            if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage)
        ]
        assert questions == self.questions

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.supervisor.close()
            shutil.rmtree(self.folder)


def plain_context(path: list[Entry]) -> list[Message]:
    """The context of a path, as simply as it can be said."""
    newest = max((at for at, entry in enumerate(path) if isinstance(entry, CompactionEntry)), default=None)
    if newest is not None:
        compaction = path[newest]
        assert isinstance(compaction, CompactionEntry)
        ids = [entry.id for entry in path[:newest]]
        first = ids.index(compaction.first_kept_entry_id)
        kept = [entry for entry in path[first:] if not isinstance(entry, CompactionEntry)]
        path = [compaction, *kept]
    return [message for entry in path if (message := message_of(entry)) is not None]


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
