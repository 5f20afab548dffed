"""An open folder in which names are looked up without ever following a link.

Where the system can look a name up inside an open folder (``dir_fd``), the folder is pinned: whatever is
renamed or swapped for a link meanwhile, a name is found in this very folder or not at all. Elsewhere
(Windows) each step is checked, done and checked again.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from app.protocol.tools import ToolError
from app.tools.paths import quoted, same_name

CAN_PIN = (
    {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd
    and os.listdir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
    and hasattr(os, "O_DIRECTORY")
)

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0) | _NOFOLLOW
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _COMMON
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _COMMON
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON

_REASONS = {
    errno.ENOENT: "There is no {} in the workspace. list_files shows what there is.",
    errno.EISDIR: "{} is a folder. list_files shows what is in it; read_file reads one file.",
    errno.ENOTDIR: "{} is not a folder, or leads through a file. read_file reads files.",
    errno.ELOOP: "{} is or leads through a link that may not be followed. Use the path of the real file.",
    errno.ENXIO: "{} is a device, a pipe or a socket. Only ordinary files can be used.",
    errno.EACCES: "This program has no permission for {}. A person can change the permissions of the folder.",
    errno.EPERM: "This program has no permission for {}. A person can change the permissions of the folder.",
    errno.EROFS: "{} is on a disk that can only be read. Nothing was written.",
    errno.ENOSPC: "The disk is full: {} was not written. A person has to free some space first.",
    errno.EDQUOT: "The disk quota is used up: {} was not written. A person has to free some space first.",
    errno.ENAMETOOLONG: "The path {} is longer than this system allows. Use a shorter one.",
}


def in_words(error: OSError, path: str) -> ToolError:
    """Returns a system error about ``path`` as a sentence for a model, without paths of this machine."""
    reason = _REASONS.get(error.errno or 0)
    if reason is None:
        return ToolError(f"{quoted(path)} could not be used: {error.strerror or type(error).__name__}.")
    return ToolError(reason.format(quoted(path)))


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turns an OSError raised inside into the ToolError of ``in_words``."""
    try:
        yield
    except OSError as error:
        raise in_words(error, path) from error


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class Folder:
    """A folder that is open; a context manager that closes it. Every method may raise OSError.

    A link is never followed: it raises ELOOP (a folder swapped for a link at the last moment may raise
    ENOTDIR).
    """

    def __init__(self, path: str, fd: int | None) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def open_root(cls, path: str) -> "Folder":
        """Opens the folder at ``path``, which is absolute and holds no link."""
        if CAN_PIN:
            return cls(path, os.open(path, _FOLDER))
        folder = cls(path, None)
        folder._check_place()
        return folder

    def __enter__(self) -> "Folder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the folder; again is harmless."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def names(self) -> list[str]:
        """Returns the names in the folder, in no order."""
        if self._fd is not None:
            return os.listdir(self._fd)
        self._check_place()
        return os.listdir(self._path)

    def stat(self, name: str) -> os.stat_result:
        """Returns what ``name`` is; of a link, what the link is."""
        return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)

    def find(self, name: str) -> str:
        """Returns ``name`` as spelled on disk: with accents stored otherwise if only such a name is there."""
        try:
            self.stat(name)
        except FileNotFoundError:
            return next((other for other in self.names() if same_name(name, other)), name)
        return name

    def open_folder(self, name: str) -> "Folder":
        """Opens a folder in this one."""
        mode = self.stat(name).st_mode
        if stat.S_ISLNK(mode):
            raise _error(errno.ELOOP)
        if not stat.S_ISDIR(mode):
            raise _error(errno.ENOTDIR)
        path = os.path.join(self._path, name)
        if self._fd is not None:
            return Folder(path, os.open(name, _FOLDER, dir_fd=self._fd))
        folder = Folder(path, None)
        folder._check_place()
        return folder

    def make_folder(self, name: str) -> None:
        """Makes a folder in this one if nothing has that name."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._fd)

    def open_file(self, name: str) -> int:
        """Opens an ordinary file for reading and returns its descriptor."""
        # What is not an ordinary file is refused unopened, since opening a device can have effects, and
        # checked again once open, since it may have been swapped in between; O_NONBLOCK keeps a pipe from
        # holding us up.
        _check_ordinary(self.stat(name))
        fd = os.open(self._at(name), _READ, dir_fd=self._fd)
        try:
            _check_ordinary(os.fstat(fd))
            self._check_opened(name, fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def create_file(self, name: str) -> int:
        """Creates a file that must not exist and returns its descriptor, open for writing."""
        fd = os.open(self._at(name), _CREATE, 0o666, dir_fd=self._fd)
        try:
            self._check_opened(name, fd)
        except BaseException:
            os.close(fd)
            with suppress(OSError):
                os.unlink(os.path.join(self._path, name))
            raise
        return fd

    def rename(self, old: str, new: str) -> None:
        """Renames within the folder; on POSIX systems an existing ``new`` is replaced."""
        os.rename(self._at(old), self._at(new), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Removes a file if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._fd)

    def sync(self) -> None:
        """Asks the system to keep the folder's names through a power cut; not every file system can."""
        if self._fd is not None:
            with suppress(OSError):
                os.fsync(self._fd)

    def _at(self, name: str) -> str:
        if self._fd is not None:
            return name
        self._check_place()
        return os.path.join(self._path, name)

    def _check_place(self) -> None:
        real, place = os.path.realpath(self._path), self._path
        if os.path.normcase(real) != os.path.normcase(place):
            raise _error(errno.ELOOP)
        if not os.path.isdir(real):
            raise _error(errno.ENOTDIR if os.path.exists(real) else errno.ENOENT)

    def _check_opened(self, name: str, fd: int) -> None:
        if self._fd is None:
            here = os.lstat(self._at(name))
            if not os.path.samestat(here, os.fstat(fd)):
                raise _error(errno.ELOOP)


def _check_ordinary(info: os.stat_result) -> None:
    if stat.S_ISLNK(info.st_mode):
        raise _error(errno.ELOOP)
    if stat.S_ISDIR(info.st_mode):
        raise _error(errno.EISDIR)
    if not stat.S_ISREG(info.st_mode):
        raise _error(errno.ENXIO)
