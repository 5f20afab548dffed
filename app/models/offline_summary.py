"""The offline tutor's summary of a conversation: what was asked, read, written and answered, taken from the text."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.protocol.dialogue import CALL, FAILED, PERSON, RESULT, TUTOR, Spoken, parse
from app.protocol.estimate import HAN, estimate_tokens
from app.protocol.messages import text_of
from app.protocol.model import ModelRequest

MOST_TOKENS = 2_000
"""How long a summary may be where the request does not say."""
LINE = 160
_HEADINGS = {
    "en": ("Asked", "Read", "Written", "Answered"),
    "zh": ("问过的", "读过的", "写过的", "回答过的"),
}
_FOCUS = {"en": "To be kept above all: ", "zh": "最要紧的："}
_EARLIER = {"en": "- and {} earlier", "zh": "- 以及更早的 {} 项"}
_NOTHING = {"en": "Nothing was asked, read, written or answered.", "zh": "没有提问，没有读写，也没有回答。"}
_EARLIER_LINE = re.compile(r"- (?:and|以及更早的) (\d+) (?:earlier|项)")
_FOCUS_ASKED = "Above all, the learner wants this to be kept: "
_READING, _WRITING = ("read_file", "read"), ("write_note", "write", "edit")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s|\n")
_HAN = re.compile(HAN)


@dataclass
class _List:
    """Items under a heading, oldest first, and how many older ones were dropped."""

    items: list[str] = field(default_factory=list)
    dropped: int = 0

    def add(self, item: str, *, once: bool = False) -> None:
        if item and not (once and item in self.items):
            self.items.append(item)


def summarise(request: ModelRequest) -> str:
    """Returns the summary that a request with the purpose "summary" asks for; never empty.

    What an earlier summary lists comes first. What goes beyond the tokens that the request allows is dropped, the
    oldest first, and counted.
    """
    text = "\n".join(text_of(message.content) for message in request.messages if hasattr(message, "content"))
    speeches = parse(_between(text, "conversation"))
    lists = [_List() for _ in range(4)]
    _take_earlier(lists, _between(text, "earlier-summary"))
    _take(lists, speeches)
    language = _language(speeches, lists)
    focus = _focus(text)
    lead = f"{_FOCUS[language]}{_line(focus)}\n\n" if focus else ""
    most = request.max_tokens or MOST_TOKENS
    while True:
        shown = lead + (_written(lists, language) or _NOTHING[language])
        longest = max(lists, key=lambda one: sum(map(len, one.items)))
        if estimate_tokens(shown) <= most or not longest.items:
            return shown
        # Several at once, since each look at the whole costs its length.
        excess = max(1, len(longest.items) // 8)
        del longest.items[:excess]
        longest.dropped += excess


def _between(text: str, tag: str) -> str:
    """What stands between two tags at the margin; "" without them."""
    _, opened, rest = text.partition(f"<{tag}>\n")
    inner, closed, _ = rest.rpartition(f"\n</{tag}>")
    return inner if opened and closed else ""


def _focus(text: str) -> str:
    task = _between(text, "task")
    return task.rpartition(_FOCUS_ASKED)[2].strip() if _FOCUS_ASKED in task else ""


def _take_earlier(lists: Sequence[_List], summary: str) -> None:
    """Takes over what an earlier summary of ours lists."""
    current: _List | None = None
    for line in summary.split("\n"):
        heading = line.removeprefix("## ") if line.startswith("## ") else ""
        if heading:
            current = next((lists[names.index(heading)] for names in _HEADINGS.values() if heading in names), None)
        elif current is not None and (counted := _EARLIER_LINE.fullmatch(line)):
            current.dropped += int(counted[1])
        elif current is not None and line.startswith("- "):
            current.add(line.removeprefix("- "))


def _take(lists: Sequence[_List], speeches: Iterable[Spoken]) -> None:
    asked, read, written, answered = lists
    answer = ""
    waiting: list[tuple[str, str]] = []
    for spoken in speeches:
        if spoken.who == PERSON:
            answered.add(answer, once=True)
            answer = ""
            asked.add(_line(spoken.text), once=True)
        elif spoken.who == TUTOR:
            answer = _first_sentence(spoken.text)
        elif spoken.who.startswith(CALL):
            waiting.append((spoken.who.removeprefix(CALL), _path(spoken.text)))
        elif spoken.who.startswith(RESULT):
            name = spoken.who.removeprefix(RESULT)
            call = next((one for one in waiting if one[0] == name.removesuffix(FAILED)), None)
            if call is not None:
                waiting.remove(call)
                if not name.endswith(FAILED):
                    _take_file(read, written, *call)
        else:
            answered.add(_first_sentence(spoken.text) if spoken.who.startswith("Summary") else "")
    answered.add(answer, once=True)
    # Without its result it may have been left out of the text, as in the summary of a branch.
    for call in waiting:
        _take_file(read, written, *call)


def _take_file(read: _List, written: _List, name: str, path: str) -> None:
    if name in _READING:
        read.add(path, once=True)
    elif name in _WRITING:
        written.add(path, once=True)


def _path(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return ""
    found = [value.get(key) for key in ("path", "name")] if isinstance(value, dict) else []
    return next((_line(name) for name in found if isinstance(name, str)), "")


def _line(text: str) -> str:
    line = " ".join(text[: LINE * 4].split())
    return line if len(line) <= LINE else line[: LINE - 1].rstrip() + "…"


def _first_sentence(text: str) -> str:
    return next((_line(part) for part in _SENTENCE.split(text) if part.strip("#*-> \t")), "")


def _language(speeches: Iterable[Spoken], lists: Sequence[_List]) -> str:
    """Chinese where the person writes more than a little of it."""
    said = "".join(spoken.text for spoken in speeches if spoken.who == PERSON) or "".join(lists[0].items)
    return "zh" if len(_HAN.findall(said)) * 4 > len(said) else "en"


def _written(lists: Sequence[_List], language: str) -> str:
    return "\n\n".join(
        f"## {heading}\n{chr(10).join(_lines(one, language))}"
        for heading, one in zip(_HEADINGS[language], lists, strict=True)
        if one.items or one.dropped
    )


def _lines(one: _List, language: str) -> Iterator[str]:
    if one.dropped:
        yield _EARLIER[language].format(one.dropped)
    for item in one.items:
        yield f"- {item}"
