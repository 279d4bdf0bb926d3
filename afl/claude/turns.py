"""Hold conversations with Claude: send the requests, run the tools in between, count the tokens."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Mapping
from threading import Lock
from typing import Any, Protocol

from afl.claude.conversation import (
    Ask,
    Brief,
    ToolOutcome,
    UseTool,
    converse,
    result_text,
)
from afl.claude.errors import ClaudeUnavailable
from afl.claude.replies import ClaudeUsage, Reply, read_reply
from afl.claude.request_failures import request_failure
from afl.core.handlers.returned import awaitable_of
from afl.core.text.exception_text import exception_line
from afl.workers.task_context import call_shape
from afl.workers.tool_registry import ToolRegistry

_log = logging.getLogger(__name__)


class ClaudeClient(Protocol):
    """The interface of a client; `anthropic.Anthropic` and `anthropic.AsyncAnthropic` have it.

    Its `messages.create` takes the arguments from `Brief.request`, and returns a message, or an awaitable of one.
    """

    @property
    def messages(self) -> Any: ...


class ClaudeTurns:
    """Conversations with one client. Thread-safe as far as the client is. `usage` counts all of them."""

    def __init__(self, client: ClaudeClient, registry: ToolRegistry | None = None) -> None:
        self._client = client
        self._registry = registry or ToolRegistry()
        self._lock = Lock()
        self.usage = ClaudeUsage()

    def answer(self, brief: Brief, context: object = None) -> dict[str, Any]:
        """Get the answer to an event; `context` is for tools that take one. Raises ClaudeFailed."""
        used, talk = ClaudeUsage(), converse(brief)
        step: Reply | ToolOutcome | None = None
        try:
            while True:
                todo = talk.send(step)
                if isinstance(todo, Ask):
                    step = self._ask(brief, todo)
                    used.add(step.usage)
                else:
                    step = self._use(todo, context)
        except StopIteration as end:
            answer: dict[str, Any] = end.value
            return answer
        finally:
            self._record(brief, used)

    async def answer_async(self, brief: Brief, context: object = None) -> dict[str, Any]:
        """Get the answer as a coroutine; a synchronous client is called in a thread."""
        used, talk = ClaudeUsage(), converse(brief)
        step: Reply | ToolOutcome | None = None
        try:
            while True:
                todo = talk.send(step)
                if isinstance(todo, Ask):
                    step = await self._ask_async(brief, todo)
                    used.add(step.usage)
                else:
                    step = await self._use_async(todo, context)
        except StopIteration as end:
            answer: dict[str, Any] = end.value
            return answer
        finally:
            self._record(brief, used)

    # The client.

    def _ask(self, brief: Brief, ask: Ask) -> Reply:
        try:
            response = self._client.messages.create(**ask.request)
            if inspect.iscoroutine(response):
                response.close()
                raise TypeError("an asynchronous client is for handle_async; give claude_client() here")
            return read_reply(response)
        except Exception as error:  # noqa: BLE001 - whatever it is, the request has failed
            raise self._unavailable(brief, error) from None

    async def _ask_async(self, brief: Brief, ask: Ask) -> Reply:
        try:
            response = await asyncio.to_thread(self._client.messages.create, **ask.request)
            return read_reply(await response if inspect.isawaitable(response) else response)
        except Exception as error:  # noqa: BLE001 - whatever it is, the request has failed
            raise self._unavailable(brief, error) from None

    def _unavailable(self, brief: Brief, error: Exception) -> ClaudeUnavailable:
        """Return the error for a failed request. It is raised without its cause: see `request_failure`."""
        return ClaudeUnavailable(brief.facet, request_failure(self._client, brief.facet, error))

    def _record(self, brief: Brief, used: ClaudeUsage) -> None:
        with self._lock:
            self.usage.add(used)
        _log.info(
            "%s: %s requests, %s tokens in, %s out",
            brief.facet,
            used.requests,
            used.input_tokens,
            used.output_tokens,
            extra={
                "facet": brief.facet,
                "model": brief.model,
                "requests": used.requests,
                "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens,
                "cache_read_tokens": used.cache_read_tokens,
                "cache_write_tokens": used.cache_write_tokens,
            },
        )

    # Tools that run in this process.

    def _use(self, use: UseTool, context: object) -> ToolOutcome:
        try:
            result = self._call(use, context)
            waiting = awaitable_of(result)
            return _outcome(result if waiting is None else _run(waiting))
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - Claude may find another way
            return _failed(error)

    async def _use_async(self, use: UseTool, context: object) -> ToolOutcome:
        try:
            handler = self._registry.find(use.facet)
            if handler is not None and not call_shape(handler).is_async:
                result = await asyncio.to_thread(self._call, use, context)
            else:
                result = self._call(use, context)
            waiting = awaitable_of(result)
            return _outcome(result if waiting is None else await waiting)
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - Claude may find another way
            return _failed(error)

    def _call(self, use: UseTool, context: object) -> Any:
        handler, taken = self._registry.find(use.facet), dict(use.input)
        if handler is not None and context is not None and call_shape(handler).takes_context:
            return handler(taken, context)
        return self._registry.handle(use.facet, taken) if self._registry.has_handler(use.facet) else taken


def payload_text(payload: Mapping[str, Any]) -> str:
    """Return a payload as text for Claude."""
    return json.dumps(payload, ensure_ascii=False, indent=2, default=str)


def _run(waiting: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await waiting

    return asyncio.run(wait())


def _outcome(result: object) -> ToolOutcome:
    return ToolOutcome(result_text({} if result is None else result))


def _failed(error: BaseException) -> ToolOutcome:
    return ToolOutcome(exception_line(error), is_error=True)
