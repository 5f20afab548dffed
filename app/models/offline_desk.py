"""What lies before a planner of the offline tutor: its language, the results so far, the tools there are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.models import offline_replies as replies
from app.models.offline_context import Step
from app.models.offline_intents import Language
from app.models.offline_results import FileView, file_of
from app.models.offline_words import code, say


class Wanted(NamedTuple):
    """A tool call that is to be made."""

    name: str
    arguments: dict[str, Any]


class Turn(NamedTuple):
    """One response: a text, and the calls that follow it."""

    text: str
    calls: tuple[Wanted, ...] = ()


@dataclass(frozen=True)
class Desk:
    """``steps`` are the results for the wish at hand, ``history`` those of earlier wishes on this branch."""

    language: Language
    steps: tuple[Step, ...]
    history: tuple[Step, ...]
    tools: frozenset[str]

    def has(self, tool: str) -> bool:
        """Returns whether a tool may be asked for."""
        return tool in self.tools

    def say(self, key: str, **values: object) -> str:
        """Returns a sentence in the language at hand. Raises KeyError for an unknown key."""
        return say(self.language, key, **values)

    def missing(self, tool: str) -> Turn:
        """Returns the answer when a tool that is needed is not there."""
        return Turn(self.say("missing_tool", tool=code(tool)))

    def all(self, tool: str) -> list[Step]:
        """Returns the results of a tool for the wish at hand, oldest first."""
        return [step for step in self.steps if step.name == tool]

    def first(self, tool: str) -> Step | None:
        """Returns the first result of a tool for the wish at hand."""
        return next(iter(self.all(tool)), None)

    def search(self, query: str) -> Step | None:
        """Returns the result of searching for ``query`` for the wish at hand."""
        steps = self.all("search_files")
        return next((step for step in steps if step.arguments.get("query") == query), None)

    def views(self, steps: Iterable[Step]) -> list[FileView]:
        """Returns what was read of files in ``steps``, oldest first, without what failed."""
        return [_view(step) for step in steps if step.name == "read_file" and not step.is_error]

    def read_reply(self, step: Step) -> str:
        """Returns the answer to a reading, failed or not."""
        if step.is_error:
            return replies.failure(self.language, step)
        return replies.file(self.language, _view(step))


def _view(step: Step) -> FileView:
    offset = step.arguments.get("offset")
    first = offset if isinstance(offset, int) and not isinstance(offset, bool) and offset > 0 else 1
    return file_of(str(step.arguments.get("path", "")), step.text, first)
