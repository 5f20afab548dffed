"""The rules that hold before a user has written any: which calls are blocked or put right."""

import unicodedata
from dataclasses import dataclass

from app.protocol.messages import ToolCall
from app.protocol.tools import Allow, BeforeToolCall, Block, Confirm, Rewrite, ToolDecision

SECRET_WORDS = ("secret", "秘密")


def block_secret_notes(call: ToolCall) -> ToolDecision:
    """Blocks a note whose name holds a secret word, in any width or case (NFKC, then casefold)."""
    name = call.arguments.get("name")
    if call.name == "write_note" and isinstance(name, str):
        plain = unicodedata.normalize("NFKC", name).casefold()
        for word in SECRET_WORDS:
            if word in plain:
                reason = f"a note whose name contains {word!r} is not written; choose another name"
                return Block(reason, rule="secret-notes")
    return Allow()


def list_the_workspace(call: ToolCall) -> ToolDecision:
    """Gives ``list_files`` without a path the path "." that is meant."""
    path = call.arguments.get("path")
    if call.name == "list_files" and (path is None or (isinstance(path, str) and not path.strip())):
        return Rewrite({**call.arguments, "path": "."}, "no path means the whole workspace", "list-default")
    return Allow()


DEFAULT_HOOKS: tuple[BeforeToolCall, ...] = (block_secret_notes, list_the_workspace)


@dataclass(frozen=True)
class Rule:
    """A rule in words: the ``name`` that its decisions carry, the tool it is about, and one sentence for people."""

    name: str
    tool: str
    sentence: str


def N_(sentence: str) -> str:
    """Marks a sentence for the catalogues of translations; it is translated where it is shown."""
    return sentence


RULES: tuple[Rule, ...] = (
    Rule(
        "secret-notes",
        "write_note",
        N_("A note whose name contains “secret” or “秘密” is not written."),
    ),
    Rule(
        "list-default",
        "list_files",
        N_("Without a path, the whole workspace is listed: the call is rewritten to the path “.”."),
    ),
)
"""What the default hooks do, in the order in which they are asked."""


def nobody_to_ask(hook: BeforeToolCall) -> BeforeToolCall:
    """Turns Confirm into Block where no person can be asked: what is not permitted does not happen."""

    def decide(call: ToolCall) -> ToolDecision:
        decision = hook(call)
        if isinstance(decision, Confirm):
            return Block(f"{decision.prompt} Nobody can be asked here, so it was not done.", decision.rule)
        return decision

    return decide
