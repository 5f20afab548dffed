"""A tool call as a page shows it: its state, whether it is a row of its own, and where what it read stands."""

import json
import re
from typing import Any

import pytest

from app.protocol.messages import ImageContent, TextContent, ToolCall, ToolResultMessage
from app.runs.workings import CallFacts, Workings
from app.web.calls import CallItem, call_item, calls_item, main_argument, passage_of, pretty, pretty_json
from tests.support import call, say

HOSTILE = "\"><script>alert(1)</script>\u202e\n'"


def asked(name: str = "read_file", **arguments: Any) -> ToolCall:
    return ToolCall(id="c1", name=name, arguments=arguments)


def answered(text: str = "seen", details: Any = None, *, is_error: bool = False) -> tuple[str, ToolResultMessage]:
    message = ToolResultMessage(tool_call_id="c1", content=[TextContent(text=text)], details=details, is_error=is_error)
    return "r1", message


def facts(**more: Any) -> CallFacts:
    return CallFacts("c1", "read_file", "a1", **more)


def lines(first: Any, last: Any, total: Any, path: Any = "a.md") -> dict[str, Any]:
    return {"path": path, "firstLine": first, "lastLine": last, "totalLines": total}


FAILED = answered(is_error=True)


@pytest.mark.parametrize(
    ("answer", "known", "state"),
    [
        (None, None, "waiting"),
        (None, facts(), "waiting"),
        (None, facts(running=True), "running"),
        (answered(), None, "done"),
        (answered(), facts(decision="allow"), "done"),
        (answered(), facts(running=True), "done"),
        (FAILED, None, "failed"),
        (FAILED, facts(decision="allow"), "failed"),
        (FAILED, facts(decision="block"), "blocked"),
        (None, facts(decision="block"), "waiting"),
    ],
)
def test_the_state_of_a_call_is_told_by_its_result_and_its_events(answer: Any, known: Any, state: str) -> None:
    assert call_item(asked(), answer, known).state == state


@pytest.mark.parametrize(
    ("name", "answer", "known", "acts"),
    [
        ("read_file", answered(), None, False),
        ("list_files", None, facts(running=True), False),
        ("search_files", answered(), facts(decision="allow"), False),
        ("write_note", None, None, True),
        ("write_note", answered(), facts(decision="allow"), True),
        ("READ_FILE", answered(), None, True),
        ("read_file ", answered(), None, True),
        ("read_file", FAILED, None, True),
        ("read_file", FAILED, facts(decision="block"), True),
        ("read_file", answered(), facts(decision="confirm"), True),
        ("list_files", answered(), facts(decision="rewrite", args_before={}, args_after={"path": "."}), True),
        ("list_files", None, facts(decision="rewrite", args_before={}, args_after={"path": "."}), True),
    ],
)
def test_only_a_call_that_looked_without_ado_is_quiet(name: str, answer: Any, known: Any, acts: bool) -> None:
    assert call_item(asked(name), answer, known).acts is acts


def test_arguments_that_a_rule_changed_are_shown_before_and_after() -> None:
    known = facts(decision="rewrite", rule="r", reason="why", args_before={}, args_after={"path": "b.md"})
    item = call_item(asked(path="a.md"), answered(details={"path": "b.md"}), known)
    assert (json.loads(item.before), json.loads(item.after)) == ({"path": "a.md"}, {"path": "b.md"})
    assert (item.main, item.decision, item.rule, item.reason) == ("b.md", "rewrite", "r", "why")
    assert item.url == "/files/b.md", "it leads to what was read, not to what was asked for"


def test_arguments_that_ran_as_they_were_sent_are_shown_once() -> None:
    for known in (None, facts(decision="allow"), facts(decision="allow", args_after={"path": "a.md"})):
        item = call_item(asked(path="a.md"), answered(), known)
        assert (item.after, json.loads(item.before)) == ("", {"path": "a.md"})


