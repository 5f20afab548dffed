"""The workspace: the one folder that tools and pages may read course text from, and write notes into.

A path is checked three times: its words (paths.py), the place it leads to with every link resolved (here),
and once more while it is opened name by name without following links (folders.py), so that a link swapped in
between leads nowhere. Hidden files and question banks are not course text: they are neither listed nor read.
"""

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.protocol.tools import ToolError
from app.tools.folders import Folder, explained
from app.tools.paths import is_bank, is_hidden, may_be_quiz, name_problem, quoted, split_path

MAX_FILE_BYTES = 8 * 1024 * 1024
"""A larger file is not read: it would be held in memory whole, and no course text is that long."""

_SNIFFED_BYTES = 64 * 1024
_QUIZ = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?quiz[\s/>]", re.IGNORECASE)
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Entry:
    """A file or folder: its path from the workspace root, and a file's size in bytes (0 for a folder)."""

    path: str
    kind: Literal["folder", "file"]
    size: int = 0
    is_link: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Listing:
    """A folder's entries, folders first, each kind in natural order ("2" before "10").

    ``left_out`` counts what no path can reach: links that lead out or nowhere, devices, names that are
    refused. Hidden files and question banks are not counted, so that nothing tells of them.
    """

    path: str
    entries: list[Entry]
    left_out: int


