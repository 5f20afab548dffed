"""What the server refuses before any view sees it (a body far too large, a malformed request), in the API's form."""

import copy
from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.task import ErrorTask

from app.protocol.codec import encode_line
from app.web.errors import message_of, reason_of
from app.web.security import HEADERS, UPLOAD_TOO_LARGE

UPLOAD_PATHS = ("/import", "/api/sessions/import")
MOST_ELSEWHERE = 1_048_576
"""Bytes of a body that are read before a view may refuse it; the paths of uploads have the server's own limit."""


class Refusal(ErrorTask):  # type: ignore[misc]
    """Answers with JSON {reason, message} and the headers of every answer."""

    def execute(self) -> None:
        problem = self.request.error
        reason = reason_of(problem.code)
        message = message_of(problem.code, f"The server did not take this request: {problem.body}.")
        if problem.code == 413 and getattr(self.request, "path", "") in UPLOAD_PATHS:
            reason, message = "upload_too_large", UPLOAD_TOO_LARGE
        body = encode_line({"reason": reason, "message": message})
        self.status = f"{problem.code} {problem.reason}"
        self.response_headers += [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *HEADERS.items()]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Parser(HTTPRequestParser):  # type: ignore[misc]
    """Reads large bodies only where session files are taken in."""

    adj: Any

    def parse_header(self, header_plus: bytes) -> Any:
        super().parse_header(header_plus)
        if self.path not in UPLOAD_PATHS:
            limits: Any = copy.copy(self.adj)
            limits.max_request_body_size = MOST_ELSEWHERE
            self.adj = limits


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection whose refusals are ours."""

    error_task_class = Refusal
    parser_class = Parser
