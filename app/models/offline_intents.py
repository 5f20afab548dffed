"""What the offline tutor can be asked for, and how each wish is made of a matched sentence.

Each maker gets the match of a row of the table in ``offline_rules`` and returns the intent, or None when the
sentence means something else, so that later rows are tried.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from app.models.offline_names import core_of, file_names, line_range, places, strip_quotes, tidy

Language = Literal["en", "zh"]


@dataclass(frozen=True)
class ListFiles:
    """What is in the workspace, or in one folder of it (None: the whole)."""

    folder: str | None = None
    recursive: bool = False


@dataclass(frozen=True)
class ReadFiles:
    """Read these. ``exact`` names are paths, others titles to be looked up. Lines if they were given."""

    names: tuple[str, ...]
    exact: bool
    offset: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Search:
    """Where a text stands. ``asked``: the whole topic of a question, for a second try with its main word."""

    query: str
    path: str | None = None
    asked: str = ""


@dataclass(frozen=True)
class WriteNote:
    """A note: about a topic, with a name, with a given text; each may be missing."""

    topic: str | None = None
    name: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class ExplainYourself:
    """How the tutor works, and what it is."""


@dataclass(frozen=True)
class ReadOn:
    """Go on with what was begun."""


@dataclass(frozen=True)
class Help:
    """What can be asked for; ``asked`` is False when the text was not understood."""

    asked: bool = False


Intent = ListFiles | ReadFiles | Search | WriteNote | ExplainYourself | ReadOn | Help
Build = Callable[["re.Match[str]"], Intent | None]


def listing(found: "re.Match[str]") -> Intent | None:
    """Groups folder, or mid and rest: a listing; not when a file is named."""
    parts = found.groupdict()
    rest = f"{parts.get('mid') or ''} {parts.get('rest') or ''}"
    folders = places(rest)
    if parts.get("folder"):
        folders = [name] if (name := tidy(parts["folder"])) else []
    if len(folders) > 1 or any(_has_extension(name) for name in folders):
        return None
    return ListFiles(folders[0] if folders else None, _RECURSIVE.search(found.string) is not None)


def listing_of_folder(found: "re.Match[str]") -> Intent | None:
    """Group folder: a listing when it ends as a folder does."""
    return listing(found) if found["folder"].rstrip().endswith("/") else None


_RECURSIVE = re.compile(
    r"recursiv|sub-?folders|sub-?director|everything|whole tree|all levels|递归|子文件夹|子目录|各级",
    re.I,
)


def _has_extension(name: str) -> bool:
    return re.search(r"\w\.[A-Za-z]\w{0,9}$", name) is not None


def reading(found: "re.Match[str]") -> Intent | None:
    """Group rest: the files that it names by path or in quotes."""
    offset, limit = line_range(found["rest"])
    names = file_names(found["rest"])
    return ReadFiles(names, True, offset, limit) if names else None


def reading_any(found: "re.Match[str]") -> Intent | None:
    """Group rest: the files that it names, else a title to be looked up."""
    title = tidy(found["rest"])
    return reading(found) or (ReadFiles((title,), False) if title else None)


def search(found: "re.Match[str]") -> Intent | None:
    """Groups query and maybe path: a search."""
    query, path = found["query"], found.groupdict().get("path")
    if path is None and (inside := _IN_PATH.search(query)):
        query, path = query[: inside.start()], inside["path"]
    query = strip_quotes(" ".join(_IN_WORKSPACE.sub("", query).split()))
    return Search(query, tidy(path) or None if path else None) if query else None


_IN_PATH = re.compile(r"\s+(?:in|inside|under|within)\s+(?:the\s+)?(?P<path>\S+/\S*|\S+\.[A-Za-z]\w{0,9})$", re.I)
_IN_WORKSPACE = re.compile(
    r"\s+(?:in|inside|within|across)\s+(?:all\s+)?(?:the\s+|my\s+)?"
    r"(?:files?|workspace|course|lessons?|notes|folder|material|text)$",
    re.I,
)


def question(found: "re.Match[str]") -> Intent | None:
    """Group topic: a search for what a question is about."""
    asked = tidy(found["topic"])
    query = core_of(asked)
    return Search(query, None, asked) if query else None


def note(found: "re.Match[str]") -> Intent:
    """Groups rest and maybe topic: a note, in English words."""
    rest = found["rest"].strip()
    topic, name, text = found.groupdict().get("topic"), None, None
    if said := _NOTE_TEXT.search(rest):
        rest, text = rest[: said.start()], said["text"].strip()
    if named := _NOTE_NAME.search(rest):
        name = strip_quotes(named["quoted"] or named["name"])
        rest = f"{rest[: named.start()]} {rest[named.end() :]}"
    if topic is None and (about := _NOTE_TOPIC.search(rest)):
        topic = about["topic"]
    return WriteNote(tidy(topic or "") or None, name or None, text or None)


def note_zh(found: "re.Match[str]") -> Intent:
    """Groups mid (before the word for note) and rest: a note, in Chinese words."""
    mid, rest = found["mid"].strip(), found["rest"].strip()
    name, text = None, None
    if said := _NOTE_TEXT_ZH.search(rest):
        rest, text = rest[: said.start()], said["text"].strip()
    topics = []
    for part in (mid, rest):
        if named := _NOTE_NAME_ZH.search(part):
            name = name or strip_quotes(named["quoted"] or named["name"])
            part = f"{part[: named.start()]} {part[named.end() :]}"
        if about := _NOTE_TOPIC_ZH.search(part):
            topics.append(about["topic"])
        elif part is mid or (part.strip() and found["mid"].strip() == part.strip()):
            topics.append(part)
    topic = next((plain for topic in topics if (plain := re.sub(r"的+$", "", tidy(topic)).strip())), None)
    return WriteNote(topic, name or None, text or None)


_QUOTED = r"[\"'“‘「『《`](?P<quoted>[^\"'”’」』》`]+)[\"'”’」』》`]"
_NOTE_TEXT = re.compile(
    r"(?:\b(?:saying|that says|which says|with (?:the )?(?:text|content|words))\b\s*:?|^:|(?<=\S):\s)"
    r"\s*(?P<text>.+)$",
    re.I | re.S,
)
_NOTE_NAME = re.compile(
    rf"\b(?:named|called|titled|with (?:the )?(?:name|title)|name[d]?:)\s*(?:{_QUOTED}|(?P<name>.+?))"
    r"(?=\s+(?:about|regarding|on|summari[sz]ing|explaining|from|in)\b|\s*[,;，；]|\s*$)",
    re.I,
)
_NOTE_TOPIC = re.compile(
    r"\b(?:about|regarding|concerning|on|of|summari[sz]ing|explaining|describing|for)\s+(?P<topic>.+)", re.I
)
_NOTE_TEXT_ZH = re.compile(r"(?:内容(?:是|为)?[:：]?|写着|写上|^[:：]|(?<=\S)[:：])\s*(?P<text>.+)$", re.S)
_NOTE_NAME_ZH = re.compile(
    r"(?:名为|名叫|命名为|叫做|叫作|叫|取名为?|名字(?:是|为|叫)|标题(?:是|为)|名称(?:是|为))\s*"
    rf"(?:{_QUOTED}|(?P<name>.+?))\s*(?=的?\s*(?:关于|有关)|的?\s*$|[,，;；。])"
)
_NOTE_TOPIC_ZH = re.compile(r"(?:关于|有关|主题(?:是|为)|介绍|讲述?|总结|解释)\s*(?P<topic>.+)")
