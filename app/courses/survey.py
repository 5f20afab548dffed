"""What in the folder is read, and what is skipped and why. Pure but for the two callables that look at the disk.

A file is judged by the beginning of its content, not by its name; the name only says of which kind a text is.
"""

import codecs
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.courses.titles import TITLE_BYTES, natural_key, title_in

MAX_ENTRIES = 5000
"""Files and folders that are looked at."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""A larger file is not read; the tools and pages that read course text refuse it too."""

HEAD_BYTES = 64 * 1024
"""How much of a file is looked at to tell whether it is text."""

NOTES = "notes"
"""The folder that the tutor writes into; no course material."""

Kind = Literal["markdown", "notebook", "text", "other"]
Reason = Literal[
    "pdf", "picture", "not_text", "not_utf8", "too_large", "no_permission", "unreadable", "link", "device", "name"
]

_KIND_OF: dict[str, Kind] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".ipynb": "notebook",
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
    ".org": "text",
    ".tex": "text",
    ".adoc": "text",
}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Found:
    """A file or folder as the disk has it: path from the workspace root, size in bytes, time of change in ns."""

    path: str
    kind: Literal["folder", "file"]
    size: int = 0
    changed: int = 0


@dataclass(frozen=True)
class Skipped:
    """Something that is not read: its path (a folder's ends with ``/``) and why."""

    path: str
    reason: Reason


@dataclass(frozen=True)
class Contents:
    """What is directly in a folder. Links to what is inside anyway, hidden files and question banks are left out."""

    entries: list[Found]
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class Judged:
    """A file and what its beginning showed: ``kind`` when it is read, else ``reason``; a Markdown file's own title."""

    file: Found
    kind: Kind | None = None
    reason: Reason | None = None
    title: str | None = None

    @property
    def path(self) -> str:
        """The file's path."""
        return self.file.path


@dataclass(frozen=True)
class Survey:
    """What was found: all files judged, what is skipped, and whether ``limit`` entries were not enough.

    ``notes`` are the files in the tutor's own folder; they are not among ``files``.
    """

    files: list[Judged]
    skipped: list[Skipped]
    notes: int = 0
    cut: bool = False
    limit: int = MAX_ENTRIES

    @property
    def counts(self) -> Counter[Kind]:
        """How many files of each kind are read."""
        return Counter(judged.kind for judged in self.files if judged.kind is not None)

    @property
    def reasons(self) -> Counter[Reason]:
        """How many files and folders are skipped for each reason, the most frequent first."""
        return Counter(skipped.reason for skipped in self.skipped)


ReadFolder = Callable[[str], Contents]
"""Returns what is in the folder at a path ("." is the workspace). Raises OSError."""

ReadHead = Callable[[str], bytes]
"""Returns at most HEAD_BYTES from the beginning of the file at a path. Raises OSError."""


def survey(
    read_folder: ReadFolder,
    read_head: ReadHead,
    *,
    start: str = ".",
    known: Mapping[str, Judged] | None = None,
    limit: int = MAX_ENTRIES,
) -> Survey:
    """Looks at the folder ``start`` and everything below it, folder by folder in natural order.

    ``known`` holds earlier judgements by path; one whose size and time of change still hold is not made again.
    The files directly in a folder are looked at before those of its sub-folders, so that what ``limit`` leaves out
    lies deep. A folder that cannot be opened is skipped with a reason, ``start`` included.
    """
    files: list[Judged] = []
    skipped: list[Skipped] = []
    notes = looked = 0
    cut = False
    waiting = [start]
    for folder in waiting:  # grows meanwhile
        try:
            contents = read_folder(folder)
        except OSError as error:
            skipped.append(Skipped(f"{folder}/", reason_of(error)))
            continue
        entries = contents.entries[: max(0, limit - looked)]
        looked += len(entries)
        cut = cut or len(entries) < len(contents.entries)
        skipped += contents.skipped
        for entry in entries:
            if entry.kind == "folder":
                waiting.append(entry.path)
                continue
            if entry.path.startswith(f"{NOTES}/"):
                notes += 1
                continue
            judged = _known(entry, known) or judge(entry, read_head)
            files.append(judged)
            if judged.reason is not None:
                skipped.append(Skipped(judged.path, judged.reason))
        if cut:
            break
    return Survey(files, sorted(skipped, key=lambda one: natural_key(one.path)), notes, cut, limit)


def judge_all(entries: Iterable[Found], read_head: ReadHead, known: Mapping[str, Judged] | None = None) -> list[Judged]:
    """Returns the files among ``entries``, judged; earlier judgements in ``known`` are kept where they still hold."""
    return [_known(entry, known) or judge(entry, read_head) for entry in entries if entry.kind == "file"]


def judge(file: Found, read_head: ReadHead) -> Judged:
    """Returns whether a file is read and as what, by its size and its beginning."""
    if file.size > MAX_FILE_BYTES:
        return Judged(file, reason="too_large")
    try:
        head = read_head(file.path)
    except OSError as error:
        return Judged(file, reason=reason_of(error))
    reason = _why_not_text(head, is_whole=file.size <= len(head))
    if reason is not None:
        return Judged(file, reason=reason)
    kind = kind_of(file.path)
    title = title_in(head[:TITLE_BYTES].decode("utf-8", "ignore")) if kind == "markdown" else None
    return Judged(file, kind, title=title)


def kind_of(path: str) -> Kind:
    """Returns of which kind a text file is, by the ending of its name."""
    name = path.rpartition("/")[2].casefold()
    ending = name[name.rfind(".") :] if "." in name else ""
    return _KIND_OF.get(ending, "other")


def picture_type(head: bytes) -> str | None:
    """Returns the media type of a picture that browsers show, by its first bytes; None for anything else.

    Vector graphics are none of them: they can hold scripts.
    """
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis"):
        return "image/avif"
    return None


def reason_of(error: OSError) -> Reason:
    """Returns why something that could not be opened is skipped."""
    return "no_permission" if isinstance(error, PermissionError) else "unreadable"


def _known(file: Found, known: Mapping[str, Judged] | None) -> Judged | None:
    judged = known.get(file.path) if known else None
    # What could not be opened is tried again: permissions change without a trace in the time of change.
    if judged is None or judged.file != file or judged.reason in ("no_permission", "unreadable"):
        return None
    return judged


def _why_not_text(head: bytes, *, is_whole: bool) -> Reason | None:
    if head.startswith(b"%PDF-"):
        return "pdf"
    if picture_type(head) is not None:
        return "picture"
    if head.startswith(_UTF16):
        return "not_utf8"
    if b"\0" in head:
        return "not_text"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=is_whole)
    except UnicodeDecodeError:
        return "not_utf8"
    return None


def by_path(files: Iterable[Judged]) -> dict[str, Judged]:
    """Returns judgements by path, fit to be ``known`` the next time."""
    return {judged.path: judged for judged in files}
