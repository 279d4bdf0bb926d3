"""Anthropic's models as language models of nodes. Needs extra `claude`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, Self

from afl.claude.client import async_claude_client, default_model
from afl.claude.replies import CONTEXT_FULL, MAX_TOKENS_REACHED, PAUSE_TURN, REFUSAL, Reply, read_reply
from afl.claude.request_failures import request_failure
from afl_stream.pubsub.llm.anthropic_messages import PROVIDER, api_messages, api_tools, reply_message, reply_usage
from afl_stream.pubsub.llm.errors import ContextFull, ModelFailed, ModelRefused, ModelUnavailable, ReplyCutOff
from afl_stream.pubsub.llm.language_model import FunctionSpec, ModelReply
from afl_stream.pubsub.llm.messages import Message

#: The longest reply, in tokens.
MAX_TOKENS: Final = 4096
#: How often the API may pause one reply before it counts as failed.
_MOST_PAUSES: Final = 10
#: What the API says, as an invalid request, of a conversation that does not fit its model.
_TOO_LONG: Final = "prompt is too long"


class MessagesClient(Protocol):
    """The interface of a client; `anthropic.AsyncAnthropic` has it, and its kin for Bedrock and Vertex."""

    @property
    def messages(self) -> Any: ...


class AnthropicModel:
    """A model behind Anthropic's Messages API.

    `model`: else that of `AFL_CLAUDE_MODEL`, or our default. `client`: else one of the environment's key, made at the
    first request, with its retries for rate limits, overload and lost connections; `close`, or the end of an `async
    with`, closes that one. `options`
    are further arguments of `messages.create`: `temperature`, `thinking`, `tool_choice`. `cache_prompt` lets the API
    cache what it has read so far: a loop of calls sends the same conversation again and again.
    """

    provider = PROVIDER

    def __init__(
        self,
        model: str = "",
        *,
        client: MessagesClient | None = None,
        max_tokens: int = MAX_TOKENS,
        cache_prompt: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model or default_model()
        self._client = client
        # And the event loop that its connections belong to.
        self._own: tuple[asyncio.AbstractEventLoop, Any] | None = None
        self._max_tokens = max_tokens
        self._cache_prompt = cache_prompt
        self._options = dict(options or {})

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[FunctionSpec] = (), *, system: str = ""
    ) -> ModelReply:
        """Return the reply. Raises ModelUnavailable, ModelRefused, ReplyCutOff or ContextFull."""
        request = self._request(messages, tools, system)
        replies: list[Reply] = []
        while True:
            reply = await self._ask(request)
            replies.append(reply)
            if reply.stop_reason != PAUSE_TURN:
                break
            if len(replies) > _MOST_PAUSES:
                raise ModelUnavailable(self._model, f"the API paused one reply {len(replies)} times")
            # The API goes on where it paused, when it gets what it has said.
            paused = reply_message(replies)
            request = self._request([*messages, paused], tools, system)
        self._check_end(reply)
        return ModelReply(message=reply_message(replies), usage=reply_usage(replies), model=self._model)

    async def close(self) -> None:
        """Close the client that was made here; a client that was given belongs to its giver."""
        own, self._own = self._own, None
        if own is not None and own[0] is asyncio.get_running_loop():
            await own[1].close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    def _request(self, messages: Sequence[Message], tools: Sequence[FunctionSpec], system: str) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "messages": api_messages(messages),
            **self._options,
        }
        if system:
            request["system"] = system
        if tools:
            request["tools"] = api_tools(tools)
        if self._cache_prompt and request["messages"]:
            request["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        return request

    async def _ask(self, request: Mapping[str, Any]) -> Reply:
        client = self._client or self._made_client()
        try:
            return read_reply(await client.messages.create(**request))
        except Exception as error:  # noqa: BLE001 - whatever it is, the request has failed
            # Without its cause: see request_failure.
            raise self._failure(client, error) from None

    def _made_client(self) -> MessagesClient:
        loop = asyncio.get_running_loop()
        if self._own is None or self._own[0] is not loop:
            self._own = (loop, async_claude_client())
        client: MessagesClient = self._own[1]
        return client

    def _failure(self, client: MessagesClient, error: Exception) -> ModelFailed:
        reason = request_failure(client, self._model, error)
        if getattr(error, "status_code", None) == 400 and _TOO_LONG in reason:
            return ContextFull(self._model, f"the conversation is longer than the model can hold: {reason}")
        return ModelUnavailable(self._model, reason)

    def _check_end(self, reply: Reply) -> None:
        if reply.stop_reason == REFUSAL:
            raise ModelRefused(self._model, f"it refused{': ' if reply.refusal else ''}{reply.refusal}")
        if reply.stop_reason == MAX_TOKENS_REACHED:
            raise ReplyCutOff(self._model, f"the reply is longer than {self._max_tokens} tokens; raise max_tokens")
        if reply.stop_reason == CONTEXT_FULL:
            raise ContextFull(self._model, "the conversation is longer than the model can hold")
