"""How the offline tutor writes a note: from what was read on this branch; else it searches and reads."""

import re
from collections.abc import Sequence

from app.models import offline_replies as replies
from app.models.offline_desk import Desk, Turn, Wanted
from app.models.offline_intents import WriteNote
from app.models.offline_names import core_of, file_names, keywords_of
from app.models.offline_prose import is_heading, paragraphs_of, speaks_of
from app.models.offline_results import FileView, Line, Match, Matches, matches_of

MOST_LINES_A_FILE = 6
MOST_FILES = 4
UNDER_A_HEADING = 3
"""Lines taken below a heading that names the topic."""

FAR_DOWN = 150
"""A first match below this line is read from shortly before it, not from the top of the file."""

Passages = list[tuple[str, list[Line]]]


def next_turn(intent: WriteNote, desk: Desk) -> Turn:
    """Returns the next turn on the way to a note, or the answer when it is written or cannot be."""
    if written := desk.first("write_note"):
        reply = replies.failure if written.is_error else replies.note_written
        return Turn(reply(desk.language, written))
    if not desk.has("write_note"):
        return desk.missing("write_note")
    if intent.text is not None:
        return _write(desk, intent.name or slug(intent.topic or intent.text[:40]), intent.text)
    topic = intent.topic if intent.topic and core_of(intent.topic) else None
    if topic is None:
        return _about_all(intent, desk)
    if files := file_names(topic):
        return _about_file(intent, files[0], desk)
    return _about_topic(intent, topic, desk, keywords_of(topic))


def slug(text: str) -> str:
    """Returns a name for a note made of words in any script; "note" when there are none."""
    words = re.findall(r"\w+", text.casefold())
    return "-".join(words)[:50].strip("-_") or "note"


def _write(desk: Desk, name: str, content: str) -> Turn:
    return Turn(desk.say("writing", name=name), (Wanted("write_note", {"name": name, "content": content}),))


def _write_passages(desk: Desk, intent: WriteNote, topic: str | None, passages: Passages) -> Turn:
    title = topic or intent.name or desk.say("note_title_all")
    text = replies.note_text(desk.language, title[:1].upper() + title[1:], topic, passages)
    return _write(desk, intent.name or slug(title), text)


def _about_all(intent: WriteNote, desk: Desk) -> Turn:
    # What is read for this very note is about its name, not about all.
    views = desk.views(desk.history)
    passages = _merged([(view.path, paragraphs_of(view)[:UNDER_A_HEADING]) for view in views])
    if passages:
        return _write_passages(desk, intent, None, passages)
    words = core_of(re.sub(r"[-_./]+", " ", intent.name or ""))
    return _about_topic(intent, words, desk, keywords_of(words)[:1]) if words else Turn(desk.say("note_no_topic"))


def _about_file(intent: WriteNote, path: str, desk: Desk) -> Turn:
    views = [view for view in desk.views((*desk.history, *desk.steps)) if view.path == path]
    if not views:
        if failed := desk.first("read_file"):
            return Turn(desk.read_reply(failed))
        names = replies.names(desk.language, [path])
        return Turn(desk.say("reading", names=names), (Wanted("read_file", {"path": path}),))
    lines = [line for view in views for line in paragraphs_of(view)[: 2 * MOST_LINES_A_FILE]]
    return _write_passages(desk, intent, path, _merged([(path, lines)]))


def _about_topic(intent: WriteNote, topic: str, desk: Desk, keys: Sequence[str]) -> Turn:
    known = (*desk.history, *desk.steps)
    if passages := passages_about(keys, desk.views(known)):
        return _write_passages(desk, intent, topic, passages)
    searches = [step for step in known if step.name == "search_files" and not step.is_error]
    for key in keys[:2]:
        done = [step for step in searches if str(step.arguments.get("query", "")).casefold() == key]
        # A search finds letters inside words too; a note is about a word.
        hits = [hit for step in done for hit in matches_of(step.text).found if speaks_of(key, hit.text)]
        if hits:
            return _from_hits(intent, topic, replies.by_relevance(Matches(hits, []), key), desk)
        if not done and desk.has("search_files"):
            if failed := desk.search(key):
                return Turn(replies.failure(desk.language, failed))
            text = desk.say("searching", query=key) if desk.steps else desk.say("gathering", query=topic)
            return Turn(text, (Wanted("search_files", {"query": key}),))
    if intent.name:
        # It was named, so it is wanted; it says honestly that there is nothing.
        return _write_passages(desk, intent, topic, [])
    return Turn(desk.say("note_nothing", topic=topic))


def _from_hits(intent: WriteNote, topic: str, by_file: list[tuple[str, list[Match]]], desk: Desk) -> Turn:
    """Reads the most fitting file; when that has been tried, the matches themselves must do."""
    if desk.has("read_file") and not desk.first("read_file"):
        path, hits = by_file[0]
        line = hits[0].line
        arguments = {"path": path} if line <= FAR_DOWN else {"path": path, "offset": line - 20}
        names = replies.names(desk.language, [path])
        return Turn(desk.say("reading", names=names), (Wanted("read_file", arguments),))
    lines = [(path, [Line(hit.line, hit.text) for hit in found]) for path, found in by_file]
    return _write_passages(desk, intent, topic, _merged(lines))


def passages_about(keys: Sequence[str], views: Sequence[FileView]) -> Passages:
    """Returns the lines of ``views`` that speak of the first of ``keys`` that any of them speaks of."""
    for key in keys:
        passages = _merged([(view.path, _lines_about(key, view)) for view in views])
        if passages:
            return passages
    return []


def _lines_about(key: str, view: FileView) -> list[Line]:
    found: list[Line] = []
    below = 0
    for line in paragraphs_of(view, keep_headings=True):
        named = speaks_of(key, line.text)
        if is_heading(line):
            below = UNDER_A_HEADING if named else 0
        elif named or below:
            found.append(line)
            below = max(0, below - 1)
    return found


def _merged(found: Sequence[tuple[str, Sequence[Line]]]) -> Passages:
    """Joins the lines of each file, each line once, and keeps as many as a note bears."""
    files: dict[str, dict[int, Line]] = {}
    for path, lines in found:
        for line in lines:
            files.setdefault(path, {}).setdefault(line.number, line)
    kept = list(files.items())[:MOST_FILES]
    return [(path, [lines[number] for number in sorted(lines)][: 2 * MOST_LINES_A_FILE]) for path, lines in kept]
