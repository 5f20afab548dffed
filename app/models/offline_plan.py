"""What the offline tutor does next: a sentence, or tools that it asks for. One planner for each intent."""

from typing import Any, NamedTuple

from app.models import offline_intents as intents
from app.models import offline_notes as notes
from app.models import offline_replies as replies
from app.models.offline_context import Asked, Situation, situation_of
from app.models.offline_desk import Desk, Turn, Wanted
from app.models.offline_names import files_like, is_folder, keywords_of
from app.models.offline_results import listing_of, matches_of
from app.models.offline_rules import understand
from app.protocol.model import ModelRequest

MOST_TOOL_TURNS = 5
"""Responses with tool calls for one wish; no plan needs more than four."""


class Plan(NamedTuple):
    """What is done next, and the ids of calls that are taken already."""

    turn: Turn
    call_ids: list[str]


def plan(request: ModelRequest) -> Plan:
    """Returns what comes next in a conversation: a pure function of the request."""
    situation = situation_of(request.messages)
    resumed = _resumed(situation)
    language = understand(situation.now.text).language
    desk = Desk(
        language,
        tuple(resumed.now.steps),
        tuple(resumed.history),
        frozenset(tool.name for tool in request.tools),
    )
    turn = _next(understand(resumed.now.text).intent, desk)
    return Plan(_permitted(turn, desk, situation.now.tool_turns), situation.call_ids)


def _resumed(situation: Situation) -> Situation:
    """Returns the situation in which "continue" after a broken-off answer means the wish that it was for."""
    now, before = situation.now, situation.before
    while isinstance(understand(now.text).intent, intents.ReadOn) and before:
        last = before[-1]
        if last.finished or not last.text.strip():
            break
        # What was stopped is tried again; what had a result is not.
        done = [step for step in last.steps if not step.is_error]
        now, before = Asked(last.text, done + now.steps), before[:-1]
    return Situation(now, before, situation.call_ids)


def _permitted(turn: Turn, desk: Desk, tool_turns: int) -> Turn:
    """Turns calls into words where they lead nowhere: tool missing, same call failed, too many turns."""
    for call in turn.calls:
        if call.name not in desk.tools:
            return desk.missing(call.name)
        failed = [step for step in desk.steps if step.is_error and step.name == call.name]
        if same := [step for step in failed if step.arguments == call.arguments]:
            return Turn(replies.failure(desk.language, same[0]))
    if turn.calls and tool_turns >= MOST_TOOL_TURNS:
        return Turn(desk.say("enough", count=tool_turns))
    return turn


def _next(intent: intents.Intent, desk: Desk) -> Turn:
    match intent:
        case intents.ListFiles():
            return _list(intent, desk)
        case intents.ReadFiles():
            return _read(intent, desk)
        case intents.Search():
            return _search(intent, desk)
        case intents.WriteNote():
            return notes.next_turn(intent, desk)
        case intents.ExplainYourself():
            return _explain(desk)
        case intents.ReadOn():
            return _read_on(desk)
        case intents.Help():
            return Turn(replies.help_text(desk.language, intent.asked))


def _list(intent: intents.ListFiles, desk: Desk) -> Turn:
    step = desk.first("list_files")
    if step is None:
        # Without a folder the path is left out, as a careless model would: a permission rule puts it right.
        arguments: dict[str, Any] = {} if intent.folder is None else {"path": intent.folder}
        if intent.recursive:
            arguments["recursive"] = True
        where = replies.place(desk.language, intent.folder)
        return Turn(desk.say("listing", place=where), (Wanted("list_files", arguments),))
    if step.is_error:
        return Turn(replies.failure(desk.language, step))
    return Turn(replies.listing(desk.language, intent.folder, listing_of(step.text)))


def _read(intent: intents.ReadFiles, desk: Desk) -> Turn:
    if desk.first("read_file"):
        return Turn("\n\n".join(map(desk.read_reply, desk.all("read_file"))))
    if intent.exact:
        return _ask_to_read(intent, list(intent.names), desk)
    title = intent.names[0]
    listed = desk.first("list_files")
    if listed is None and desk.has("list_files"):
        wanted = Wanted("list_files", {"path": ".", "recursive": True})
        return Turn(desk.say("looking_up", name=title), (wanted,))
    if listed is None or listed.is_error:
        return _ask_to_read(intent, [title], desk)
    there = listing_of(listed.text)
    if folder := next((name for name in there.folders if is_folder(title, name)), None):
        return Turn(replies.listing(desk.language, folder.rstrip("/"), there.inside(folder)))
    files = there.files
    like = files_like(title, files)
    if not like:
        return Turn(replies.no_title(desk.language, title, files))
    if len(like) > 1:
        return Turn(replies.many_titles(desk.language, title, like))
    return _ask_to_read(intent, like, desk)


def _ask_to_read(intent: intents.ReadFiles, paths: list[str], desk: Desk) -> Turn:
    lines = {"offset": intent.offset, "limit": intent.limit}
    lines = {key: value for key, value in lines.items() if value is not None}
    calls = tuple(Wanted("read_file", {"path": path, **lines}) for path in paths)
    return Turn(desk.say("reading", names=replies.names(desk.language, paths)), calls)


def _read_on(desk: Desk) -> Turn:
    if step := desk.first("read_file"):
        return Turn(desk.read_reply(step))
    seen: set[str] = set()
    for view in reversed(desk.views(desk.history)):
        if view.path not in seen and view.next_offset is not None:
            wanted = Wanted("read_file", {"path": view.path, "offset": view.next_offset})
            names = replies.names(desk.language, [view.path])
            return Turn(desk.say("reading_on", names=names, line=view.next_offset), (wanted,))
        seen.add(view.path)
    return Turn(desk.say("nothing_to_go_on"))


def _search(intent: intents.Search, desk: Desk) -> Turn:
    queries = [intent.query]
    if intent.asked:
        queries += [word for word in keywords_of(intent.asked)[:2] if word != intent.query.casefold()][:1]
    for query in queries:
        step = desk.search(query)
        if step is None:
            where = {} if intent.path is None else {"path": intent.path}
            wanted = Wanted("search_files", {"query": query, **where})
            return Turn(desk.say("searching", query=query), (wanted,))
        if step.is_error:
            return Turn(replies.failure(desk.language, step))
        found = matches_of(step.text)
        if found.found:
            return Turn(replies.matches(desk.language, query, found))
    return Turn(replies.matches(desk.language, intent.query, matches_of("")))


def _explain(desk: Desk) -> Turn:
    step = desk.first("search_files")
    if step is None and desk.has("search_files"):
        wanted = Wanted("search_files", {"query": desk.say("loop_word")})
        return Turn(desk.say("explaining"), (wanted,))
    found = matches_of(step.text) if step and not step.is_error else None
    return Turn(replies.explanation(desk.language, desk.steps, found))
