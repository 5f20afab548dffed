"""The tools that read: list_files and read_file. Search is in search.py."""

from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.protocol.tools import ToolContext, ToolDefinition, ToolError, ToolResult
from app.tools.paths import quoted, split_path
from app.tools.truncate import MAX_BYTES, MAX_LINES, cut_bytes, truncate
from app.tools.workspace import Entry, Workspace

MAX_NAMES = 500
_NOTE_BYTES = 200
"""Kept free for the note at the end of a result."""


class ListFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of list_files."""

    path: Annotated[str, Meta(description="Folder, relative to the workspace.")] = "."
    recursive: Annotated[bool, Meta(description="Also list what is in the folders below.")] = False


class ReadFile(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of read_file."""

    path: Annotated[str, Meta(min_length=1, description="File, relative to the workspace.")]
    offset: Annotated[int, Meta(ge=1, description="First line to read, from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines to read.")] | None = None


def list_files_tool(workspace: Workspace, max_bytes: int = MAX_BYTES) -> ToolDefinition:
    """Returns the tool list_files; a result has at most ``max_bytes`` of UTF-8."""

    def execute(parameters: ListFiles, context: ToolContext) -> ToolResult:
        return _list_files(workspace, max_bytes, parameters, context)

    return ToolDefinition(
        name="list_files",
        description="Lists the files, with sizes, and the folders (they end with a slash) in a folder.",
        parameters=ListFiles,
        execute=execute,
    )


def read_file_tool(workspace: Workspace, max_bytes: int = MAX_BYTES) -> ToolDefinition:
    """Returns the tool read_file; a result has at most ``max_bytes`` of UTF-8."""

    def execute(parameters: ReadFile, _context: ToolContext) -> ToolResult:
        return _read_file(workspace, max_bytes, parameters)

    return ToolDefinition(
        name="read_file",
        description=(
            "Reads a text file of the workspace, with line numbers. Cite what you use as path:line. "
            "Long files come in parts: read on with offset."
        ),
        parameters=ReadFile,
        execute=execute,
    )


def _list_files(workspace: Workspace, max_bytes: int, parameters: ListFiles, context: ToolContext) -> ToolResult:
    listing = workspace.listing(parameters.path)
    source = workspace.walk(parameters.path) if parameters.recursive else iter(listing.entries)
    entries: list[Entry] = []
    for entry in islice(source, MAX_NAMES + 1):
        context.cancel.check()
        entries.append(entry)
    shown = entries[:MAX_NAMES]
    head = f"{listing.path}: {_counted(shown)}" if shown else f"{listing.path}: empty"
    body = truncate("\n".join(map(_listed, shown)), max_bytes=max_bytes - len(head.encode()) - 2 * _NOTE_BYTES)
    if shown and body.truncated:
        shown = shown[: body.shown_lines]
    notes = []
    if len(entries) > len(shown):
        notes.append(f"[Only the first {len(shown)} names are shown. List a folder below, or search with a glob.]")
    if listing.left_out:
        notes.append(f"[Left out: {listing.left_out}. Links out or to nothing, devices, names that cannot be used.]")
    details = {
        "path": listing.path,
        "entries": [_entry_details(entry) for entry in shown],
        "truncated": len(entries) > len(shown),
        "leftOut": listing.left_out,
    }
    return ToolResult.of_text("\n".join([head, *([body.text] if body.text else []), *notes]), details)


def _counted(entries: list[Entry]) -> str:
    folders = sum(entry.kind == "folder" for entry in entries)
    files = len(entries) - folders
    return f"{folders} folder{'' if folders == 1 else 's'}, {files} file{'' if files == 1 else 's'}"


def _listed(entry: Entry) -> str:
    return f"{entry.path}/" if entry.kind == "folder" else f"{entry.path} ({entry.size} bytes)"


def _entry_details(entry: Entry) -> dict[str, Any]:
    return {"path": entry.path, "kind": entry.kind, "size": entry.size}


def text_lines(text: str) -> list[str]:
    """Returns the lines of a text as people count them: a newline at the end begins no further line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _read_file(workspace: Workspace, max_bytes: int, parameters: ReadFile) -> ToolResult:
    path = "/".join(split_path(parameters.path)) or "."
    lines = text_lines(workspace.read_text(path))
    total, first = len(lines), parameters.offset
    if first > max(1, total):
        raise ToolError(f"{quoted(path)} has {_lines(total)}; offset {first} is past the end.")
    if not lines:
        return ToolResult.of_text(f"{path}, empty", _range_details(path, 1, 0, 0))
    wanted = lines[first - 1 :][: parameters.limit]
    numbered = "\n".join(f"{number}: {line}" for number, line in enumerate(wanted, first))
    head_bytes = len(f"{path}, lines {total}-{total} of {total}\n".encode())
    room = max(1, max_bytes - head_bytes - _NOTE_BYTES)
    body = truncate(numbered, max_lines=MAX_LINES - 2, max_bytes=room)
    text, notes = body.text, []
    last = first + body.shown_lines - 1
    if body.first_line_exceeds_limit:
        text, last = cut_bytes(numbered.split("\n", 1)[0], room), first
        size = len(wanted[0].encode())
        notes.append(f"[Line {first} is {size} bytes long; only its beginning is shown.]")
    if last < total:
        notes.append(f"[Lines {last + 1}-{total} are not shown. To read on: offset={last + 1}.]")
    head = f"{path}, lines {first}-{last} of {total}"
    details = _range_details(path, first, last, total)
    return ToolResult.of_text("\n".join([head, text, *notes]), details)


def _lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"


def _range_details(path: str, first: int, last: int, total: int) -> dict[str, Any]:
    """Which lines were read; the text itself is in the result already and would be stored twice."""
    return {
        "path": path,
        "firstLine": first,
        "lastLine": last,
        "totalLines": total,
        "nextOffset": last + 1 if last < total else None,
    }
