"""What every run works with."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.agent.run import MAX_TURNS
from app.protocol.messages import Message
from app.protocol.model import AnyModel, ModelRequest
from app.protocol.tools import BeforeToolCall, ToolDefinition
from app.render.markdown import render_markdown
from app.runs.rendering import Render


@dataclass(frozen=True)
class Equipment:
    """The model, the tools and the rules. ``render`` makes HTML of what the model writes; it knows where links lead."""

    model: AnyModel
    tools: Sequence[ToolDefinition]
    hooks: Sequence[BeforeToolCall]
    system_prompt: str
    max_turns: int = MAX_TURNS
    render: Render = render_markdown

    def request(self, messages: Sequence[Message]) -> ModelRequest:
        """Returns what the model is asked after these messages."""
        tools = [tool.spec() for tool in self.tools]
        return ModelRequest(system_prompt=self.system_prompt, messages=list(messages), tools=tools)
