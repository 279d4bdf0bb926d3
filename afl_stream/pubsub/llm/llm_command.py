"""The command of a node that asks a language model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from afl_stream.pubsub.llm.concurrency import run_together
from afl_stream.pubsub.llm.conversations import Conversation, conversations_of, question_text
from afl_stream.pubsub.llm.errors import ConversationInvalid, FunctionUnusable, TooManyReplies
from afl_stream.pubsub.llm.language_model import FunctionSpec, LanguageModel
from afl_stream.pubsub.llm.messages import ToolResult
from afl_stream.pubsub.llm.storable_messages import storable
from afl_stream.pubsub.llm.traced_requests import traced_reply
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues

#: Replies to one question. A model that calls functions this often goes in circles.
MAX_REPLIES: Final = 25


class LLMCommand:
    """Asks a model with the conversation that the events carry, and yields the conversation with the reply.

    The command keeps nothing between its runs: a conversation travels in the data of events. Data that is no
    conversation is a question, which `prompt` puts into words (else a text as it is, other values as JSON). Several
    conversations in one run are asked at once. `specs` are functions that the model may call; the workflow adds those
    of the nodes that take what this node publishes.

    A call of a function that is not known is answered here, as an error for the model. Raises ModelFailed, and
    TooManyReplies after `max_replies` replies to one question.
    """

    oi_span_type = OpenInferenceSpanKindValues.CHAIN

    def __init__(
        self,
        model: LanguageModel,
        *,
        system: str = "",
        prompt: Callable[[object], str] = question_text,
        specs: Sequence[FunctionSpec] = (),
        max_replies: int = MAX_REPLIES,
        max_concurrent: int = 8,
    ) -> None:
        self._model = model
        self._system = system
        self._prompt = prompt
        self._max_replies = max_replies
        self._max_concurrent = max_concurrent
        self._specs: dict[str, FunctionSpec] = {}
        self.add_function_specs(specs)

    @property
    def specs(self) -> Sequence[FunctionSpec]:
        """What the model is told of functions."""
        return tuple(self._specs.values())

    def add_function_specs(self, specs: Sequence[Mapping[str, Any]]) -> None:
        """Take the specs of functions that nodes behind this one run; the same ones again change nothing."""
        for spec in specs:
            known = self._specs.setdefault(spec["name"], spec)
            if known != spec:
                raise FunctionUnusable(
                    spec["name"], "two nodes behind one LLM node have different functions of this name"
                )

    async def invoke(
        self,
        context: InvokeContext,  # noqa: ARG002 - the port's
        events: Sequence[ConsumeFromTopicEvent],
    ) -> AsyncGenerator[object, None]:
        """Yield each conversation of the events with the model's reply."""
        conversations = conversations_of([event.data for event in events], self._prompt)
        asks = [partial(self._replied, conversation) for conversation in conversations]
        for conversation in await run_together(asks, self._max_concurrent):
            yield conversation.to_data()

    async def _replied(self, conversation: Conversation) -> Conversation:
        if conversation.replies_since_question >= self._max_replies:
            raise TooManyReplies(
                self._model.model,
                f"gave no answer in {self._max_replies} replies to one question, each with calls of functions; "
                "see what it calls in the events of the request, or raise max_replies",
            )
        conversation = self._with_all_results(conversation)
        reply = await traced_reply(self._model, conversation.messages, self.specs, self._system)
        return conversation.replied(replace(reply, message=storable(reply.message)))

    def _with_all_results(self, conversation: Conversation) -> Conversation:
        """Return the conversation with a result for each call. Raises ConversationInvalid where a node owes one."""
        unknown = []
        for call in conversation.open_calls:
            if call.name in self._specs:
                raise ConversationInvalid(
                    f"call {call.id} of function {call.name} has no result among the events that were taken; an LLM "
                    "node subscribes with & to the topics of all nodes that run its functions"
                )
            text = f"there is no function {call.name}; there is {', '.join(self._specs) or 'none'}"
            unknown.append(ToolResult(call_id=call.id, name=call.name, text=text, is_error=True))
        return conversation.answered(unknown) if unknown else conversation
