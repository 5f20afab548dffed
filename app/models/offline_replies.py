"""The offline tutor's answers, built from what its tools returned: a language and facts in, text out."""

import re
from collections.abc import Sequence
from typing import Any

from app.models.offline_context import Step
from app.models.offline_intents import Language
from app.models.offline_prose import headings_of, is_prose, paragraphs_of, sentence_of
from app.models.offline_results import FileView, Line, Listing, Match, Matches
from app.models.offline_words import FAILURES, code, count, say, spoken

MOST_NAMES = 40
MOST_HEADINGS = 12
MOST_FILES = 8
MOST_LINES_A_FILE = 4
BEGINNING = 2
"""Paragraphs that are quoted from the beginning of what was read."""


def names(language: Language, items: Sequence[str], most: int = MOST_NAMES) -> str:
    """Returns names as code, separated by commas, with a count of those that are left out."""
    shown = [code(item) for item in items[:most]]
    if len(items) > most:
        shown.append(say(language, "and_more", count=len(items) - most))
    return ("、" if language == "zh" else ", ").join(shown)


def place(language: Language, folder: str | None) -> str:
    """Returns "the workspace" or "the folder `x`"."""
    if folder in (None, "", "."):
        return say(language, "workspace")
    return say(language, "folder", name=code(folder or ""))


def listing(language: Language, folder: str | None, found: Listing) -> str:
    """Returns what a folder holds: counts, names, and how to go on."""
    where = place(language, folder)
    where = where[:1].upper() + where[1:]
    folders, files = count(language, len(found.folders), "folder"), count(language, len(found.files), "file")
    if found.folders and found.files:
        parts = [say(language, "holds", Place=where, folders=folders, files=files)]
    elif found.folders or found.files:
        parts = [say(language, "holds_one", Place=where, things=folders if found.folders else files)]
    else:
        parts = [say(language, "empty", Place=where)]
    rows = [
        f"- {say(language, key, names=names(language, items))}"
        for key, items in (("folders_are", found.folders), ("files_are", found.files))
        if items
    ]
    parts.extend(["\n".join(rows)] if rows else [])
    parts.extend(say(language, "tool_adds", remark=remark) for remark in found.remarks)
    if found.files:
        parts.append(say(language, "list_next", name=spoken(_prefer_text(found.files))))
    elif found.folders:
        parts.append(say(language, "list_next_folder", name=spoken(found.folders[0])))
    return "\n\n".join(parts)


def _prefer_text(files: Sequence[str]) -> str:
    return next((name for name in files if name.casefold().endswith((".md", ".txt"))), files[0])


def file(language: Language, view: FileView) -> str:
    """Returns what was read of a file: range, headings with their places, the beginning, how to read on."""
    path = code(view.path)
    if not any(line.text.strip() for line in view.lines):
        return say(language, "file_empty", path=path)
    first, last = view.lines[0].number, view.lines[-1].number
    whole = first == 1 and view.next_offset is None
    if whole:
        parts = [say(language, "file_whole", path=path, lines=count(language, last, "line"))]
    else:
        of = say(language, "file_of", total=view.total) if view.total else ""
        parts = [say(language, "file_part", path=path, first=first, last=last, of=of)]
    if headings := headings_of(view) if is_prose(view.path) else []:
        rows = [f"- {line.text} ({_cite(view, line)})" for line in headings[:MOST_HEADINGS]]
        if len(headings) > MOST_HEADINGS:
            rows.append(f"- {say(language, 'and_more', count=len(headings) - MOST_HEADINGS)}")
        parts.append(say(language, "headings") + "\n\n" + "\n".join(rows))
    parts.extend(_beginning(language, view))
    if view.next_offset is not None:
        parts.append(say(language, "more_there", line=view.next_offset))
    elif not whole:
        parts.append(say(language, "file_end"))
    return "\n\n".join(parts)


