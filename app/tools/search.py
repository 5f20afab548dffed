"""The tool search_files: words or a pattern, line by line, in the text files of the workspace."""

import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from app.protocol.tools import ToolContext, ToolDefinition, ToolError, ToolResult
from app.tools.files import text_lines
from app.tools.globs import Glob
from app.tools.paths import quoted, split_path
from app.tools.truncate import MAX_BYTES, truncate
from app.tools.workspace import Entry, Workspace

MAX_MATCHES = 100
MAX_LINE = 500
"""Characters of a matching line that are shown."""

MAX_PATTERN = 1000
REGEX_SECONDS = 2.0
"""For all matching of one search together; a pattern can be written that would never end."""

_BEFORE_MATCH = 100
_NOTE_BYTES = 300

Finder = Callable[[str], int | None]
"""Takes a line and returns where in it the first match begins, or None."""


class SearchFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of search_files."""

    query: Annotated[str, Meta(min_length=1, description="Text to find in a line; case is ignored.")]
    regex: Annotated[bool, Meta(description="The query is a regular expression.")] = False
    glob: Annotated[
        str,
        Meta(min_length=1, description='Which files, relative to path, such as "*.md" or "unit1/**/*.txt".'),
    ] = "**/*"
    path: Annotated[str, Meta(description="Folder or file to search, relative to the workspace.")] = "."


@dataclass
class _Found:
    matches: list[tuple[str, int, str]] = field(default_factory=list)
    more: bool = False
    searched: int = 0
    unreadable: list[str] = field(default_factory=list)


def search_files_tool(workspace: Workspace, max_bytes: int = MAX_BYTES) -> ToolDefinition:
    """Returns the tool search_files; a result has at most ``max_bytes`` of UTF-8."""

    def execute(parameters: SearchFiles, context: ToolContext) -> ToolResult:
        found = _search(workspace, parameters, context)
        return _result(parameters, found, max_bytes)

    return ToolDefinition(
        name="search_files",
        description="Finds the lines that hold a text in the files of the workspace, as path:line: text.",
        parameters=SearchFiles,
        execute=execute,
    )


def _search(workspace: Workspace, parameters: SearchFiles, context: ToolContext) -> _Found:
    find = _regex_finder(parameters.query) if parameters.regex else _literal_finder(parameters.query)
    glob = Glob(parameters.glob)
    base = "/".join(split_path(parameters.path))
    found = _Found()
    for entry in workspace.walk_text_files(parameters.path):
        context.cancel.check()
        if entry.path != base and not glob.matches(entry.path.removeprefix(f"{base}/" if base else "")):
            continue
        _search_file(workspace, entry, find, found, named=entry.path == base)
        if found.more:
            break
    return found


def _search_file(workspace: Workspace, entry: Entry, find: Finder, found: _Found, *, named: bool) -> None:
    try:
        text = workspace.read_text(entry.path)
    except ToolError:
        if named:
            raise
        found.unreadable.append(entry.path)
        return
    found.searched += 1
    for number, line in enumerate(text_lines(text), 1):
        place = find(line)
        if place is None:
            continue
        if len(found.matches) == MAX_MATCHES:
            found.more = True
            return
        found.matches.append((entry.path, number, _excerpt(line, place)))


def _literal_finder(query: str) -> Finder:
    if not query.strip():
        raise ToolError("The query is blank. Give a word or a phrase to search for.")
    if "\n" in query or "\r" in query:
        raise ToolError("The query holds a line break, and files are searched line by line. Search for one line.")
    wanted = _folded(query)

    def find(line: str) -> int | None:
        place = _folded(line).find(wanted)
        return None if place < 0 else place

    return find


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _regex_finder(query: str) -> Finder:
    if len(query) > MAX_PATTERN:
        raise ToolError(f"The pattern is longer than {MAX_PATTERN} characters. Use a shorter one.")
    # The standard re module knows no time limit. Imported here, since most searches do without.
    import regex

    try:
        pattern = regex.compile(query, regex.IGNORECASE)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ToolError(
            f"{quoted(query)} is not a valid regular expression: {error}. "
            "Correct it, or search for plain text with regex=false."
        ) from error
    left = REGEX_SECONDS

    def find(line: str) -> int | None:
        nonlocal left
        began = time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            match = pattern.search(line, timeout=left, concurrent=True)
        except (TimeoutError, MemoryError) as error:
            raise ToolError(
                f"The search was given up: the pattern {quoted(query)} takes longer than "
                f"{REGEX_SECONDS:g} seconds. Use a simpler pattern, plain text with regex=false, "
                "or a narrower path or glob."
            ) from error
        left -= time.monotonic() - began
        return None if match is None else int(match.start())

    return find


def _excerpt(line: str, place: int) -> str:
    """Returns at most 500 characters of ``line``, with the match, which begins at ``place``, among them."""
    if len(line) <= MAX_LINE:
        return line
    start = 0 if place <= MAX_LINE - _BEFORE_MATCH else min(place - _BEFORE_MATCH, len(line) - MAX_LINE + 1)
    piece = line[start : start + MAX_LINE]
    before, after = start > 0, start + len(piece) < len(line)
    kept = piece[before : len(piece) - after]
    return f"{'…' if before else ''}{kept}{'…' if after else ''}"


def _result(parameters: SearchFiles, found: _Found, max_bytes: int) -> ToolResult:
    query = quoted(parameters.query)
    lines = [f"{path}:{number}: {text}" for path, number, text in found.matches]
    body = truncate("\n".join(lines), max_bytes=max(1, max_bytes - len(query.encode()) - _NOTE_BYTES))
    shown = found.matches[: body.shown_lines]
    count, files = len(shown), len({path for path, _, _ in shown})
    head = f"{_count(count, 'matching line')} in {_count(files, 'file')} for {query}"
    more = found.more or len(shown) < len(found.matches)
    notes = [f"[Searched: {_count(found.searched, 'file')}.]"] if not shown else []
    if more:
        notes.append("[There are more. Use a longer query, or a narrower path or glob.]")
    if found.unreadable:
        notes.append(f"[Not searched, since not UTF-8 text or too large: {_count(len(found.unreadable), 'file')}.]")
    details = {
        "query": parameters.query,
        "matches": [{"path": path, "line": number} for path, number, _ in shown],
        "truncated": more,
        "unreadable": found.unreadable[:20],
    }
    return ToolResult.of_text("\n".join([head, *([body.text] if body.text else []), *notes]), details)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
