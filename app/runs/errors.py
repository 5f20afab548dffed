"""What can be wrong with a request to a session or a run, with a reason that a program can tell apart."""


class RunError(Exception):
    """Base: ``reason`` is one word for programs, the text a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotFound(RunError):
    """There is no such session, run, entry or queued message."""


class Conflict(RunError):
    """The request does not fit the state that the session is in."""


class NotStored(RunError):
    """The session file could not be written; nothing has changed."""
