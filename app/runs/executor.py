"""Who runs a worker: the third seam. The embedded executor starts a thread a run."""

import threading
from collections.abc import Callable
from typing import Protocol


class Executor(Protocol):
    """Starts work elsewhere."""

    def start(self, work: Callable[[], None], name: str) -> None:
        """Starts ``work`` and returns at once. Raises RuntimeError when it cannot be started."""
        ...


class ThreadExecutor:
    """Starts a daemon thread for each run: a run that is cut off by the end of the process is mended on opening."""

    def start(self, work: Callable[[], None], name: str) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()