def test_a_blocked_call_is_blocked_whatever_was_rewritten_before() -> None:
    item = call_item(
        asked("write_note"), FAILED, facts(decision="block", rule="secret-notes", args_after={"name": "x"})
    )
    assert (item.state, item.decision, item.rule, item.url) == ("blocked", "block", "secret-notes", "")


@pytest.mark.parametrize(
    ("name", "details", "url"),
    [
        ("read_file", lines(41, 52, 90), "/files/a.md?lines=41-52#L41"),
        ("read_file", lines(7, 7, 90), "/files/a.md?lines=7#L7"),
        ("read_file", lines(1, 90, 90), "/files/a.md"),
        ("read_file", lines(1, 0, 0), "/files/a.md"),
        ("read_file", lines("1", None, 9), "/files/a.md"),
        ("read_file", lines(2, 3, 9, "课 1/#a?b.md"), "/files/%E8%AF%BE%201/%23a%3Fb.md?lines=2-3#L2"),
        ("read_file", lines(2, 3, 9, "javascript:alert(1)"), "/files/javascript%3Aalert%281%29?lines=2-3#L2"),
        ("read_file", lines(2, 3, 9, "//evil.example/x"), "/files/evil.example/x?lines=2-3#L2"),
        ("read_file", {"path": 5}, "/files/asked.md"),
        ("read_file", None, "/files/asked.md"),
        ("read_file", ["no", "object"], "/files/asked.md"),
        ("list_files", {"path": "."}, "/files/"),
        ("write_note", {"path": "notes/n.md"}, "/files/notes/n.md"),
        ("search_files", {"path": "a.md"}, ""),
        ("other", {"path": "a.md"}, ""),
    ],
)
def test_a_call_leads_to_the_file_and_the_lines_that_it_is_about(name: str, details: Any, url: str) -> None:
    assert call_item(asked(name, path="asked.md"), answered(details=details), None).url == url


def test_a_call_that_failed_or_has_no_result_leads_nowhere() -> None:
    for answer in (None, answered(details=lines(1, 2, 9), is_error=True)):
        assert call_item(asked(path="a.md"), answer, None).url == ""
    assert call_item(asked("list_files", path=["no text"]), answered(), None).url == ""


def test_a_passage_is_what_read_file_has_read() -> None:
    found = passage_of(asked(), answered(details=lines(41, 52, 90, "w/r.md"))[1])
    assert found is not None
    assert (found.path, found.url, found.lines) == ("w/r.md", "/files/w/r.md?lines=41-52#L41", "41-52")
    whole = passage_of(asked(), answered(details=lines(1, 9, 9))[1])
    assert whole is not None and (whole.lines, whole.url) == ("", "/files/a.md")
    one = passage_of(asked(), answered(details=lines(3, 3, 9))[1])
    assert one is not None and one.url == "/files/a.md?lines=3#L3"
    assert passage_of(asked("list_files"), answered(details={"path": "a"})[1]) is None
    assert passage_of(asked(), answered(details=lines(1, 2, 9), is_error=True)[1]) is None
    assert passage_of(asked(path="a.md"), answered()[1]) is None, "no details tell what was read"


@pytest.mark.parametrize(("count", "cut"), [(0, False), (4_000, False), (4_001, True), (100_000, True)])
def test_a_long_result_is_cut_and_says_so(count: int, cut: bool) -> None:
    item = call_item(asked(), answered("水" * count), None)
    assert (item.text, item.cut, item.size) == ("水" * min(count, 4_000), cut, 3 * count)
    assert len(item.head) <= 4_000


def test_the_head_of_a_result_is_its_first_three_lines_and_pictures_are_left_out() -> None:
    assert call_item(asked(), answered("1\n2\n3\n4"), None).head == "1\n2\n3"
    message = ToolResultMessage(tool_call_id="c1", content=[ImageContent(data="QUJD", mime_type="image/png")])
    item = call_item(asked(), ("r1", message), None)
    assert (item.text, item.size, item.state) == ("", 0, "done")


