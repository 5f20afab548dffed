"""The offline tutor's summary of a conversation: what was asked, read, written and answered, taken from the text.

It is a list under each heading, so that it can be read back: nothing that an earlier summary lists is lost by the next.
What another model wrote in its own way is kept sentence by sentence under a heading of its own.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from app.protocol.dialogue import (
    CALL,
    CONVERSATION,
    EARLIER,
    FAILED,
    FILES_READ,
    FILES_WRITTEN,
    FOCUS,
    PERSON,
    RESULT,
    SUMMARY,
    TASK,
    TUTOR,
    Spoken,
    parse,
    section_of,
)
from app.protocol.estimate import HAN, estimate_tokens
from app.protocol.messages import text_of
from app.protocol.model import ModelRequest

MOST_TOKENS = 2_000
"""How long a summary may be where the request does not say."""
LINE = 160
_HEADINGS = {
    "en": ("Earlier", "Asked", "Read", "Written", "Answered"),
    "zh": ("之前的", "问过的", "读过的", "写过的", "回答过的"),
}
_FOCUS = {"en": "To be kept above all: ", "zh": "最要紧的："}
_DROPPED = {"en": "- and {} earlier", "zh": "- 以及更早的 {} 项"}
_NOTHING = {"en": "Nothing was asked, read, written or answered.", "zh": "没有提问，没有读写，也没有回答。"}
_DROPPED_LINE = re.compile(r"- (?:and|以及更早的) (\d+) (?:earlier|项)")
_READING, _WRITING = ("read_file", "read"), ("write_note", "write", "edit")
_SENTENCE = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
_MARKS = re.compile(r"\s*(?:#+\s+|>\s*|[-*+]\s+|\d{1,9}[.)]\s+)*")
_QUOTED = re.compile("`([^`]+)`")
_NO_WORDS = "#*->_= \t"
_HAN = re.compile(HAN)


@dataclass
class _List:
    """Items under a heading, oldest first, and how many older ones were dropped."""

    items: list[str] = field(default_factory=list)
    dropped: int = 0

    def add(self, item: str) -> None:
        if item and item not in self.items:
            self.items.append(item)


@dataclass
class _Summary:
    """What a summary says: a line for what matters most, and its lists."""

    earlier: _List = field(default_factory=_List)
    asked: _List = field(default_factory=_List)
    read: _List = field(default_factory=_List)
    written: _List = field(default_factory=_List)
    answered: _List = field(default_factory=_List)
    focus: str = ""

    @property
    def lists(self) -> tuple[_List, ...]:
        """In the order of the headings."""
        return self.earlier, self.asked, self.read, self.written, self.answered


def summarise(request: ModelRequest) -> str:
    """Returns the summary that a request with the purpose "summary" asks for; never empty.

    What an earlier summary lists comes first. What goes beyond the tokens that the request allows is dropped, the
    oldest first, and counted.
    """
    text = "\n".join(text_of(message.content) for message in request.messages if hasattr(message, "content"))
    speeches = parse(section_of(text, CONVERSATION))
    summary = _Summary()
    for spoken in parse(section_of(text, EARLIER)):
        _take_summary(summary, spoken.text)
    _take(summary, speeches)
    language = _language(speeches, summary)
    most = request.max_tokens or MOST_TOKENS
    # A character is a token at most, so this leaves three quarters for the lists.
    focus = (_focus(section_of(text, TASK)) or summary.focus)[: most // 4]
    lead = f"{_FOCUS[language]}{focus}\n\n" if focus else ""
    while True:
        shown = lead + (_shown(summary, language) or _NOTHING[language])
        longest = max(summary.lists, key=lambda one: sum(map(len, one.items)))
        if estimate_tokens(shown) <= most or not longest.items:
            return shown
        # Several at once, since each look at the whole costs its length.
        excess = max(1, len(longest.items) // 8)
        del longest.items[:excess]
        longest.dropped += excess


def _focus(task: str) -> str:
    _, asked, focus = task.rpartition(FOCUS)
    return _line(focus) if asked else ""


def _take_summary(summary: _Summary, text: str) -> None:
    """Takes over what another summary says: one of ours list by list, of any other each sentence but its headings."""
    current: _List | None = None
    for line in text.split("\n"):
        focus = next((line.removeprefix(lead) for lead in _FOCUS.values() if line.startswith(lead)), "")
        if focus and current is None:
            summary.focus = summary.focus or focus
        elif line.startswith("#"):
            current = _list_under(summary, line)
        elif current is not None and (counted := _DROPPED_LINE.fullmatch(line)):
            current.dropped += int(counted[1])
        elif current is not None and line.startswith("- "):
            current.add(line.removeprefix("- "))
        elif line.startswith((FILES_READ, FILES_WRITTEN)):
            files = summary.read if line.startswith(FILES_READ) else summary.written
            for name in _QUOTED.findall(line):
                files.add(_line(name))
        elif line not in _NOTHING.values():
            for sentence in _sentences(line):
                summary.earlier.add(sentence)


def _list_under(summary: _Summary, heading: str) -> _List | None:
    name = heading.removeprefix("## ")
    return next((summary.lists[names.index(name)] for names in _HEADINGS.values() if name in names), None)


def _take(summary: _Summary, speeches: Iterable[Spoken]) -> None:
    asked, read, written, answered = summary.asked, summary.read, summary.written, summary.answered
    answer = ""
    waiting: list[tuple[str, str]] = []
    for spoken in speeches:
        if spoken.who == PERSON:
            answered.add(answer)
            answer = ""
            asked.add(_line(spoken.text))
        elif spoken.who == TUTOR:
            answer = next(_sentences(spoken.text), "")
        elif spoken.who.startswith(CALL):
            waiting.append((spoken.who.removeprefix(CALL), _path(spoken.text)))
        elif spoken.who.startswith(RESULT):
            name = spoken.who.removeprefix(RESULT)
            call = next((one for one in waiting if one[0] == name.removesuffix(FAILED)), None)
            if call is not None:
                waiting.remove(call)
                if not name.endswith(FAILED):
                    _take_file(read, written, *call)
        elif spoken.who == SUMMARY:
            _take_summary(summary, spoken.text)
    answered.add(answer)
    # Without its result it may have been left out of the text, as in the summary of a branch.
    for call in waiting:
        _take_file(read, written, *call)


def _take_file(read: _List, written: _List, name: str, path: str) -> None:
    if name in _READING:
        read.add(path)
    elif name in _WRITING:
        written.add(path)


def _path(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return ""
    found = [value.get(key) for key in ("path", "name")] if isinstance(value, dict) else []
    return next((_line(name) for name in found if isinstance(name, str)), "")


def _line(text: str) -> str:
    line = " ".join(text.lstrip()[: LINE * 4].split())
    return line if len(line) <= LINE else line[: LINE - 1].rstrip() + "…"


def _sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a text as lines, without the marks of headings, lists and quotes before them."""
    for line in text.split("\n"):
        for part in _SENTENCE.split(_MARKS.sub("", line, count=1)):
            if part.strip(_NO_WORDS):
                yield _line(part)


def _language(speeches: Iterable[Spoken], summary: _Summary) -> str:
    """Chinese where the person writes more than a little of it."""
    said = "".join(spoken.text for spoken in speeches if spoken.who == PERSON) or "".join(
        (*summary.asked.items, *summary.earlier.items)
    )
    return "zh" if len(_HAN.findall(said)) * 4 > len(said) else "en"


def _shown(summary: _Summary, language: str) -> str:
    return "\n\n".join(
        f"## {heading}\n{chr(10).join(_lines(one, language))}"
        for heading, one in zip(_HEADINGS[language], summary.lists, strict=True)
        if one.items or one.dropped
    )


def _lines(one: _List, language: str) -> Iterator[str]:
    if one.dropped:
        yield _DROPPED[language].format(one.dropped)
    for item in one.items:
        yield f"- {item}"
