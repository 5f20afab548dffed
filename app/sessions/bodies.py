"""Lines of a file read again by their place, also after it was moved away or closed for writing."""

import os
import threading
import weakref
from pathlib import Path


class Bodies:
    """A file open for reading as long as anything refers to it. Safe for threads."""

    def __init__(self, path: Path) -> None:
        """Opens the file. Raises OSError."""
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._guard = threading.Lock()
        weakref.finalize(self, os.close, self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Returns ``length`` bytes from ``offset`` on. Raises OSError, also where the file is shorter by now."""
        if hasattr(os, "pread"):
            data = os.pread(self._descriptor, length, offset)
        else:
            with self._guard:
                os.lseek(self._descriptor, offset, os.SEEK_SET)
                data = os.read(self._descriptor, length)
        if len(data) != length:
            raise OSError(5, "the file is shorter than it was")
        return data