def test_output_of_a_running_call_is_shown_until_its_result_is_there() -> None:
    known = facts(running=True, partial="half", duration_ms=12)
    assert call_item(asked(), None, known).partial == "half"
    done = call_item(asked(), answered(), known)
    assert (done.partial, done.milliseconds, done.result_entry) == ("", 12, "r1")


def test_any_name_or_id_gives_a_safe_anchor_and_one_line() -> None:
    item = call_item(ToolCall(id=HOSTILE, name=HOSTILE, arguments={"path": HOSTILE}), None, None)
    assert re.fullmatch(r"c-[A-Za-z0-9_-]+", item.id) and re.fullmatch(r"tc-[A-Za-z0-9_-]+", item.timeline_id)
    other = call_item(ToolCall(id=HOSTILE + " ", name="x", arguments={}), None, None)
    assert other.id != item.id
    assert item.name == HOSTILE, "it is escaped where it is shown, not changed"
    assert "\n" not in item.main and "\u202e" not in item.main and "<script>" in item.main
    assert json.loads(item.before) == {"path": HOSTILE}


def test_the_main_argument_is_the_first_text_of_those_that_tell_most() -> None:
    assert main_argument({"text": "t", "query": "q", "path": "p"}) == "p"
    assert main_argument({"path": 5, "query": ["q"], "name": "n"}) == "n"
    assert main_argument({"other": "x"}) == main_argument({}) == ""
    assert len(main_argument({"query": "x" * 1_000})) == 100


def test_json_is_shown_with_every_letter_and_what_is_no_json_as_it_is() -> None:
    assert pretty({"水": ["é", 1]}) == '{\n  "水": [\n    "é",\n    1\n  ]\n}'
    assert pretty_json('{"水":1}'.encode()) == '{\n  "水": 1\n}'
    assert pretty_json(b"{broken \xff") == "{broken \ufffd"
    deep = b"[" * 100_000
    assert pretty_json(deep) == deep.decode()


def calls_of(*items: tuple[str, str, dict[str, Any]], done: str = "") -> Any:
    """The calls of a message; those whose id is in ``done`` have a result."""
    results = {one: (f"r-{one}", answered()[1]) for one, _, _ in items if one in done}
    return calls_item("a1", call(*items), results, Workings())


def ids(calls: list[CallItem]) -> list[str]:
    return [one.id for one in calls]


def test_a_message_without_calls_has_no_line() -> None:
    assert calls_item("a1", say("hello"), {}, Workings()) is None


def test_of_a_message_quiet_calls_share_a_line_and_others_are_rows() -> None:
    found = calls_of(("x", "list_files", {}), ("y", "write_note", {}), ("z", "read_file", {}), done="xyz")
    assert (ids(found.quiet), ids(found.shown)) == (["c-x", "c-z"], ["c-y"])
    assert found.lead.id == "c-z", "reading a file says more than listing a folder"
    assert (found.id, found.working, found.milliseconds) == ("k-a1", False, None)
    first = calls_of(("x", "search_files", {}), ("y", "list_files", {}), done="y")
    assert (first.lead.id, first.working) == ("c-x", True)
    alone = calls_of(("y", "write_note", {}))
    assert (alone.lead, alone.working) == (None, False)


def test_the_time_of_quiet_calls_is_their_sum_as_far_as_it_is_known() -> None:
    workings = Workings()
    workings.calls = {
        ("a1", one): CallFacts(one, name, "a1", duration_ms=took)
        for one, name, took in (("x", "read_file", 5), ("y", "read_file", None), ("z", "write_note", 99))
    }
    message = call(("x", "read_file", {}), ("y", "read_file", {}), ("z", "write_note", {}))
    found = calls_item("a1", message, {}, workings)
    assert found is not None and found.milliseconds == 5
    other = calls_item("another", message, {}, workings)
    assert other is not None and other.milliseconds is None, "another message may ask by the same id"