class Workspace:
    """The guarded folder. Paths are relative to it, with ``/``; every refusal and failure is a ToolError."""

    def __init__(self, root: Path) -> None:
        """Takes the folder, which may itself be reached by a link. Raises OSError when it is not a folder."""
        real = os.path.realpath(root, strict=True)
        if not os.path.isdir(real):
            raise NotADirectoryError(f"The workspace is not a folder: {root}")
        self._root = real
        self.write_lock = threading.Lock()
        """Held while a file is put in place, so that two runs do not write the same one at once."""

    def kind(self, path: str) -> Literal["folder", "file"]:
        """Returns what is at ``path``."""
        names = self._resolve(path)
        with explained(path):
            return self._kind_and_size(names)[0]

    def listing(self, path: str = ".") -> Listing:
        """Returns what is directly in the folder at ``path``."""
        names = split_path(path)
        real_names = self._resolve(path)
        entries: list[Entry] = []
        left_out = 0
        with explained(path), self.open_folder(real_names, "find") as folder:
            for name in folder.names():
                if is_hidden(name) or is_bank(name):
                    continue
                try:
                    entry = self._entry(folder, names, name)
                except (ToolError, OSError):
                    left_out += 1
                else:
                    entries += [entry] if entry else []
        return Listing("/".join(names) or ".", sorted(entries, key=_natural), left_out)

    def walk(self, path: str = ".") -> Iterator[Entry]:
        """Yields everything below the folder at ``path``, a folder before its contents.

        Links are yielded but not followed. A folder that cannot be read, or vanishes meanwhile, is passed
        over.
        """
        waiting = self.listing(path).entries[::-1]
        while waiting:
            entry = waiting.pop()
            yield entry
            if entry.kind == "folder" and not entry.is_link:
                try:
                    waiting += self.listing(entry.path).entries[::-1]
                except ToolError:
                    continue

    def walk_text_files(self, path: str = ".") -> Iterator[Entry]:
        """Yields the files below ``path`` (or that file) that may be course text, each once, links left out.

        They have not been opened: ``read_text`` may still say that one is not text.
        """
        if self.kind(path) == "file":
            with explained(path):
                yield Entry("/".join(split_path(path)), "file", self._kind_and_size(self._resolve(path))[1])
            return
        for entry in self.walk(path):
            if entry.kind == "file" and not entry.is_link:
                yield entry

    def read_bytes(self, path: str) -> bytes:
        """Returns the content of the file at ``path``; one larger than 8 MiB is refused."""
        names = self._resolve(path)
        with explained(path):
            fd = self._open(names)
            with os.fdopen(fd, "rb") as file:
                is_large = os.fstat(fd).st_size > MAX_FILE_BYTES
                content = b"" if is_large else file.read(MAX_FILE_BYTES + 1)
        if is_large or len(content) > MAX_FILE_BYTES:
            raise ToolError(f"{quoted(path)} is larger than {MAX_FILE_BYTES} bytes. Split it into smaller files.")
        if may_be_quiz(names[-1]) and _holds_quiz(content):
            raise _bank_error(path)
        return content

    def read_text(self, path: str) -> str:
        """Returns the text of the file at ``path``, without a byte order mark, every line end as ``\\n``.

        Anything but UTF-8 text is refused.
        """
        content = self.read_bytes(path)
        if b"\0" in content:
            raise ToolError(f"{quoted(path)} is not text: it holds NUL bytes. Expected a UTF-8 text file.")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ToolError(
                f"{quoted(path)} is not UTF-8 text: byte {error.start + 1} does not fit. "
                "Expected a UTF-8 text file; a person can save it again as UTF-8."
            ) from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    @contextmanager
    def open_folder(
        self, names: tuple[str, ...], missing: Literal["fail", "make", "find"] = "fail"
    ) -> Iterator[Folder]:
        """Yields the folder that ``names`` (checked by ``split_path``) lead to, open, no link on the way.

        A folder that is missing is an error, or is made, or is looked for under a name whose accents are
        stored otherwise. Raises OSError.
        """
        folder = Folder.open_root(self._root)
        try:
            for name in names:
                if missing == "make":
                    folder.make_folder(name)
                inner = folder.open_folder(folder.find(name) if missing == "find" else name)
                folder.close()
                folder = inner
            yield folder
        finally:
            folder.close()

    def _resolve(self, path: str) -> tuple[str, ...]:
        """Returns the names that lead to ``path`` when every link is resolved, all inside the workspace."""
        names = split_path(path)
        real = Path(os.path.realpath(os.path.join(self._root, *names)))
        try:
            real_names = real.relative_to(self._root).parts
        except ValueError:
            raise ToolError(
                f"{quoted(path)} is refused: it leads out of the workspace through a link. "
                "Use a path that stays inside."
            ) from None
        if any(map(is_hidden, real_names)):
            raise ToolError(f"{quoted(path)} is refused: it leads to a hidden file, which is not course text.")
        if any(map(is_bank, real_names)):
            raise _bank_error(path)
        return real_names

    def _open(self, names: tuple[str, ...]) -> int:
        if not names:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with self.open_folder(names[:-1], "find") as folder:
            return folder.open_file(folder.find(names[-1]))

    def _kind_and_size(self, names: tuple[str, ...]) -> tuple[Literal["folder", "file"], int]:
        if not names:
            return "folder", 0
        with self.open_folder(names[:-1], "find") as folder:
            return _known(folder.stat(folder.find(names[-1])))

    def _entry(self, folder: Folder, parents: tuple[str, ...], name: str) -> Entry | None:
        """Returns what ``name`` in ``folder`` is, None for a bank. May raise ToolError or OSError."""
        path = "/".join((*parents, name))
        if name_problem(name) is not None:
            raise ToolError(f"{quoted(name)} cannot be used as a name.")
        split_path(path)
        info = folder.stat(name)
        is_link = stat.S_ISLNK(info.st_mode)
        names = self._resolve(path) if is_link else (*parents, name)
        kind, size = self._kind_and_size(names) if is_link else _known(info)
        if kind == "file" and may_be_quiz(names[-1]):
            with os.fdopen(self._open(names) if is_link else folder.open_file(name), "rb") as file:
                if _holds_quiz(file.read(_SNIFFED_BYTES)):
                    return None
        return Entry(path, kind, size, is_link)


def _known(info: os.stat_result) -> tuple[Literal["folder", "file"], int]:
    if stat.S_ISDIR(info.st_mode):
        return "folder", 0
    if stat.S_ISREG(info.st_mode):
        return "file", info.st_size
    raise ToolError("Only folders and ordinary files can be used.")


def _holds_quiz(content: bytes) -> bool:
    # NUL bytes are dropped so that UTF-16, in which Moodle's files may come, is recognised too.
    return _QUIZ.search(content.replace(b"\0", b"")) is not None


def _bank_error(path: str) -> ToolError:
    return ToolError(
        f"{quoted(path)} is refused: it is a question bank, which holds the answers and is not course text."
    )


def _natural(entry: Entry) -> tuple[bool, list[str | int], str]:
    parts = _DIGITS.split(entry.name.casefold())
    return (
        entry.kind != "folder",
        [int(part) if index % 2 else part for index, part in enumerate(parts)],
        entry.name,
    )
