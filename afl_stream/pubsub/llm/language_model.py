"""The port for language models: who serves one writes one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from afl_stream.pubsub.llm.messages import Message, StopReason, Usage

#: A function as a model is told of it: `name`, `description`, and `parameters`, the JSON Schema of an object.
FunctionSpec: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A good reply: an answer, or calls of functions, whose ids differ. `model` is the model that gave it."""

    message: Message
    usage: Usage = field(default_factory=Usage)
    model: str = ""

    @property
    def stop_reason(self) -> StopReason:
        """Why it ended: it asks for functions, or it is an answer."""
        return StopReason.TOOL_CALLS if self.message.tool_calls else StopReason.END


@runtime_checkable
class LanguageModel(Protocol):
    """A language model. One object serves many requests at once, all on one event loop."""

    @property
    def model(self) -> str:
        """The model's name, for messages and spans."""

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[FunctionSpec] = (), *, system: str = ""
    ) -> ModelReply:
        """Return the reply to a conversation, which ends with a message of the user or with results of calls.

        Raises ModelFailed where there is no good reply: ModelUnavailable after the adapter's own retries, ModelRefused,
        ReplyCutOff, ContextFull.
        """
