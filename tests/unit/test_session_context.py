"""What a model is given at a leaf."""

from app.protocol.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UnknownEntry,
)
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    TextContent,
    UserMessage,
    text_of,
)
from app.sessions.context import Context, build_context

STAMP = "2026-01-02T03:04:05.678Z"
STAMP_MS = 1_767_323_045_678


def user(text: str) -> MessageEntry:
    return MessageEntry(id=text, parent_id=None, timestamp=STAMP, message=UserMessage(content=text))


def assistant(text: str, provider: str | None = None, model: str | None = None) -> MessageEntry:
    message = AssistantMessage(content=[TextContent(text=text)], provider=provider, model=model)
    return MessageEntry(id=text, parent_id=None, timestamp=STAMP, message=message)


def compaction(summary: str, first_kept: str) -> CompactionEntry:
    return CompactionEntry(
        id=summary,
        parent_id=None,
        timestamp=STAMP,
        summary=summary,
        first_kept_entry_id=first_kept,
        tokens_before=7,
    )


def model_change(provider: str, model_id: str) -> ModelChangeEntry:
    return ModelChangeEntry(id=model_id, parent_id=None, timestamp=STAMP, provider=provider, model_id=model_id)


def level(value: str) -> ThinkingLevelChangeEntry:
    return ThinkingLevelChangeEntry(id=value, parent_id=None, timestamp=STAMP, thinking_level=value)


def texts(path: list[Entry]) -> list[str]:
    """Messages as text, summaries marked."""
    shown: list[str] = []
    for message in build_context(path).messages:
        match message:
            case CompactionSummaryMessage() | BranchSummaryMessage():
                shown.append(f"<{message.summary}>")
            case UserMessage() | AssistantMessage() | CustomMessage():
                shown.append(text_of(message.content))
    return shown


def test_an_empty_path_gives_an_empty_context() -> None:
    assert build_context([]) == Context(messages=[], model=None, thinking_level="off")


def test_messages_come_in_order_and_bookkeeping_gives_nothing() -> None:
    path: list[Entry] = [
        user("one"),
        CustomEntry(id="c", parent_id=None, timestamp=STAMP, custom_type="x", data=1),
        LabelEntry(id="l", parent_id=None, timestamp=STAMP, target_id="one", label="x"),
        SessionInfoEntry(id="i", parent_id=None, timestamp=STAMP, name="n"),
        UnknownEntry(id="u", parent_id=None, timestamp=STAMP, type="hologram"),
        assistant("two"),
    ]
    assert texts(path) == ["one", "two"]


def test_shell_commands_are_messages_too() -> None:
    message = BashExecutionMessage(command="ls", exclude_from_context=True)
    path = [MessageEntry(id="b", parent_id=None, timestamp=STAMP, message=message)]
    assert build_context(path).messages == [message], "what a provider is sent is decided by its adapter"


def test_custom_messages_and_branch_summaries_get_the_time_of_their_entry() -> None:
    custom = CustomMessageEntry(
        id="c",
        parent_id=None,
        timestamp=STAMP,
        custom_type="x",
        content="note",
        display=False,
        details={"k": 1},
    )
    summary = BranchSummaryEntry(id="b", parent_id=None, timestamp=STAMP, summary="left", from_id="root")
    assert build_context([custom, summary]).messages == [
        CustomMessage(custom_type="x", content="note", display=False, details={"k": 1}, timestamp=STAMP_MS),
        BranchSummaryMessage(summary="left", from_id="root", timestamp=STAMP_MS),
    ]


def test_an_empty_branch_summary_gives_nothing() -> None:
    assert texts([BranchSummaryEntry(id="b", parent_id=None, timestamp=STAMP, summary="")]) == []


def test_a_time_that_cannot_be_read_is_no_obstacle() -> None:
    entry = BranchSummaryEntry(id="b", parent_id=None, timestamp="yesterday", summary="left")
    assert build_context([entry]).messages == [BranchSummaryMessage(summary="left", timestamp=0)]


def test_a_compaction_comes_first_then_what_it_kept_then_what_followed() -> None:
    path = [user("a"), assistant("b"), user("c"), compaction("sum", "b"), user("d")]
    assert texts(path) == ["<sum>", "b", "c", "d"]
    assert build_context(path).messages[0] == CompactionSummaryMessage(
        summary="sum", tokens_before=7, timestamp=STAMP_MS
    )


def test_only_the_last_compaction_counts() -> None:
    path = [user("a"), compaction("first", "a"), user("b"), user("c"), compaction("second", "b"), user("d")]
    assert texts(path) == ["<second>", "b", "c", "d"]


def test_a_kept_stretch_may_reach_over_an_earlier_compaction_which_itself_gives_nothing() -> None:
    path = [user("a"), user("b"), compaction("first", "b"), user("c"), compaction("second", "b"), user("d")]
    assert texts(path) == ["<second>", "b", "c", "d"]


def test_nothing_is_kept_when_the_first_kept_entry_is_not_before_the_compaction() -> None:
    for first_kept in ("", "elsewhere", "sum", "d"):
        assert texts([user("a"), compaction("sum", first_kept), user("d")]) == ["<sum>", "d"]


def test_the_first_kept_entry_may_be_one_that_gives_no_message() -> None:
    assert texts([user("a"), level("high"), user("b"), compaction("sum", "high")]) == ["<sum>", "b"]


def test_the_model_is_the_last_chosen_or_used() -> None:
    assert build_context([user("a")]).model is None
    assert build_context([model_change("p", "m"), user("a")]).model == ("p", "m")
    assert build_context([model_change("p", "m"), assistant("a", "q", "n")]).model == ("q", "n")
    assert build_context([assistant("a", "q", "n"), model_change("p", "m")]).model == ("p", "m")
    assert build_context([model_change("p", "m"), assistant("a")]).model == ("p", "m"), "no model named"


def test_the_thinking_level_is_the_last_on_the_path_and_off_without_one() -> None:
    assert build_context([user("a")]).thinking_level == "off"
    assert build_context([level("low"), user("a"), level("high")]).thinking_level == "high"


def test_model_and_level_are_found_before_a_compaction() -> None:
    context = build_context([model_change("p", "m"), level("high"), user("a"), compaction("sum", "")])
    assert (context.model, context.thinking_level) == (("p", "m"), "high")
