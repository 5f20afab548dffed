"""The offline tutor: what it understands, asks for and answers; that it is pure, well formed, and comes to an end."""

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.models.offline import OfflineModel
from app.models.pieces import clusters, equal_pieces, reading_pieces
from app.protocol.cancel import CancelToken
from app.protocol.estimate import estimate_tokens
from app.protocol.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from app.protocol.model import (
    MessageFold,
    Model,
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolSpec,
    complete,
)

FILES = {
    "README.md": "# The course\n\nWelcome to the course.\nIt has two lessons.\n\n## What is here\n\nLessons.\n",
    "my plan.md": "# Plan\n\nFirst read, then ask.\n",
    "lessons/1-loop.md": (
        "# The loop\n\nThe loop calls the model.\n\n```\n# not a heading\n```\n\nA leaf ends a path.\n"
    ),
    "lessons/2-循环.md": "# 循环\n\n循环调用模型。\n结果回到循环里。\n\n树上有叶子。\n",
    "long.md": "\n".join(["# Long", *(f"Line {number} of the long file." for number in range(2, 31))]) + "\n",
    "tool.py": "# a comment\nprint('```')\n",
}
TOOLS = ("list_files", "read_file", "search_files", "write_note")
PAGE = 12

Tool = Callable[[ToolCall], tuple[str, bool]]


