"""The tool write_note, and the writing itself: into the notes folder only, whole or not at all, once."""

import errno
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from app.protocol.codec import clean_text
from app.protocol.tools import Effect, ToolContext, ToolDefinition, ToolError, ToolResult
from app.tools.folders import Folder, explained
from app.tools.paths import quoted, split_path
from app.tools.workspace import MAX_FILE_BYTES, Workspace

FOLDER = "notes"
_ENDINGS = (".md", ".txt")


class WriteNote(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of write_note."""

    name: Annotated[
        str,
        Meta(min_length=1, description='Name of the note, in any script; ".md" is added if there is no ending.'),
    ]
    content: Annotated[str, Meta(description="The whole text of the note, in Markdown.")]


@dataclass(frozen=True)
class Note:
    """A note on disk: its path in the workspace, its size in bytes and the SHA-256 of its bytes in hex."""

    path: str
    size: int
    sha256: str


def write_note_tool(workspace: Workspace) -> ToolDefinition:
    """Returns the tool write_note."""

    def execute(parameters: WriteNote, context: ToolContext) -> ToolResult:
        note = write_note(workspace, parameters.name, parameters.content, context.before_effect)
        # Only what follows from the arguments, so that a call redone after a crash gives the same result.
        return ToolResult.of_text(
            f"Saved {note.path} ({note.size} bytes).",
            {"path": note.path, "bytes": note.size, "sha256": note.sha256},
        )

    return ToolDefinition(
        name="write_note",
        description="Saves a new note for the learner in the folder notes. Never changes an existing note.",
        parameters=WriteNote,
        execute=execute,
    )


def note_path(name: str) -> str:
    """Returns the path in the workspace of the note ``name``: "notes/" and ".md" are added unless given.

    Raises ToolError when it cannot be the name of a note.
    """
    names = split_path(name)
    if names[:1] == (FOLDER,) and len(names) > 1:
        names = names[1:]
    if not names or name.endswith("/"):
        raise ToolError('A note needs a name, such as "fractions.md".')
    ending = os.path.splitext(names[-1])[1]
    if not ending:
        names = (*names[:-1], names[-1] + ".md")
    elif ending.casefold() not in _ENDINGS:
        raise ToolError(
            f"A note cannot end in {quoted(ending)}: only .md and .txt are notes. "
            f"Use for example {quoted(names[-1] + '.md')}."
        )
    path = "/".join((FOLDER, *names))
    split_path(path)
    return path


def write_note(workspace: Workspace, name: str, content: str, before_effect: Callable[[Effect], bool]) -> Note:
    """Writes ``content`` as the note ``name`` unless it is there already, and returns the note.

    ``before_effect`` is called right before the change and may say that it was made before (see ToolContext).
    Raises ToolError when a note of that name holds another text, and when the note cannot be written; then
    nothing is left behind.
    """
    path = note_path(name)
    data = clean_text(content).encode()
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"The note is larger than {MAX_FILE_BYTES} bytes. Split it into several.")
    note = Note(path, len(data), hashlib.sha256(data).hexdigest())
    with explained(path):
        before = _hash_on_disk(workspace, path)
    if _is_there(note, before):
        return note
    if before_effect(Effect(target=path, before=before, after=note.sha256)):
        with workspace.write_lock, explained(path):
            _create(workspace, note, data)
    return note


def _is_there(note: Note, sha256_on_disk: str) -> bool:
    """Says whether the note is on disk; raises ToolError when another one is in its place."""
    if sha256_on_disk in ("", note.sha256):
        return sha256_on_disk != ""
    raise ToolError(
        f"{quoted(note.path)} exists already with another text, and overwriting it needs a person's "
        "confirmation, which this version cannot ask for. Nothing was written. Choose another name."
    )


def _hash_on_disk(workspace: Workspace, path: str) -> str:
    """Returns the SHA-256 of the file at ``path``, which no link leads to, or "" when there is none."""
    *parents, name = path.split("/")
    try:
        with workspace.open_folder(tuple(parents)) as folder:
            return _hash_in(folder, name)
    except FileNotFoundError:
        return ""


def _hash_in(folder: Folder, name: str) -> str:
    with os.fdopen(folder.open_file(name), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _create(workspace: Workspace, note: Note, data: bytes) -> None:
    *parents, name = note.path.split("/")
    # The same call names its temporary file the same, so that one left by a crash is cleared away when it is
    # redone.
    label = hashlib.sha256(f"{note.path}\n{note.sha256}".encode()).hexdigest()[:24]
    temporary = f".hornbook-{label}.tmp"
    with workspace.open_folder(tuple(parents), "make") as folder:
        folder.remove(temporary)
        try:
            _write_file(folder, temporary, data)
            if not _appeared(folder, note, name):
                folder.rename(temporary, name)
        finally:
            with suppress(OSError):
                folder.remove(temporary)
        folder.sync()


def _appeared(folder: Folder, note: Note, name: str) -> bool:
    """Says whether the note has come there meanwhile; renaming would replace what a person has just saved."""
    try:
        return _is_there(note, _hash_in(folder, name))
    except FileNotFoundError:
        return False


def _write_file(folder: Folder, name: str, data: bytes) -> None:
    fd = folder.create_file(name)
    try:
        left = memoryview(data)
        while left:
            written = os.write(fd, left)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left = left[written:]
        os.fsync(fd)
    finally:
        os.close(fd)
