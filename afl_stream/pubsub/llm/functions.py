"""A Python function as a tool of a language model."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from afl.core.handlers.returned import awaitable_of
from afl.core.text.exception_text import exception_line
from afl_stream.pubsub.llm.errors import FunctionUnusable
from afl_stream.pubsub.llm.language_model import FunctionSpec
from afl_stream.pubsub.llm.messages import ToolCall, ToolResult
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.spans import Span, current_span
from afl_stream.pubsub.model.thread_calls import call_in_own_thread

if TYPE_CHECKING:
    from afl_stream.pubsub.llm.function_schemas import FunctionSchema

#: Names that the providers accept.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Characters of a result that a model gets, some 25,000 tokens. A conversation carries each result to its end.
MAX_RESULT_CHARS: Final = 100_000


class FunctionTool:
    """A function that a model may call.

    Name, description and parameters are those of the function: its types become a JSON Schema, its docstring the
    description, with a text for each parameter where it lists them (Google, NumPy, reST style) or where its type says
    so: `Annotated[str, "the city's name"]`. A parameter of type InvokeContext gets the context of the request, and the
    model does not see it. A plain function runs in a thread; a coroutine function on the event loop.

    Of a long result the model gets the first `max_result_chars` characters. After `timeout_s` the call is an error; a
    thread goes on, and keeps no process from ending.

    Raises FunctionUnusable, which names the parameter, for a function that a schema cannot describe, and
    FunctionsNotInstalled without the extra `llm`.
    """

    def __init__(
        self,
        function: Callable[..., object],
        *,
        name: str = "",
        description: str = "",
        timeout_s: float | None = None,
        max_result_chars: int = MAX_RESULT_CHARS,
    ) -> None:
        # Here, so that a program without functions needs no extra.
        from afl_stream.pubsub.llm.function_schemas import FunctionSchema, result_text

        self.function = function
        self.name = name or _name_of(function)
        if not _NAME.fullmatch(self.name):
            raise FunctionUnusable(
                self.name, f"a model cannot call it by this name; give another one of the form {_NAME.pattern}"
            )
        self._timeout_s = timeout_s
        self._max_result_chars = max_result_chars
        self._schema: FunctionSchema = FunctionSchema(self.name, function, InvokeContext)
        self._result_text = result_text
        self.spec: FunctionSpec = {
            "name": self.name,
            "description": description or self._schema.description,
            "parameters": self._schema.parameters,
        }
        self._parameters_text = json.dumps(self._schema.parameters)

    async def call(self, context: InvokeContext, call: ToolCall) -> ToolResult:
        """Run the function, and return its outcome for the model.

        Arguments that do not fit the types, and what the function raises, are results too, marked as errors: the
        model may find another way.
        """
        attributes = {
            "tool.name": self.name,
            "tool.description": self.spec["description"],
            "tool.parameters": self._parameters_text,
            "tool.id": call.id,
        }
        with current_span().child(self.name, OpenInferenceSpanKindValues.TOOL, attributes) as span:
            span.input(call.arguments)
            arguments, fault = self._schema.read(call.arguments)
            if fault:
                # The fault quotes arguments, which are payload.
                span.fail(TypeError("the arguments do not fit the types of the function"))
                return self._failed(call, f"{self.name} was not called: {fault}")
            given = dict(arguments)
            if self._schema.given_parameter is not None:
                given[self._schema.given_parameter] = context
            result = await self._result(call, given, span)
            span.output(result.text)
            return result

    async def _result(self, call: ToolCall, given: dict[str, Any], span: Span) -> ToolResult:
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                text = self._result_text(await self._run(given))
        except (Exception, SystemExit, GeneratorExit, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # The function's own error, a cancellation of what it awaited included: the model may find another way.
            span.fail(error)
            is_late = isinstance(error, TimeoutError) and limit.expired()
            return self._failed(
                call, f"{self.name} took longer than {self._timeout_s} s" if is_late else exception_line(error)
            )
        return ToolResult(call_id=call.id, name=self.name, text=self._shortened(text))

    async def _run(self, given: dict[str, Any]) -> object:
        function = self.function
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            result = function(**given)
        else:
            result = await call_in_own_thread(f"function-{self.name}", partial(function, **given))
        waiting = awaitable_of(result)
        return result if waiting is None else await waiting

    def _shortened(self, text: str) -> str:
        most = self._max_result_chars
        return text if len(text) <= most else f"{text[:most]}\n(the first {most} of {len(text)} characters)"

    def _failed(self, call: ToolCall, reason: str) -> ToolResult:
        return ToolResult(call_id=call.id, name=self.name, text=reason, is_error=True)


def _name_of(function: object) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", "") or type(function).__name__


def as_tool(function: Callable[..., object] | FunctionTool) -> FunctionTool:
    """Return a function as a tool, and a tool as it is."""
    return function if isinstance(function, FunctionTool) else FunctionTool(function)
