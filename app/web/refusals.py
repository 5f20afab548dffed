"""What the server refuses before any view sees it (a body far too large, a malformed request), in the API's form."""

from waitress.channel import HTTPChannel
from waitress.task import ErrorTask

from app.protocol.codec import encode_line
from app.web.errors import message_of, reason_of
from app.web.security import HEADERS


class Refusal(ErrorTask):  # type: ignore[misc]
    """Answers with JSON {reason, message} and the headers of every answer."""

    def execute(self) -> None:
        problem = self.request.error
        message = message_of(problem.code, f"The server did not take this request: {problem.body}.")
        body = encode_line({"reason": reason_of(problem.code), "message": message})
        self.status = f"{problem.code} {problem.reason}"
        self.response_headers += [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *HEADERS.items()]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection whose refusals are ours."""

    error_task_class = Refusal
