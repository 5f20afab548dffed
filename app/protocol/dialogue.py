"""A conversation as plain text, in which a model is given it to be summarised and not to be carried on.

Each speech is a line that says who speaks, at the margin, and below it what was said, indented: no text can pass for
the beginning of another speech, nor for the end of the section that it stands in. ``parse`` reads it back.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.protocol.codec import clean_text, encode_line
from app.protocol.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

PERSON = "Person"
TUTOR = "Tutor"
THINKING = "Tutor, thinking"
CALL = "Tutor asks for "
RESULT = "Result of "
FAILED = ", failed"
SHELL = "Shell"
NOTE = "Note"
SUMMARY = "Summary of what came before"

CONVERSATION = "conversation"
EARLIER = "earlier-summary"
TASK = "task"
FOCUS = "Above all, the learner wants this to be kept: "
"""The sections of a request for a summary, and how its task names what matters most."""
FILES_READ = "Files read: "
FILES_WRITTEN = "Files written: "
"""How the lines at the end of a summary begin that name the files which were used."""

RESULT_CHARACTERS = 2_000
"""How much of a tool's result is told: what it was about, and not all of a file."""
MOST_OF_A_NAME = 100
"""How much of a tool's name is told: a model may ask for one of any length."""
_INDENT = "  "


@dataclass(frozen=True)
class Spoken:
    """One speech: who speaks (one of the names above, of a call or a result with its tool), and what."""

    who: str
    text: str


def serialise(speeches: Iterable[Spoken]) -> str:
    """Returns speeches as text."""
    return "\n".join(
        "\n".join([f"[{spoken.who}]", *(_INDENT + line for line in spoken.text.split("\n"))]) for spoken in speeches
    )


def parse(text: str) -> list[Spoken]:
    """Returns the speeches of a text that ``serialise`` made; lines before the first are left out."""
    found: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if line.startswith("[") and line.endswith("]"):
            found.append((line[1:-1], []))
        elif found:
            found[-1][1].append(line.removeprefix(_INDENT))
    return [Spoken(who, "\n".join(lines)) for who, lines in found]


def section(tag: str, text: str) -> str:
    """Returns a text between two tags, each a line of its own at the margin."""
    return f"<{tag}>\n{text}\n</{tag}>"


def section_of(text: str, tag: str) -> str:
    """Returns what stands in the first section of that name, "" where there is none."""
    lines = text.split("\n")
    try:
        begin = lines.index(f"<{tag}>") + 1
        return "\n".join(lines[begin : lines.index(f"</{tag}>", begin)])
    except ValueError:
        return ""


def spoken_of(message: Message) -> list[Spoken]:
    """Returns what a message says, one after another; nothing for an empty one.

    Results of tools are shortened, images only named, and what a person keeps from the model is left out.
    """
    return [
        Spoken(who, clean_text(text).replace("\r\n", "\n").replace("\r", "\n"))
        for who, text in _parts(message)
        if text.strip()
    ]


def _parts(message: Message) -> Iterator[tuple[str, str]]:
    match message:
        case UserMessage():
            yield PERSON, _text(message.content)
        case AssistantMessage():
            yield from _tutor(message)
        case ToolResultMessage():
            who = f"{RESULT}{_name(message.tool_name)}{FAILED if message.is_error else ''}"
            yield who, shortened(_text(message.content), RESULT_CHARACTERS) or "(nothing)"
        case BashExecutionMessage():
            if not message.exclude_from_context:
                yield SHELL, f"$ {message.command}\n{shortened(message.output, RESULT_CHARACTERS)}"
        case CustomMessage():
            yield NOTE, _text(message.content)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            yield SUMMARY, message.summary


def _tutor(message: AssistantMessage) -> Iterator[tuple[str, str]]:
    blocks = [TextContent(text=message.content)] if isinstance(message.content, str) else message.content
    for block in blocks:
        match block:
            case TextContent():
                yield TUTOR, block.text
            case ThinkingContent() if not block.redacted:
                yield THINKING, block.thinking
            case ToolCall():
                yield f"{CALL}{_name(block.name)}", encode_line(block.arguments).decode()
            case _:
                pass


def _text(content: "str | Iterable[object]") -> str:
    if isinstance(content, str):
        return content
    texts = []
    for block in content:
        if isinstance(block, TextContent):
            texts.append(block.text)
        elif isinstance(block, ImageContent):
            texts.append("(an image)")
    return "\n".join(texts)


def shortened(text: str, most: int) -> str:
    """Returns the beginning of a text with a note of how many characters are left out; the text if it is short."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n({len(text) - most} more characters are left out here)"


def _name(tool: str) -> str:
    """A tool's name as a part of a line that ends with its bracket."""
    return " ".join(clean_text(tool[:MOST_OF_A_NAME]).replace("]", ")").split())
