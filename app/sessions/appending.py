"""One file that grows by whole lines: a line is written completely or not at all."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from app.sessions.files import Files, open_for_append, reason, sync_folder, write_new
from app.sessions.store import StoreError

FILE_CHANGED = "Another program wrote this file; reload it."


class UnsafeFile(StoreError):
    """Nothing more may be appended until the file has been read again."""


class LineFile:
    """An open file of lines, whose size is known from reading it. Not thread-safe: its session guards it."""

    def __init__(self, path: Path, files: Files, *, size: int, ends_with_newline: bool) -> None:
        """Opens the file. Raises OSError when it cannot be written."""
        self._path = path
        self._files = files
        self._size = size
        self._ends_with_newline = ends_with_newline
        self._descriptor = open_for_append(path, files)

    def append(self, lines: Sequence[bytes], *, durable: bool) -> int:
        """Writes lines (given without line end) in one go, on to the disk itself when ``durable``.

        Returns where the first of them stands in the file. Raises StoreError, after which the file is as before, or
        UnsafeFile when that cannot be said.
        """
        self._check_unchanged()
        # A torn last line must not swallow the first one.
        gap = b"" if self._ends_with_newline else b"\n"
        data = gap + b"\n".join(lines) + b"\n"
        try:
            written = self._files.write(self._descriptor, data)
            if durable and written == len(data):
                self._files.fsync(self._descriptor)
        except OSError as error:
            self._cut_back()
            raise StoreError(f"Nothing was saved: {reason(error)}.") from error
        if written != len(data):
            self._cut_back()
            raise StoreError("Nothing was saved: only a part could be written, the disk may be full.")
        first = self._size + len(gap)
        self._size += len(data)
        self._ends_with_newline = True
        return first

    def rewrite(self, content: bytes, version: int) -> None:
        """Replaces the whole file in one step; the old one is kept beside it as ``<name>.v<version>.bak``.

        Raises StoreError, after which the file is as before.
        """
        self._check_unchanged()
        fresh = self._path.with_name(f".{self._path.name}.new")
        try:
            self._keep_original(version)
            fresh.unlink(missing_ok=True)  # left by a crash
            descriptor = write_new(fresh, content, self._files)
            try:
                self._files.replace(str(fresh), str(self._path))
            except BaseException:
                os.close(descriptor)
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StoreError(f"This older file could not be renewed, so nothing was saved: {reason(error)}.") from error
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._size = len(content)
        self._ends_with_newline = True
        sync_folder(self._path.parent)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def _check_unchanged(self) -> None:
        try:
            named, opened = os.stat(self._path), os.fstat(self._descriptor)
        except FileNotFoundError as error:
            raise UnsafeFile("The file of this session is gone.") from error
        except OSError as error:
            raise StoreError(f"Nothing was saved: {reason(error)}.") from error
        if not os.path.samestat(named, opened) or named.st_size != self._size:
            raise UnsafeFile(FILE_CHANGED)

    def _cut_back(self) -> None:
        try:
            self._files.ftruncate(self._descriptor, self._size)
        except OSError as error:
            raise UnsafeFile(
                f"A half-written line may stand at the end of this file ({reason(error)}); reload it."
            ) from error

    def _keep_original(self, version: int) -> None:
        original = self._path.read_bytes()
        if not original:
            return
        stem = f"{self._path.name}.v{version}"
        for number in range(1, 1000):
            kept = self._path.with_name(f"{stem}.bak" if number == 1 else f"{stem}.{number}.bak")
            with contextlib.suppress(FileExistsError):
                os.close(write_new(kept, original, self._files))
                return
            if kept.read_bytes() == original:
                return
        raise FileExistsError("too many backups")
