"""The few calls to the operating system that writing a session needs; tests can make them fail."""

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_BINARY = getattr(os, "O_BINARY", 0)
_APPEND = os.O_RDWR | os.O_APPEND | _BINARY
_NEW = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | _BINARY
_PRIVATE = 0o600  # a conversation is nobody else's business

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "there is no permission for it",
    errno.EPERM: "there is no permission for it",
    errno.EIO: "the disk reported an error",
    errno.EXDEV: "the two folders are on different disks",
}


@dataclass(frozen=True)
class Files:
    """What can fail on a disk, with the signatures of the functions in ``os``."""

    open: Callable[[str, int, int], int] = os.open
    write: Callable[[int, bytes], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    ftruncate: Callable[[int, int], None] = os.ftruncate
    replace: Callable[[str, str], None] = os.replace


def reason(error: BaseException) -> str:
    """Returns why a call failed as the end of a sentence, without file names."""
    if isinstance(error, OSError):
        known = _REASONS.get(error.errno or 0)
        return known or (error.strerror or type(error).__name__).lower()
    return str(error) or type(error).__name__


def open_for_append(path: Path, files: Files) -> int:
    """Returns a descriptor that only appends to an existing file. Raises OSError."""
    return files.open(str(path), _APPEND, _PRIVATE)


def write_new(path: Path, data: bytes, files: Files) -> int:
    """Makes a file that holds ``data``, safe on the disk, and returns a descriptor that appends to it.

    Raises OSError, FileExistsError included; then there is no file that was not there before.
    """
    descriptor = files.open(str(path), _NEW, _PRIVATE)
    try:
        _write_all(descriptor, data, files)
        files.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return descriptor


def _write_all(descriptor: int, data: bytes, files: Files) -> None:
    rest = memoryview(data)
    while rest:
        written = files.write(descriptor, bytes(rest))
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        rest = rest[written:]


def sync_folder(folder: Path) -> None:
    """Makes names in a folder outlive a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
