"""The timeline and the tools panel: what happened, when, by which rule; and nothing made up."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from bs4 import BeautifulSoup, Tag
from flask import Flask

from app.agent.guards import DEFAULT_HOOKS, RULES
from app.protocol.entries import Entry, MessageEntry
from app.protocol.events import (
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunDone,
    RunStatus,
    ToolDecisionMade,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
)
from app.protocol.messages import AssistantMessage, Message, TextContent, ToolCall, ToolResultMessage, UserMessage
from app.protocol.model import TextDelta, ThinkingStart
from app.protocol.tools import ToolDefinition, ToolResult
from app.runs.workings import Workings
from app.web.context_fill import fill
from app.web.preferences import Preferences
from app.web.timeline import SHOWN_TURNS, Row, timeline_values
from app.web.timeline import timeline as timeline_of
from app.web.tools_panel import tool_item, tools_values
from tests.support import call, say
from tests.web.helpers import page, say_to

START = 1_767_323_045_000
RUN = "run_1"


def timeline(path: list[MessageEntry], workings: Workings, partial_id: str | None = None, **more: Any) -> Any:
    """The timeline of a path whose turns are numbered from its beginning."""
    ids = [entry.id for entry in path if isinstance(entry.message, AssistantMessage)]
    ids += [partial_id] if partial_id is not None and partial_id not in ids else []
    return timeline_of(path, workings, numbers={name: at for at, name in enumerate(ids, 1)}, **more)


class Told:
    """A path and what its events told; each event comes at a given millisecond after the start."""

    def __init__(self) -> None:
        self.path: list[Entry] = []
        self.workings = Workings()
        self.n = 0

    def at(self, ms: int, *events: Event, recovered: bool = False) -> "Told":
        for event in events:
            self.n += 1
            self.workings.add(
                msgspec.structs.replace(
                    event, n=self.n, seq=self.n + 100, run_id=RUN, ts=START + ms, recovered=recovered
                )
            )
        return self

    def entry(self, entry_id: str, message: Message) -> None:
        parent = self.path[-1].id if self.path else None
        self.path.append(
            MessageEntry(id=entry_id, parent_id=parent, timestamp="2026-01-02T03:04:05.678Z", message=message)
        )

    def said(self, entry_id: str, message: AssistantMessage, begun: int, ended: int) -> None:
        self.at(begun, MessageStart(entry_id=entry_id, message=AssistantMessage(content=[])))
        self.entry(entry_id, message)
        self.at(ended, MessageEnd(entry_id=entry_id, message=message))

    def called(self, call_id: str, begun: int, took: int, decision: str = "allow", *, error: bool = False) -> None:
        self.at(begun, ToolExecutionStart(tool_call_id=call_id, tool_name="look", args={}))
        self.at(
            begun,
            ToolDecisionMade(
                tool_call_id=call_id,
                tool_name="look",
                decision=decision,  # type: ignore[arg-type]
                args_before={},
                args_after={"path": "."} if decision == "rewrite" else {},
                rule="a-rule" if decision != "allow" else "",
                reason="because" if decision != "allow" else "",
            ),
        )
        result: dict[str, Any] = {"content": []}
        self.at(
            begun + took,
            ToolExecutionEnd(tool_call_id=call_id, tool_name="look", result=result, is_error=error, duration_ms=took),
        )
        self.entry(
            f"result-{call_id}",
            ToolResultMessage(tool_call_id=call_id, tool_name="look", content=[], is_error=error),
        )

    def over(self, ms: int, status: RunStatus = "done", error: str = "") -> None:
        self.at(ms, RunDone(session_id="s", status=status, leaf_id=None, last_seq=0, error=error))

    def turns(self, **more: Any) -> list[Any]:
        return list(timeline(self.path, self.workings, **more).turns)


def two_turns() -> Told:
    """Asked at 0; calls two tools after 210 ms; answers from 400 to 700 ms; over at 710 ms."""
    told = Told()
    told.at(0, AgentStart(), TurnStart(), MessageEnd(entry_id="u", message=UserMessage(content="q")))
    told.entry("u", UserMessage(content="q"))
    told.said("a", call(("c", "look", {"path": "x.md"}), ("d", "look", {})), 40, 210)
    told.called("c", 220, 12, "rewrite")
    told.called("d", 240, 0, "block", error=True)
    told.at(300, TurnStart())
    told.at(400, MessageStart(entry_id="b", message=AssistantMessage(content=[])))
    told.at(450, MessageUpdate(entry_id="b", assistant_message_event=TextDelta(content_index=0, delta="o")))
    told.entry("b", say("ok"))
    told.at(700, MessageEnd(entry_id="b", message=say("ok")))
    told.over(710)
    return told


def kinds(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row.kind, row.at, row.took) for row in rows]


def test_turns_stand_newest_first_with_their_steps_in_order() -> None:
    second, first = two_turns().turns()
    assert (first.number, first.total, first.working) == (1, 240, False)
    assert kinds(first.rows) == [
        ("sent", 0, 40),
        ("began", 40, None),
        ("asks", 210, 170),
        ("call", 220, 12),
        ("call", 240, 0),
    ]
    assert (second.number, second.total, second.run_id) == (2, 400, RUN)
    assert kinds(second.rows) == [("sent", 0, 150), ("first", 150, None), ("answers", 400, 250), ("end", 410, None)]
    assert second.rows[-1].state == "done"


def test_a_call_row_says_what_was_decided_and_how_it_went() -> None:
    _, first = two_turns().turns()
    asks, rewritten, blocked = first.rows[2:]
    assert asks.count == 2
    assert (rewritten.main, rewritten.decision, rewritten.rule, rewritten.state) == (".", "rewrite", "a-rule", "done")
    assert (blocked.decision, blocked.state, blocked.reason) == ("block", "blocked", "because")
    assert (blocked.id, blocked.call, blocked.node) == ("tc-d", "c-d", "n-result-d")


def test_bars_lie_within_their_turn_and_to_scale() -> None:
    for turn in two_turns().turns():
        for row in turn.rows:
            if row.width is not None:
                assert row.width > 0 and row.x >= 0 and row.x + row.width <= 100.01
    second, _ = two_turns().turns()
    assert [(row.x, row.width) for row in second.rows[:1]] == [(0.0, 37.5)]
    assert (second.rows[2].x, second.rows[2].width) == (37.5, 62.5)


def test_a_turn_of_an_instant_has_bars_too() -> None:
    told = Told()
    told.at(0, TurnStart())
    told.said("a", say("x"), 0, 0)
    (turn,) = told.turns()
    assert turn.total == 0 and all(row.width for row in turn.rows)


def test_a_session_without_events_has_turns_with_unknown_times() -> None:
    told = two_turns()
    turns = timeline(told.path, Workings()).turns
    assert [turn.number for turn in turns] == [2, 1]
    assert [row.kind for row in turns[1].rows] == ["sent", "asks", "call", "call"]
    assert [row.state for row in turns[1].rows[2:]] == ["done", "failed"]
    for turn in turns:
        assert turn.total is None and not turn.working
        assert all(row.at is None and row.took is None and row.width is None for row in turn.rows)
        assert all(row.time == "" and row.n == 0 for row in turn.rows)


def test_recovered_events_give_no_times() -> None:
    told = Told()
    told.entry("a", say("x"))
    told.at(0, AgentStart(), TurnStart(), recovered=True)
    told.at(5, MessageStart(entry_id="a", message=say("")), MessageEnd(entry_id="a", message=say("x")), recovered=True)
    (turn,) = told.turns()
    assert turn.total is None and {row.at for row in turn.rows} == {None}


def test_the_message_being_written_is_a_turn_that_works() -> None:
    told = two_turns()
    told.at(800, TurnStart(), MessageStart(entry_id="p", message=AssistantMessage(content=[])))
    told.at(820, MessageUpdate(entry_id="p", assistant_message_event=ThinkingStart(content_index=0)))
    newest = told.turns(partial_id="p", active=RUN)[0]
    assert (newest.number, newest.entry_id, newest.working, newest.total) == (3, "p", True, None)
    assert [row.kind for row in newest.rows] == ["sent", "thinking", "writing"]


def test_a_turn_whose_tool_runs_works_and_one_that_was_left_does_not() -> None:
    told = Told()
    told.at(0, TurnStart())
    told.said("a", call(("c", "look", {})), 1, 2)
    told.at(3, ToolExecutionStart(tool_call_id="c", tool_name="look", args={}))
    (turn,) = told.turns(active=RUN)
    assert (turn.working, turn.rows[-1].state) == (True, "running")
    told.workings.nothing_runs()
    (turn,) = told.turns()
    assert (turn.working, turn.rows[-1].state, turn.total) == (False, "waiting", None)


@pytest.mark.parametrize("status", ["done", "aborted", "error"])
def test_a_run_ends_at_its_last_message_and_on_no_other_branch(status: RunStatus) -> None:
    told = two_turns()
    told.over(900, status, "it broke")
    second, first = told.turns()
    assert (second.rows[-1].state, second.rows[-1].reason) == (status, "it broke")
    assert "end" not in [row.kind for row in first.rows]
    (only,) = timeline(told.path[:2], told.workings).turns
    assert "end" not in [row.kind for row in only.rows]


def test_an_interrupted_run_says_so_and_one_that_works_has_no_end() -> None:
    told = Told()
    told.at(0, AgentStart(), TurnStart())
    told.said("a", say("x"), 1, 2)
    assert "end" not in [row.kind for row in told.turns()[0].rows]
    end = told.turns(interrupted=RUN)[0].rows[-1]
    assert (end.kind, end.state, end.at) == ("end", "interrupted", None)


@pytest.mark.parametrize(
    ("reason", "kind"), [("stop", "answers"), ("length", "cut"), ("error", "failed"), ("aborted", "stopped")]
)
def test_how_a_message_ended_is_said(reason: Any, kind: str) -> None:
    told = Told()
    told.said("a", AssistantMessage(content=[TextContent(text="x")], stop_reason=reason), 1, 2)
    assert told.turns()[0].rows[-1].kind == kind


def test_a_clock_that_was_set_back_gives_no_negative_times() -> None:
    told = Told()
    told.at(1000, TurnStart())
    told.said("a", say("x"), 500, 400)
    (turn,) = told.turns()
    assert all((row.at or 0) >= 0 and (row.took or 0) >= 0 for row in turn.rows)


def test_only_the_newest_turns_are_shown_unless_all_are_asked_for() -> None:
    told = Told()
    for number in range(SHOWN_TURNS + 3):
        told.entry(f"m{number}", say("x"))
    short, whole = timeline(told.path, told.workings), timeline(told.path, told.workings, limit=None)
    assert (len(short.turns), short.earlier, short.turns[0].number) == (SHOWN_TURNS, 3, SHOWN_TURNS + 3)
    assert (len(whole.turns), whole.earlier) == (SHOWN_TURNS + 3, 0)


def test_results_go_to_the_newest_message_that_asked_for_them() -> None:
    told = Told()
    for entry_id, failed in (("a", False), ("b", True)):
        told.entry(entry_id, call(("same", "look", {})))
        told.entry(f"r{entry_id}", ToolResultMessage(tool_call_id="same", content=[], is_error=failed))
    second, first = told.turns()
    assert (first.rows[-1].state, second.rows[-1].state) == ("done", "failed")


def test_the_fill_of_the_context_is_drawn_to_the_window() -> None:
    assert fill(0, 100) is None
    known, unknown, over = fill(40, 160), fill(40, None), fill(40, 10)
    assert known is not None and (known.tokens, known.window, known.width) == (40, 160, 25.0)
    assert unknown is not None and (unknown.tokens, unknown.window) == (40, None)
    assert over is not None and over.width == 100.0


# As HTML


@pytest.fixture
def shown(app: Flask) -> Callable[..., Tag]:
    """Renders one of the panels and returns it."""

    def render(partial: str, show: str = "workings", **values: Any) -> Tag:
        given = {"base": "", "tree_base": "/tree", "session_id": "s", "fill": None, "oob": False, **values}
        with app.test_request_context():
            html = app.jinja_env.get_template(f"partials/{partial}.html").render(prefs=Preferences(show=show), **given)
        panel = BeautifulSoup(html, "html.parser").select_one("section#panel")
        assert panel is not None and "style" not in html
        return panel

    return render


def words(node: Tag | None) -> str:
    assert node is not None
    return " ".join(node.get_text(" ").split())


def test_the_panel_names_steps_times_and_rules(shown: Callable[..., Tag]) -> None:
    told = two_turns()
    panel = shown("timeline", timeline=timeline(told.path, told.workings))
    turns = panel.select("article.turn")
    assert [turn["id"] for turn in turns] == ["tl-b", "tl-a"]
    assert words(turns[1].select_one("h2 a")) == "Turn 1"
    assert words(turns[1].select_one("h2 .total")) == "0.24 s"
    rows = turns[1].select("ol > li")
    assert "Model asks 2 tools" in words(rows[2]) and "0.21" in words(rows[2])
    assert "rewritten" in words(rows[3]) and "a-rule" in words(rows[3]) and "12 ms" in words(rows[3])
    assert "blocked" in words(rows[4]) and "because" in words(rows[4])
    assert "Run done" in words(turns[0])


def test_rows_link_to_message_call_and_tree(shown: Callable[..., Tag]) -> None:
    told = two_turns()
    for base in ("", "/sessions/s"):
        panel = shown("timeline", timeline=timeline(told.path, told.workings), base=base)
        hrefs = {link["href"] for link in panel.select("a")}
        around = f"{base}?around=a" if base else ""
        tree = {"/tree?node=a#n-a", "/tree?node=result-c#n-result-c"}
        assert {f"{around}#m-a", f"{around}#c-c"} | tree <= hrefs
    assert panel.select_one("li#tc-c") is not None


def test_unknown_times_show_as_a_dash(shown: Callable[..., Tag]) -> None:
    told = two_turns()
    panel = shown("timeline", timeline=timeline(told.path, Workings()))
    assert [words(node) for node in panel.select(".total")] == ["-", "-"]
    assert "0.00" not in words(panel) and "None" not in words(panel) and not panel.select("rect")
    assert all("-" in words(node) for node in panel.select(".at"))


def test_only_raw_rows_have_numbers_and_the_exact_time(shown: Callable[..., Tag]) -> None:
    told = two_turns()
    steps = timeline(told.path, told.workings)
    assert not shown("timeline", timeline=steps).select(".raw")
    raw = [words(node) for node in shown("timeline", "raw", timeline=steps).select("article#tl-b .raw")]
    assert raw[1] == f"n 14 · seq 114 · 2026-01-02T03:04:05.450Z · {RUN} · b"
    assert all("n -" not in line for line in raw)


def test_the_ruler_says_how_full_the_context_is(shown: Callable[..., Tag]) -> None:
    empty = timeline([], Workings())
    known = shown("timeline", timeline=empty, fill=fill(3140, 8192))
    assert "3,140 of 8,192 tokens (estimated)" in words(known) and known.select_one("svg.ruler .fill") is not None
    unknown = shown("timeline", timeline=empty, fill=fill(3140, None))
    assert "about 3,140 tokens" in words(unknown) and unknown.select_one("svg.ruler") is None


def test_what_a_model_or_a_tool_says_is_no_html(shown: Callable[..., Tag]) -> None:
    told = Told()
    evil = '<img src=x onerror="alert(1)">'
    told.entry("a", AssistantMessage(content=[ToolCall(id=evil, name=evil, arguments={"path": evil})]))
    told.at(0, AgentStart(), MessageEnd(entry_id="a", message=told.path[0].message))  # type: ignore[union-attr]
    told.over(1, "error", evil)
    panel = shown("timeline", timeline=timeline(told.path, told.workings))
    assert not panel.select("img") and words(panel).count("onerror") == 4


def test_a_piece_for_the_stream_says_where_it_goes_and_a_page_does_not(shown: Callable[..., Tag]) -> None:
    empty = timeline([], Workings())
    assert shown("timeline", timeline=empty, oob=True)["hx-swap-oob"] == "true"
    assert "hx-swap-oob" not in shown("timeline", timeline=empty).attrs
    assert shown("tools", tools=[], oob=True)["hx-swap-oob"] == "true"


def test_a_real_session_has_its_timeline(new_app: Callable[..., Flask], shown: Callable[..., Tag]) -> None:
    app = new_app()
    client = app.test_client()
    session_id = say_to(client, "list the files")["sessionId"]
    live = app.extensions["hornbook"].supervisor.open(session_id)
    values = timeline_values(live.snapshot(), everything=False, window=1000)
    newest, first = values["timeline"].turns
    (row,) = [row for row in first.rows if row.kind == "call"]
    assert (row.name, row.main, row.decision, row.rule) == ("list_files", ".", "rewrite", "list-default")
    assert newest.total is not None and newest.rows[-1].state == "done"
    assert "list-default" in words(shown("timeline", **values))


# Tools


def test_each_tool_is_described_with_its_parameters(app: Flask, shown: Callable[..., Tag]) -> None:
    tools = app.extensions["hornbook"].supervisor.equipment.tools
    panel = shown("tools", **tools_values(tools))
    assert [article["id"] for article in panel.select("article.tool")] == [f"tool-{tool.name}" for tool in tools]
    read = panel.select_one("#tool-read_file")
    assert read is not None
    terms = [words(term) for term in read.select("dt")]
    assert terms[0] == "path text · required"
    assert terms[1] == "offset whole number · if left out: 1 · at least 1"
    assert terms[2] == "limit whole number · may be left out · at least 1"
    assert not panel.select("pre")


def test_each_rule_stands_with_its_tool_and_each_hook_has_one(app: Flask, shown: Callable[..., Tag]) -> None:
    tools = app.extensions["hornbook"].supervisor.equipment.tools
    panel = shown("tools", **tools_values(tools))
    for rule in RULES:
        assert panel.select_one(f"#tool-{rule.tool} #rule-{rule.name}") is not None
    decided = {
        hook(ToolCall(id="c", name=rule.tool, arguments=arguments)).rule
        for hook in DEFAULT_HOOKS
        for rule in RULES
        for arguments in ({}, {"name": "secret"})
    }
    assert decided - {""} == {rule.name for rule in RULES} and len(RULES) == len(DEFAULT_HOOKS)


def test_raw_shows_the_schema_as_the_model_gets_it(app: Flask, shown: Callable[..., Tag]) -> None:
    tools = app.extensions["hornbook"].supervisor.equipment.tools
    panel = shown("tools", "raw", **tools_values(tools))
    schemas = [json.loads(pre.get_text()) for pre in panel.select("pre")]
    assert schemas == [tool.spec().parameters for tool in tools]


class Inner(msgspec.Struct):
    x: int


def test_types_are_read_from_any_schema() -> None:
    class Parameters(msgspec.Struct):
        words: list[str]
        level: Any = None
        inner: Inner | None = None
        mixed: int | str = 3
        ratio: float = 0.5

    tool = ToolDefinition("t", "d", Parameters, lambda parameters, context: ToolResult.of_text(""))
    kinds = {parameter.name: parameter.kind for parameter in tool_item(tool).parameters}
    assert kinds["words"].name == "array" and kinds["words"].of is not None and kinds["words"].of.name == "string"
    assert kinds["level"].name == "any"
    assert (kinds["inner"].name, kinds["inner"].nullable) == ("object", True)
    assert kinds["ratio"].name == "number"
    assert kinds["mixed"].name == "any"


def test_the_panels_are_pages(app: Flask) -> None:
    client = app.test_client()
    session_id = say_to(client, "list the files")["sessionId"]
    for name in ("workings", "tools"):
        response = client.get(f"/sessions/{session_id}/{name}")
        assert response.status_code == 200
        assert len(page(response.data).select("section#panel")) == 1
