"""HTML beside events: made once by the worker, never on disk or in JSON, and no reason for a run to fail."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.cancel import CancelToken
from app.protocol.events import MessageEnd, MessageStart, MessageUpdate
from app.protocol.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, text_of
from app.protocol.model import (
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    events_of_message,
)
from app.render.markdown import Rendered, render_markdown
from app.render.streaming import Piece, StreamRenderer, combine
from app.runs.buffer import Record
from app.runs.live import LiveSession
from app.runs.rendering import MessageRenderer
from app.runs.supervisor import Supervisor
from tests.running import Gate, ask, settle, started
from tests.support import say

Make = Callable[..., Supervisor]
ANSWER = "# Tides\n\nThe *moon* pulls.\n\n- one\n- two\n\nAn end with <b>."


def in_pieces(*deltas: str) -> Callable[[ModelRequest, CancelToken], Iterator[ModelEvent]]:
    """A turn that says a text in these deltas."""

    def play(request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        yield StreamStart()
        yield TextStart(content_index=0)
        for delta in deltas:
            yield TextDelta(content_index=0, delta=delta)
        yield TextEnd(content_index=0)
        yield StreamDone(reason="stop")

    return play


def records(live: LiveSession) -> list[Record]:
    return live.log.after(0)


def visible(piece: Piece) -> str:
    return BeautifulSoup(piece.blocks + piece.tail, "html.parser").get_text()


def pieces_of(live: LiveSession) -> list[Piece]:
    return [record.piece for record in records(live) if record.piece is not None]


def test_each_delta_has_its_piece_and_the_end_the_whole(make: Make) -> None:
    live = ask(make(in_pieces(*[ANSWER[i : i + 5] for i in range(0, len(ANSWER), 5)]))).live
    with_text = [
        record
        for record in records(live)
        if isinstance(record.event, MessageUpdate) and isinstance(record.event.assistant_message_event, TextDelta)
    ]
    assert len(with_text) == -(-len(ANSWER) // 5)
    assert all(record.piece is not None for record in with_text)
    assert combine(pieces_of(live)) == combine([StreamRenderer().feed(ANSWER)])
    (whole,) = [record for record in records(live) if record.rendered is not None]
    assert isinstance(whole.event, MessageEnd) and isinstance(whole.event.message, AssistantMessage)
    assert whole.rendered == render_markdown(ANSWER) and "<em>moon</em>" in whole.rendered.html


def test_what_a_person_writes_is_not_rendered(make: Make) -> None:
    live = ask(make(say("ok")), "*hello*").live
    ends = [record for record in records(live) if isinstance(record.event, MessageEnd)]
    assert [record.rendered is not None for record in ends] == [False, True]


def test_html_is_neither_in_json_nor_on_disk(make: Make, tmp_path: Any) -> None:
    live = ask(make(in_pieces("The *moon*", " pulls.\n\nEnd"))).live
    assert all(b"<em>" not in record.data and b"piece" not in record.data for record in records(live))
    files = [path for path in tmp_path.rglob("*.jsonl") if path.is_file()]
    assert len(files) == 2
    for path in files:
        text = path.read_text("utf-8")
        assert "*moon*" in text and "<em>" not in text and "rendered" not in text


def test_a_page_in_mid_message_has_what_a_reader_of_all_has_seen(make: Make) -> None:
    gate = Gate()

    def half(request: ModelRequest, cancel: CancelToken) -> Iterator[ModelEvent]:
        yield StreamStart()
        yield TextStart(content_index=0)
        yield TextDelta(content_index=0, delta="First *block*.\n\nSec")
        yield from gate.turn(say("never shown"))(request, cancel)

    supervisor = make(half)
    begun = started(supervisor.prompt(None, "q"))
    assert gate.reached.wait(30)
    picture = begun.live.snapshot()
    gate.opened.set()
    settle(begun.run)
    so_far = combine(picture.partial_pieces)
    assert picture.partial_id is not None
    assert "<em>block</em>" in so_far.blocks and so_far.tail == "Sec"
    assert begun.live.snapshot().partial_pieces == []


def test_links_lead_where_the_equipment_says(make: Make) -> None:
    def render(text: str) -> Rendered:
        return render_markdown(text, link=lambda href: f"/files/{href}")

    supervisor = make(in_pieces("See [it](a.md).\n", "\nEnd"))
    supervisor.equipment = replace(supervisor.equipment, render=render)
    live = ask(supervisor).live
    (whole,) = [record.rendered for record in records(live) if record.rendered is not None]
    for html in (combine(pieces_of(live)).blocks, whole.html):
        (link,) = BeautifulSoup(html, "html.parser").select("a")
        assert link["href"] == "/files/a.md"


def test_a_renderer_that_fails_neither_ends_the_run_nor_loses_text(make: Make) -> None:
    def broken(text: str) -> Rendered:
        raise RecursionError("too deep")

    supervisor = make(in_pieces("one <i>\n\n", "two"))
    supervisor.equipment = replace(supervisor.equipment, render=broken)
    begun = ask(supervisor)
    assert begun.run.status == "done"
    shown = combine(pieces_of(begun.live))
    assert "<i>" not in shown.blocks + shown.tail
    assert visible(shown).split() == ["one", "<i>", "two"]
    assert all(record.rendered is None for record in records(begun.live))


def test_a_stream_that_cannot_be_rendered_is_shown_as_it_is_written(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, delta: str) -> Piece:
        raise RecursionError("too deep")

    monkeypatch.setattr(StreamRenderer, "feed", broken)
    begun = ask(make(in_pieces("one <i>", " two")))
    assert begun.run.status == "done"
    assert combine(pieces_of(begun.live)) == Piece("", "one &lt;i&gt; two", False)


def test_nothing_is_rendered_under_the_session_lock(make: Make) -> None:
    supervisor = make(in_pieces("a\n\n", "b\n\n", "c"))
    live = supervisor.create()
    free: list[bool] = []

    def render(text: str) -> Rendered:
        taken = live.lock.acquire(blocking=False)
        free.append(taken)
        if taken:
            live.lock.release()
        return render_markdown(text)

    supervisor.equipment = replace(supervisor.equipment, render=render)
    ask(supervisor, session_id=live.id)
    assert len(free) >= 3 and all(free)


def events_with_starts(message: AssistantMessage) -> Iterator[Any]:
    yield MessageStart(message=AssistantMessage(content=[]))
    for event in events_of_message(message):
        if not isinstance(event, StreamStart | StreamDone):
            yield MessageUpdate(assistant_message_event=event)  # type: ignore[arg-type]


@pytest.mark.parametrize("second", ["next block", "\n\nafter a gap"])
def test_several_text_blocks_read_as_the_page_joins_them(second: str) -> None:
    message = AssistantMessage(
        content=[
            ThinkingContent(thinking="hidden thought"),
            TextContent(text="First"),
            ToolCall(id="c", name="look", arguments={}),
            TextContent(text=second),
        ],
        stop_reason="toolUse",
    )
    renderer = MessageRenderer(render_markdown)
    shown = [renderer.shown(event) for event in events_with_starts(message)]
    pieces = [each.piece for each in shown if each.piece is not None]
    assert combine(pieces) == combine([StreamRenderer().feed(text_of(message.content))])
    assert "hidden" not in visible(combine(pieces))
    whole = renderer.shown(MessageEnd(message=message)).rendered
    assert whole == render_markdown(text_of(message.content))


def test_text_in_a_block_of_thoughts_is_not_shown() -> None:
    renderer = MessageRenderer(render_markdown)
    thought = AssistantMessage(content=[ThinkingContent(thinking="x")], stop_reason="stop")
    for event in events_with_starts(thought):
        assert renderer.shown(event).piece is None
    stray = MessageUpdate(assistant_message_event=TextDelta(content_index=0, delta="stray"))
    assert renderer.shown(stray).piece is None


@given(st.lists(st.lists(st.text("a\n`*- ", max_size=8), max_size=4), max_size=4))
def test_messages_of_a_run_do_not_run_into_each_other(messages: list[list[str]]) -> None:
    renderer = MessageRenderer(render_markdown)
    for deltas in messages:
        renderer.shown(MessageStart(message=AssistantMessage(content=[])))
        updates = [MessageUpdate(assistant_message_event=TextDelta(content_index=0, delta=delta)) for delta in deltas]
        pieces = [piece for update in updates if (piece := renderer.shown(update).piece) is not None]
        assert combine(pieces) == combine([StreamRenderer().feed("".join(deltas))])