def _beginning(language: Language, view: FileView) -> list[str]:
    label = say(language, "begins" if view.lines[0].number == 1 else "goes_on")
    if is_prose(view.path):
        quoted = [f"> {sentence_of(line.text)} ({_cite(view, line)})" for line in paragraphs_of(view)[:BEGINNING]]
        return [label + "\n\n" + "\n>\n".join(quoted)] if quoted else []
    lines = [line for line in view.lines if line.text.strip()][: BEGINNING * 3]
    text = "\n".join(line.text for line in lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return [f"{label} ({_cite(view, lines[0])})\n\n{fence}\n{text}\n{fence}"]


def _cite(view: FileView, line: Line) -> str:
    return code(f"{view.path}:{line.number}")


def no_title(language: Language, name: str, files: Sequence[str]) -> str:
    """Returns that no file has such a name, and which are there."""
    parts = [say(language, "no_title", name=name)]
    if files:
        parts.append(say(language, "files_there", names=names(language, files)))
    return "\n\n".join(parts)


def many_titles(language: Language, name: str, files: Sequence[str]) -> str:
    """Returns which files a title may mean."""
    rows = "\n".join(f"- {code(item)}" for item in files[:MOST_FILES])
    return f"{say(language, 'many_titles', name=name, count=len(files))}\n\n{rows}"


def matches(language: Language, query: str, found: Matches) -> str:
    """Returns what a search found, grouped by file, each line with its place."""
    files = found.by_file()
    if not files:
        lead = [say(language, "no_matches", query=query), *_added(language, found)]
        lead.append(say(language, "no_matches_next"))
        return "\n\n".join([*lead, say(language, "examples")])
    head = say(
        language,
        "matches",
        query=query,
        places=count(language, len(found.found), "place"),
        files=count(language, len(files), "file"),
    )
    rows: list[str] = []
    for path, hits in list(files.items())[:MOST_FILES]:
        rows.append(f"- {code(path)}")
        rows.extend(
            f"  - {code(f'{path}:{hit.line}')} {sentence_of(hit.text, 160)}" for hit in hits[:MOST_LINES_A_FILE]
        )
        if len(hits) > MOST_LINES_A_FILE:
            rows.append(f"  - {say(language, 'and_more', count=len(hits) - MOST_LINES_A_FILE)}")
    if len(files) > MOST_FILES:
        rows.append(f"- {say(language, 'and_more', count=len(files) - MOST_FILES)}")
    first = found.found[0]
    going_on = say(language, "search_next", place=spoken(f"{first.path}:{first.line}"))
    return "\n\n".join([head, "\n".join(rows), *_added(language, found), going_on])


def _added(language: Language, found: Matches) -> list[str]:
    return [say(language, "tool_adds", remark=remark) for remark in found.remarks]


def note_written(language: Language, step: Step) -> str:
    """Returns where a note was written and which files its passages are from."""
    place_found = re.search(r"(notes/.+?)(?= \(\d|[.。]?$)", step.text, re.MULTILINE)
    path = place_found[1] if place_found else str(step.arguments.get("name", ""))
    parts = [say(language, "note_written", path=code(path))]
    content = str(step.arguments.get("content", ""))
    # A heading that the learner dictated is no source: those are cited below.
    sources = [name for name in re.findall(r"^## (.+)$", content, re.MULTILINE) if f"(`{name}:" in content]
    if sources:
        parts.append(say(language, "note_from", names=names(language, sources, MOST_FILES)))
    return "\n\n".join(
        [
            " ".join(parts) if language == "en" else "".join(parts),
            say(language, "list_next", name=spoken(path)),
        ]
    )


def note_text(language: Language, title: str, topic: str | None, passages: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """Returns the text of a note: passages by file, each with its place."""
    head = say(language, "note_head", topic=topic) if topic else say(language, "note_head_all")
    parts = [f"# {title}", head if passages else say(language, "note_body_none")]
    for path, lines in passages:
        rows = [f"- {sentence_of(line.text)} (`{path}:{line.number}`)" for line in lines]
        parts.append(f"## {path}\n\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def failure(language: Language, step: Step) -> str:
    """Returns what did not work, why, and what the learner can do next."""
    name = str(step.arguments.get("name") or step.arguments.get("path") or "")
    reason = step.text.strip().split("\n")[0]
    for tool, pattern, what, following in FAILURES:
        if tool in ("", step.name) and re.search(pattern, reason, re.IGNORECASE):
            zh = language == "zh"
            parts = [say(language, "failed", call=code(call_in_words(step)), what=what[zh])]
            if reason:
                parts.append("> " + say(language, "reason", reason=sentence_of(reason, 400)))
            other = re.sub(r"\.\w+$", "", name) + "-2"
            parts.append(following[zh].format(name=spoken(name or "."), other=spoken(other)))
            return "\n\n".join(parts)
    return say(language, "missing_tool", tool=code(step.name))


def call_in_words(step: Step) -> str:
    """Returns a call as it may be shown in a sentence: its name and what it was about."""
    subject: Any = next((step.arguments[key] for key in ("path", "name", "query") if key in step.arguments), None)
    return step.name if subject is None else f"{step.name} {str(subject)[:120]}"


def by_relevance(found: Matches, key: str) -> list[tuple[str, list[Match]]]:
    """Returns the matches of each file: files named after ``key`` first, then by their number; notes last."""

    def rank(item: tuple[str, list[Match]]) -> tuple[bool, bool, int]:
        path, hits = item
        return path.startswith("notes/"), not (key and key in path.casefold()), -len(hits)

    return sorted(found.by_file().items(), key=rank)


def explanation(language: Language, steps: Sequence[Step], found: Matches | None) -> str:
    """Returns how the tutor works, what was done for this very answer, and where the workspace tells more."""
    parts = [say(language, "explain")]
    if steps:
        parts.append(say(language, "explain_seen", calls=names(language, [step.name for step in steps])))
    if found and found.found:
        places = [f"{path}:{hits[0].line}" for path, hits in by_relevance(found, "")[:3]]
        parts.append(say(language, "explain_more", places=names(language, places)))
    return "\n\n".join(parts)


def help_text(language: Language, asked: bool) -> str:
    """Returns what can be asked for; ``asked`` is False when a message was not understood."""
    return "\n\n".join([say(language, "help_asked" if asked else "help_lost"), say(language, "examples")])
