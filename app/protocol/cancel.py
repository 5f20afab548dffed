"""The cancel token: how a person's *stop* reaches a model request or a tool."""

import threading


class Cancelled(Exception):
    """Raised by ``CancelToken.check`` once cancelled; the text is the reason."""


class CancelToken:
    """A one-way switch shared by a run and everything that works for it. Safe across threads."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason = ""

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    @property
    def reason(self) -> str:
        """Why it was cancelled, in words; empty before."""
        return self._reason

    def cancel(self, reason: str = "stopped by a person") -> None:
        """Cancels once; later calls keep the first reason."""
        if not self._event.is_set():
            self._reason = reason
            self._event.set()

    def check(self) -> None:
        """Raises Cancelled if cancelled."""
        if self._event.is_set():
            raise Cancelled(self._reason)

    def wait(self, seconds: float) -> bool:
        """Sleeps up to ``seconds``; returns True at once when cancelled."""
        return self._event.wait(seconds)