class World:
    """A fake loop around the model: the real tools' texts over files in memory."""

    def __init__(self, tools: tuple[str, ...] = TOOLS, files: dict[str, str] | None = None) -> None:
        self.files = dict(FILES if files is None else files)
        self.messages: list[Message] = []
        self.tools = tools
        self.run: Tool | None = None

    def request(self) -> ModelRequest:
        specs = [ToolSpec(name=name, description=name, parameters={"type": "object"}) for name in self.tools]
        return ModelRequest(system_prompt="Teach.", messages=list(self.messages), tools=specs)

    def ask(self, text: str, turns: int = 6) -> str:
        """Says ``text`` and returns the final answer; fails when there is none within ``turns`` responses."""
        self.messages.append(UserMessage(content=text))
        return self.answer(turns)

    def answer(self, turns: int = 6) -> str:
        for _ in range(turns):
            reply = complete(OfflineModel(), self.request(), CancelToken(), 0)
            self.messages.append(reply)
            calls = tool_calls_of(reply)
            assert reply.stop_reason == ("toolUse" if calls else "stop")
            if not calls:
                return text_of(reply.content)
            for call in calls:
                text, is_error = (self.run or self._run)(call)
                self.messages.append(
                    ToolResultMessage(
                        tool_call_id=call.id,
                        tool_name=call.name,
                        content=[TextContent(text=text)],
                        is_error=is_error,
                    )
                )
        raise AssertionError(f"still asking for tools after {turns} turns")

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns all calls so far."""
        replies = [message for message in self.messages if isinstance(message, AssistantMessage)]
        return [(call.name, call.arguments) for reply in replies for call in tool_calls_of(reply)]

    def _run(self, call: ToolCall) -> tuple[str, bool]:
        arguments = call.arguments
        match call.name:
            case "list_files":
                return self._list(str(arguments.get("path", ".")).strip("/"), arguments.get("recursive", False))
            case "read_file":
                return self._read(arguments["path"], arguments.get("offset", 1), arguments.get("limit"))
            case "search_files":
                return self._search(arguments["query"])
            case _:
                return self._write(arguments["name"], arguments["content"])

    def _list(self, path: str, recursive: bool) -> tuple[str, bool]:
        inside = [name for name in self.files if path == "." or name.startswith(path + "/")]
        if not inside:
            return f'There is no "{path}" in the workspace. list_files shows what there is.', True
        depth = 1 if path == "." else path.count("/") + 2
        folders = {name.rpartition("/")[0] for name in inside if "/" in name and name.count("/") >= depth}
        files = [name for name in inside if recursive or name.count("/") < depth]
        head = f"{path}: {len(folders)} folders, {len(files)} files"
        rows = [f"{name}/" for name in sorted(folders)] + [f"{name} ({len(self.files[name])} bytes)" for name in files]
        return "\n".join([head, *rows]), False

    def _read(self, path: str, offset: int, limit: int | None) -> tuple[str, bool]:
        if path not in self.files:
            return f'There is no "{path}" in the workspace. list_files shows what there is.', True
        lines = self.files[path].split("\n")[:-1]
        shown = lines[offset - 1 :][: min(PAGE, limit or PAGE)]
        last = offset + len(shown) - 1
        rows = [f"{number}: {line}" for number, line in enumerate(shown, offset)]
        if last < len(lines):
            rows.append(f"[Lines {last + 1}-{len(lines)} are not shown. To read on: offset={last + 1}.]")
        return "\n".join([f"{path}, lines {offset}-{last} of {len(lines)}", *rows]), False

    def _search(self, query: str) -> tuple[str, bool]:
        rows = [
            f"{path}:{number}: {line}"
            for path, text in self.files.items()
            for number, line in enumerate(text.split("\n"), 1)
            if query.casefold() in line.casefold()
        ]
        head = f'{len(rows)} matching lines in some files for "{query}"'
        return "\n".join([head, *rows, *([] if rows else ["[Searched: 6 files.]"])]), False

    def _write(self, name: str, content: str) -> tuple[str, bool]:
        path = f"notes/{name}.md"
        if "secret" in name or "秘密" in name:
            return "Blocked: a note whose name contains 'secret' is not written; choose another name", True
        if self.files.get(path, content) != content:
            return f'"{path}" exists already with another text. Nothing was written. Choose another name.', True
        self.files[path] = content
        return f"Saved {path} ({len(content.encode())} bytes).", False


def events(request: ModelRequest, cancel: CancelToken | None = None) -> list[ModelEvent]:
    return list(OfflineModel().stream(request, cancel or CancelToken()))


def test_it_is_a_model_and_says_that_it_is_no_ai() -> None:
    model = OfflineModel()
    assert isinstance(model, Model)
    assert model.name == "Offline tutor: rules, no AI"
    assert (model.id, model.provider, model.api, model.context_window) == ("offline", "hornbook", "rules", 32_000)


@pytest.mark.parametrize(
    "text",
    [
        "list files",
        "List all the files, please.",
        "what files are there?",
        "can you show me the files",
        "ls",
        "列出工作区文件",
        "有哪些文件？",
        "工作区里有哪些文件",
        "请列出所有文件",
        "看看有哪些文件",
    ],
)
def test_a_listing_of_the_workspace_leaves_the_path_out(text: str) -> None:
    world = World()
    answer = world.ask(text)
    assert world.calls() == [("list_files", {})]
    assert "`README.md`" in answer and "`lessons/`" in answer


def test_a_listing_is_summed_up_in_the_language_of_the_question() -> None:
    assert World().ask("list files").startswith("The workspace holds 1 folder and 4 files.")
    assert World().ask("列出文件").startswith("工作区里有 1 个文件夹、4 个文件。")


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("list files in lessons", "lessons"),
        ("list the files in the lessons folder", "lessons"),
        ("list lessons/", "lessons/"),
        ('list files in "lessons"', "lessons"),
        ("what is in lessons/?", "lessons/"),
        ("列出 lessons 文件夹里的文件", "lessons"),
        ("lessons 里有什么文件？", "lessons"),
        ("看看 lessons 里有什么", "lessons"),
        ("列出 lessons 目录", "lessons"),
    ],
)
def test_a_listing_of_a_folder_names_it(text: str, folder: str) -> None:
    world = World()
    answer = world.ask(text)
    assert world.calls() == [("list_files", {"path": folder})]
    assert "lessons/1-loop.md" in answer and "README.md" not in answer


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("read README.md", "README.md"),
        ("Please read the file README.md.", "README.md"),
        ("could you summarize README.md?", "README.md"),
        ("what does README.md say?", "README.md"),
        ('read "my plan.md"', "my plan.md"),
        ("open 'my plan.md'", "my plan.md"),
        ("read lessons/1-loop.md", "lessons/1-loop.md"),
        ("读 README.md", "README.md"),
        ("读README.md", "README.md"),
        ("请读一下 README.md。", "README.md"),
        ("打开“my plan.md”", "my plan.md"),
        ("打开《my plan.md》", "my plan.md"),
        ("读一下 lessons/2-循环.md 的内容", "lessons/2-循环.md"),
        ("README.md 讲了什么？", "README.md"),
    ],
)
def test_a_named_file_is_read(text: str, path: str) -> None:
    world = World()
    answer = world.ask(text)
    assert world.calls() == [("read_file", {"path": path})]
    assert f"`{path}:1`" in answer


def test_a_reading_gives_headings_and_the_beginning_with_their_lines() -> None:
    answer = World().ask("read README.md")
    assert "`README.md` has 8 lines; all of it was read." in answer
    assert "- The course (`README.md:1`)" in answer and "- What is here (`README.md:6`)" in answer
    assert "> Welcome to the course. It has two lessons. (`README.md:3`)" in answer
    zh = World().ask("读 lessons/2-循环.md")
    assert "共 6 行" in zh and "> 循环调用模型。结果回到循环里。 (`lessons/2-循环.md:3`)" in zh


def test_comments_in_code_are_not_headings() -> None:
    assert "not a heading" not in World().ask("read lessons/1-loop.md")
    answer = World().ask("read tool.py")
    assert "headings" not in answer
    assert "````\n# a comment\nprint('```')\n````" in answer


def test_several_files_are_asked_for_in_one_message() -> None:
    world = World()
    answer = world.ask("read README.md and lessons/1-loop.md")
    assert [call[1]["path"] for call in world.calls()] == ["README.md", "lessons/1-loop.md"]
    assert len([message for message in world.messages if isinstance(message, AssistantMessage)]) == 2
    assert "Welcome" in answer and "The loop calls" in answer


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("read long.md from line 5", {"path": "long.md", "offset": 5}),
        ("read long.md lines 5 to 8", {"path": "long.md", "offset": 5, "limit": 4}),
        ("read long.md:5", {"path": "long.md", "offset": 5}),
        ("读 long.md 第 5 到 8 行", {"path": "long.md", "offset": 5, "limit": 4}),
    ],
)
def test_lines_that_are_named_are_asked_for(text: str, arguments: dict[str, Any]) -> None:
    world = World()
    world.ask(text)
    assert world.calls() == [("read_file", arguments)]


@pytest.mark.parametrize(
    ("text", "path"),
    [("open the readme", "README.md"), ("read my plan", "my plan.md"), ("打开 循环", "lessons/2-循环.md")],
)
def test_a_title_is_looked_up_before_it_is_read(text: str, path: str) -> None:
    world = World()
    world.ask(text)
    assert world.calls() == [("list_files", {"path": ".", "recursive": True}), ("read_file", {"path": path})]


def test_a_title_of_none_or_of_several_files_is_said_and_nothing_is_read() -> None:
    world = World()
    assert "“dinosaurs”" in world.ask("read dinosaurs")
    assert "2 files have a name like “lessons md”" in world.ask("open lessons md")
    assert {name for name, _ in world.calls()} == {"list_files"}


@pytest.mark.parametrize(
    ("first", "more", "last_word"),
    [("read long.md", "more", "That is the end"), ("读 long.md", "继续", "文件到此结束")],
)
def test_more_reads_on_to_the_end(first: str, more: str, last_word: str) -> None:
    world = World()
    assert f"`{more}`" in world.ask(first)
    assert "`long.md:13`" in world.ask(more)
    assert last_word in world.ask(more)
    assert [call[1].get("offset") for call in world.calls()] == [None, 13, 25]
    world.ask(more)
    assert len(world.calls()) == 3


def test_continue_takes_up_a_wish_that_was_broken_off() -> None:
    world = World()
    world.messages = [
        UserMessage(content="search for leaf"),
        AssistantMessage(
            content=[ToolCall(id="a", name="search_files", arguments={"query": "leaf"})], stop_reason="toolUse"
        ),
        ToolResultMessage(tool_call_id="a", content="Not run: stopped by a person.", is_error=True),
        AssistantMessage(content="", stop_reason="aborted"),
    ]
    assert "lessons/1-loop.md:9" in world.ask("continue")
    assert "没有可以继续的内容" in world.ask("继续")


@pytest.mark.parametrize(
    ("text", "query", "place"),
    [
        ("search for leaf", "leaf", "lessons/1-loop.md:9"),
        ('Search for the word "leaf"', "leaf", "lessons/1-loop.md:9"),
        ("search the workspace for leaf", "leaf", "lessons/1-loop.md:9"),
        ("find leaf", "leaf", "lessons/1-loop.md:9"),
        ("what is a leaf?", "leaf", "lessons/1-loop.md:9"),
        ("搜索 叶子", "叶子", "lessons/2-循环.md:6"),
        ("搜索叶子", "叶子", "lessons/2-循环.md:6"),
        ("查找“叶子”", "叶子", "lessons/2-循环.md:6"),
        ("什么是叶子？", "叶子", "lessons/2-循环.md:6"),
    ],
)
def test_a_word_is_searched_for_and_the_places_are_given(text: str, query: str, place: str) -> None:
    world = World()
    answer = world.ask(text)
    assert world.calls() == [("search_files", {"query": query})]
    assert f"`{place}`" in answer


def test_matches_are_grouped_by_file_and_counted() -> None:
    answer = World().ask("search for the")
    assert "“the” stands in" in answer
    assert answer.count("\n- `long.md`\n") == 1 and "and 25 more" in answer
    assert "“叶子”出现在 1 个文件里，共 1 处：" in World().ask("搜索 叶子")


def test_a_search_in_a_folder_keeps_to_it() -> None:
    world = World()
    world.ask("search for leaf in lessons/")
    world.ask("在 lessons 里搜索 叶子")
    assert [call[1]["path"] for call in world.calls()] == ["lessons/", "lessons"]


def test_a_search_without_matches_says_what_else_can_be_asked() -> None:
    assert "“dinosaur” stands in no file here." in World().ask("search for dinosaur")
    assert "`搜索 叶子`" in World().ask("搜索 恐龙")


@pytest.mark.parametrize(
    ("text", "query", "path", "passage"),
    [
        ("write a note about the loop", "loop", "lessons/1-loop.md", "The loop calls the model."),
        ("写一个关于循环的笔记", "循环", "lessons/2-循环.md", "循环调用模型。"),
    ],
)
def test_a_note_is_written_from_what_is_searched_and_read_first(text: str, query: str, path: str, passage: str) -> None:
    world = World()
    answer = world.ask(text)
    names = [name for name, _ in world.calls()]
    assert names == ["search_files", "read_file", "write_note"]
    assert world.calls()[0][1] == {"query": query} and world.calls()[1][1] == {"path": path}
    note = world.files[f"notes/{query}.md"]
    assert f"- {passage}" in note.replace("结果回到循环里。", "") and f"`{path}:3`" in note
    assert f"`notes/{query}.md`" in answer and f"`{path}`" in answer


def test_a_note_uses_what_was_read_on_the_branch() -> None:
    world = World()
    world.ask("read lessons/1-loop.md")
    world.ask("write a note about the loop")
    assert [name for name, _ in world.calls()] == ["read_file", "write_note"]


def test_a_note_about_what_was_read_needs_something_read() -> None:
    world = World()
    assert "What should the note be about?" in world.ask("write a note")
    assert "笔记要写什么？" in world.ask("写一篇关于你读过的内容的笔记")
    world.ask("read README.md")
    world.ask("write a note about what you read")
    assert "Welcome to the course." in world.files["notes/what-was-read.md"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("write a note named plan-a about the loop", "plan-a"),
        ('write a note called "plan a" about the loop', "plan a"),
        ("write a note about the loop named plan-a", "plan-a"),
        ("写一篇名为 计划 的关于循环的笔记", "计划"),
        ("写一篇关于循环的名为 计划 的笔记", "计划"),
        ("写一篇关于循环的笔记，名为“计划 一”", "计划 一"),
        ("写一篇名为 循环笔记 的笔记", "循环笔记"),
    ],
)
def test_a_note_gets_the_name_that_was_given(text: str, name: str) -> None:
    world = World()
    world.ask(text)
    assert world.calls()[0][1]["query"] in ("loop", "循环", "循环笔记")
    assert world.calls()[-1][1]["name"] == name


def test_a_name_alone_is_searched_for_and_the_note_is_about_it() -> None:
    world = World()
    world.ask("write a note named leaf")
    assert [name for name, _ in world.calls()] == ["search_files", "read_file", "write_note"]
    note = world.files["notes/leaf.md"]
    assert "Passages about “leaf”" in note and "A leaf ends a path." in note and "calls" not in note


def test_a_given_text_is_written_as_it_is_however_long() -> None:
    world = World()
    long = "buy milk " * 1000
    world.ask(f"write a note named todo: {long}")
    world.ask("记一条笔记：明天复习")
    assert world.files["notes/todo.md"].split() == long.split()
    assert world.files["notes/明天复习.md"] == "明天复习"


def test_headings_of_a_given_text_are_not_called_its_sources() -> None:
    answer = World().ask("write a note named fruit saying: ## Apples\nred")
    assert "notes/fruit.md" in answer and "Apples" not in answer


@pytest.mark.timeout(20)  # a pattern that tries every way to divide these takes years
@pytest.mark.parametrize(
    "text",
    [
        "read a" + " " * 60 + "b.md",
        "wow" + "!" * 60 + " read x.md",
        "search for a" + "\n" * 60 + "b",
        "读a" + "的文件" * 60 + "x",
        "什么是" + "怎么工作的" * 60 + "x",
        "什么是" + "是如何工作的" * 60 + "x",
    ],
)
def test_a_text_that_repeats_itself_is_understood_at_once(text: str) -> None:
    assert World().ask(text)


def test_nothing_is_made_up_for_a_note() -> None:
    world = World()
    assert "no note was written" in world.ask("write a note about dinosaurs")
    assert not [name for name, _ in world.calls() if name == "write_note"]
    world.ask("write a note named dino about dinosaurs")
    assert "No file in the workspace speaks of this yet." in world.files["notes/dino.md"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("write a note named secret-plan about X", ("blocked", "No note was written", "choose another name")),
        ("write a note named secret-plan", ("blocked", "named my-plan")),
        ("写一篇名为 秘密计划 的笔记", ("被阻止", "没有写任何笔记", "换一个名字")),
    ],
)
def test_a_blocked_note_is_explained_and_not_tried_again(text: str, words: tuple[str, ...]) -> None:
    world = World()
    answer = world.ask(text)
    assert [name for name, _ in world.calls()].count("write_note") == 1
    assert all(word in answer for word in words), answer


def test_a_note_that_exists_is_left_and_another_name_offered() -> None:
    world = World(files={**FILES, "notes/loop.md": "mine"})
    assert "named loop-2" in world.ask("write a note named loop about the loop")
    assert world.files["notes/loop.md"] == "mine"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("read nothing.md", ("nothing by that name", "`list files`")),
        ("读 没有.md", ("没有这个名字", "列出工作区文件")),
        ("list files in nowhere", ("nothing by that name", "nowhere")),
    ],
)
def test_what_is_not_there_is_said_with_the_reason(text: str, words: tuple[str, ...]) -> None:
    world = World()
    answer = world.ask(text)
    assert len(world.calls()) == 1
    assert all(word in answer for word in (*words, "There is no")), answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("how do you work", ("no AI", "loop", "`search_files`", "lessons/1-loop.md:1")),
        ("Explain how you work.", ("no AI", "rules")),
        ("are you an AI?", ("no AI",)),
        ("你是怎么工作的？", ("没有 AI", "循环", "lessons/2-循环.md:1")),
        ("你是谁", ("没有 AI",)),
    ],
)
def test_it_explains_itself_honestly(text: str, words: tuple[str, ...]) -> None:
    answer = World().ask(text)
    assert all(word in answer for word in words), answer


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("hello", "`list files`"),
        ("help", "`list files`"),
        ("blargh", "no rule fits"),
        ("", "`list files`"),
        ("你好", "`列出工作区文件`"),
        ("你能做什么？", "`列出工作区文件`"),
        ("今天天气怎么样", "没有对应的规则"),
    ],
)
def test_otherwise_it_says_what_it_can_do(text: str, word: str) -> None:
    world = World()
    assert word in world.ask(text)
    assert world.calls() == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("list files", "list_files"),
        ("read README.md", "read_file"),
        ("搜索 叶子", "search_files"),
        ("write a note about the loop", "write_note"),
    ],
)
def test_a_missing_tool_is_named_and_not_called(text: str, missing: str) -> None:
    world = World(tools=tuple(name for name in TOOLS if name != missing))
    assert f"`{missing}`" in world.ask(text)
    assert missing not in [name for name, _ in world.calls()]


def test_without_tools_it_still_explains_itself() -> None:
    assert "no AI" in World(tools=()).ask("how do you work")


def test_call_ids_are_unique_also_when_the_next_number_is_taken() -> None:
    world = World()
    taken = ToolCall(id="offline-2", name="list_files", arguments={})
    world.messages = [
        UserMessage(content="x"),
        AssistantMessage(content=[taken]),
        ToolResultMessage(tool_call_id="offline-2", content=".: empty"),
        AssistantMessage(content="."),
    ]
    world.ask("read README.md and long.md")
    replies = [message for message in world.messages if isinstance(message, AssistantMessage)]
    ids = [call.id for reply in replies for call in tool_calls_of(reply)]
    assert ids == ["offline-2", "offline-3", "offline-4"]


def test_a_remark_between_call_and_result_changes_nothing_but_one_after_an_answer_is_answered() -> None:
    world = World()
    world.messages = [
        UserMessage(content="list files"),
        AssistantMessage(content=[ToolCall(id="a", name="list_files", arguments={})]),
        CustomMessage(custom_type="note", content="search for leaf"),
        ToolResultMessage(tool_call_id="a", content=".: 0 folders, 1 file\nx.md (3 bytes)"),
    ]
    assert "holds 1 file" in world.answer()
    world.messages.append(CustomMessage(custom_type="nudge", content="search for leaf"))
    assert "lessons/1-loop.md:9" in world.answer()


def test_a_context_without_any_wish_gets_help() -> None:
    world = World()
    world.messages = [CompactionSummaryMessage(summary="list files")]
    assert "`list files`" in world.answer()
    world.messages = [UserMessage(content=[ImageContent(data="AAAA", mime_type="image/png")])]
    assert "`list files`" in world.answer()


REQUESTS = ["list files", "读 long.md", "write a note about the loop", "你是怎么工作的", "search for 👩‍👩‍👧 é"]


@pytest.mark.parametrize("text", REQUESTS)
def test_the_same_request_gives_the_same_events_and_the_fold_is_the_message(text: str) -> None:
    world = World()
    world.ask(text)
    for end in range(1, len(world.messages)):
        world_then = World()
        world_then.messages = world.messages[:end]
        request = world_then.request()
        before = repr(request)
        assert events(request) == events(request)
        assert repr(request) == before
        fold = MessageFold(OfflineModel())
        for event in events(request):
            fold.add(event)
        assert fold.message(7) == complete(OfflineModel(), request, CancelToken(), 7)


def check_form(made: list[ModelEvent]) -> None:
    """Fails unless blocks are opened and closed in order, one at a time, and the deltas rejoin to their content."""
    assert isinstance(made[0], StreamStart) and isinstance(made[-1], StreamDone)
    opened: int | None = None
    next_index, deltas = 0, ""
    for event in made[1:-1]:
        match event:
            case TextStart() | ToolCallStart():
                assert opened is None and event.content_index == next_index
                opened, deltas, next_index = event.content_index, "", next_index + 1
            case TextDelta() | ToolCallDelta():
                assert event.content_index == opened and event.delta
                deltas += event.delta
            case ToolCallEnd():
                assert event.content_index == opened and json.loads(deltas) == event.tool_call.arguments
                opened = None
            case TextEnd():
                assert event.content_index == opened
                opened = None
            case _:
                raise AssertionError(f"unexpected {event}")
    assert opened is None


@pytest.mark.parametrize("text", REQUESTS)
def test_events_are_well_formed(text: str) -> None:
    world = World()
    world.ask(text)
    for end in range(1, len(world.messages)):
        world.messages, all_messages = world.messages[:end], world.messages
        made = events(world.request())
        world.messages = all_messages
        check_form(made)
        message = complete(OfflineModel(), world.request(), CancelToken(), 0)
        done = made[-1]
        assert isinstance(done, StreamDone) and done.usage is not None and done.usage.output > 0
        assert message.usage is not None and message.usage.input >= done.usage.input


@pytest.mark.parametrize("text", ["how do you work", "你是怎么工作的"])
def test_text_comes_in_small_deltas(text: str) -> None:
    world = World(tools=())
    world.messages = [UserMessage(content=text)]
    deltas = [event.delta for event in events(world.request()) if isinstance(event, TextDelta)]
    assert len(deltas) > 20
    for delta in deltas:
        assert len(delta.split()) <= 8 and len(re.findall(r"[\u4e00-\u9fff]", delta)) <= 12, delta


@pytest.mark.parametrize("after", [0, 1, 2, 5, 12])
def test_a_cancelled_response_keeps_what_came_and_ends_as_aborted(after: int) -> None:
    world = World(tools=())
    world.messages = [UserMessage(content="how do you work")]
    whole = events(world.request())
    cancel = CancelToken()
    made: list[ModelEvent] = []
    stream = OfflineModel().stream(world.request(), cancel)
    for _ in range(after):
        made.append(next(stream))
    cancel.cancel("enough")
    made.extend(stream)
    start = [event for event in made if not isinstance(event, StreamError)]
    assert start == whole[: max(1, after)]
    assert isinstance(made[-1], StreamError)
    assert (made[-1].reason, made[-1].error_message) == ("aborted", "enough")


WISHES = [
    "list files",
    "list everything recursively",
    "read README.md",
    "read the loop",
    "more",
    "search for leaf",
    "what is a leaf node?",
    "write a note about the leaf node",
    "write a note named x about it",
    "write a note about README.md",
    "how do you work",
    "写一个关于循环的笔记",
    "打开 循环",
    "什么是循环",
    "继续",
]
RESULT = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        [
            "",
            ".: empty",
            "lessons/\nREADME.md (3 bytes)\nloop.md (4 bytes)",
            "a.md, lines 1-2 of 9\n1: # Loop\n2: leaf node 循环\n[To read on: offset=3.]",
            "a.md:3: a leaf node, 循环, loop",
            "There is no such thing",
        ]
    ),
)


@settings(max_examples=300, deadline=None)
@given(
    wishes=st.lists(st.one_of(st.sampled_from(WISHES), st.text(max_size=60)), min_size=1, max_size=4),
    data=st.data(),
)
def test_whatever_is_said_and_returned_it_stops_asking_for_tools(wishes: list[str], data: st.DataObject) -> None:
    world = World()
    world.run = lambda _: (data.draw(RESULT), data.draw(st.booleans()))
    for wish in wishes:
        world.ask(wish, turns=6)
        check_form(events(world.request()))


@settings(max_examples=100, deadline=None)
@given(wish=st.sampled_from(WISHES), data=st.data())
def test_a_call_that_failed_is_not_made_again_for_the_same_wish(wish: str, data: st.DataObject) -> None:
    world = World()
    world.run = lambda _: (data.draw(RESULT), True)
    world.ask("read README.md")
    begun = len(world.calls())
    world.ask(wish)
    made = [json.dumps(call, sort_keys=True) for call in world.calls()[begun:]]
    assert len(made) == len(set(made))


@given(st.text())
def test_pieces_rejoin_and_split_no_character(text: str) -> None:
    for pieces in (list(reading_pieces(text)), list(equal_pieces(text, 3))):
        assert "".join(pieces) == text
        for piece in pieces[1:]:
            assert unicodedata.category(piece[0]) not in ("Mn", "Me") or piece[0] not in text.strip(piece[0])


@pytest.mark.parametrize("whole", ["e\u0301", "👩‍👩‍👧", "🇫🇷", "👍🏽", "\r\n", "\ud83d\ude00", "각", "☝️"], ids=ascii)
def test_a_character_of_several_code_points_stays_whole(whole: str) -> None:
    assert clusters(f"a{whole}b") == ["a", whole, "b"]
    assert whole in list(equal_pieces(f"a{whole}b", 1))


def test_lone_surrogates_in_a_file_do_not_break_the_answer() -> None:
    world = World(files={"x.md": "# Bad \ud83d name\n\nText \udc00.\n"})
    answer = world.ask("read x.md")
    assert "Bad \ufffd name" in answer
    answer.encode()


def test_tokens_are_estimated_by_script() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcdefgh") == 2
    assert estimate_tokens("循环调用") == 4
    assert estimate_tokens("循环ab") == 3
