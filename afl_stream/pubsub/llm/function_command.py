"""The command of a node that runs the functions that a language model calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial

from afl_stream.pubsub.llm.concurrency import run_together
from afl_stream.pubsub.llm.conversations import Conversation, conversations_of, holds_conversation, question_text
from afl_stream.pubsub.llm.errors import ConversationInvalid, FunctionUnusable
from afl_stream.pubsub.llm.functions import FunctionTool, as_tool
from afl_stream.pubsub.llm.language_model import FunctionSpec
from afl_stream.pubsub.llm.messages import ToolCall, ToolResult
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues


class FunctionCallTool:
    """Runs the functions that the last reply of a conversation calls, and yields the conversation with the results.

    The calls of a reply run at once. Each call of one of these functions gets a result, be it an error. Calls of
    others' functions are left to them: nodes that share the calls of one LLM node each answer their own, and the LLM
    node subscribes to all of their topics with `&`. A conversation without a call for this node is yielded as it is,
    so that such a node is not waited for in vain. Data that is no conversation is passed over: with `calls & approvals`
    a person's answer lets the calls go on.
    """

    oi_span_type = OpenInferenceSpanKindValues.CHAIN

    def __init__(self, *functions: Callable[..., object] | FunctionTool, max_concurrent: int = 16) -> None:
        self._max_concurrent = max_concurrent
        self._tools: dict[str, FunctionTool] = {}
        for function in functions:
            tool = as_tool(function)
            if tool.name in self._tools:
                raise FunctionUnusable(tool.name, "a function of this name is there already; give one another name")
            self._tools[tool.name] = tool

    def function_specs(self) -> Sequence[FunctionSpec]:
        """Return what a model is told of the functions."""
        return [tool.spec for tool in self._tools.values()]

    async def invoke(
        self, context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]
    ) -> AsyncGenerator[object, None]:
        """Yield each conversation of the events with the results of its calls."""
        found = [event.data for event in events if holds_conversation(event.data)]
        if not found:
            topics = ", ".join(dict.fromkeys(event.name for event in events))
            raise ConversationInvalid(f"no event of {topics} has a conversation with calls of functions")
        for conversation in conversations_of(found, question_text):
            yield (await self._answered(context, conversation)).to_data()

    async def _answered(self, context: InvokeContext, conversation: Conversation) -> Conversation:
        calls = [call for call in conversation.open_calls if call.name in self._tools]
        runs = [partial(self._run, context, call) for call in calls]
        return conversation.answered(await run_together(runs, self._max_concurrent))

    async def _run(self, context: InvokeContext, call: ToolCall) -> ToolResult:
        return await self._tools[call.name].call(context, call)
