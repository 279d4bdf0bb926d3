"""A language model that says what a test has scripted: all that another provider has to write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from afl_stream.pubsub.llm.errors import ModelUnavailable
from afl_stream.pubsub.llm.language_model import FunctionSpec, ModelReply
from afl_stream.pubsub.llm.messages import Message, Role, ToolCall, Usage


class ScriptedModel:
    """Gives its replies in order: a text is an answer, calls are calls of functions."""

    model = "scripted-1"

    def __init__(self, *replies: str | Sequence[ToolCall]) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[Message, ...]] = []
        self.tools: list[Sequence[FunctionSpec]] = []

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[FunctionSpec] = (), *, system: str = ""
    ) -> ModelReply:
        self.asked.append(tuple(messages))
        self.tools.append(tools)
        await asyncio.sleep(0)
        if not self.replies:
            raise ModelUnavailable(self.model, "the script is over")
        reply = self.replies.pop(0)
        text, calls = (reply, ()) if isinstance(reply, str) else ("", tuple(reply))
        message = Message(role=Role.ASSISTANT, text=text, tool_calls=calls)
        return ModelReply(message=message, usage=Usage(requests=1, input_tokens=20, output_tokens=5))


def call(function: str, identity: str = "c1", /, **arguments: object) -> ToolCall:
    return ToolCall(id=identity, name=function, arguments=arguments)
