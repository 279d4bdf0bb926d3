"""Requests to language models as spans, by the conventions of OpenInference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from afl_stream.pubsub.llm.language_model import FunctionSpec, LanguageModel, ModelReply
from afl_stream.pubsub.llm.messages import Message, Usage
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.spans import Span, current_span

#: Attributes of one span that hold messages and tools. OpenTelemetry keeps 128 of a span, and drops its first ones.
_MOST_PARTS: Final = 96
_MOST_TOOLS: Final = 32


async def traced_reply(
    model: LanguageModel, messages: Sequence[Message], specs: Sequence[FunctionSpec], system: str
) -> ModelReply:
    """Return the model's reply, and tell of the request as a span below the current one."""
    attributes = {"llm.model_name": model.model}
    if provider := getattr(model, "provider", ""):
        attributes["llm.provider"] = str(provider)
    with current_span().child(model.model, OpenInferenceSpanKindValues.LLM, attributes) as span:
        if span.records_payloads:
            _tell_request(span, messages, specs, system)
        reply = await model.generate(messages, specs, system=system)
        span.set({"llm.finish_reason": str(reply.stop_reason), **_token_counts(reply.usage)})
        if reply.model:
            span.set({"llm.model_name": reply.model})
        if span.records_payloads:
            span.output(reply.message.to_data())
            span.set(_listed("llm.output_messages", list(_parts(reply.message)), _MOST_TOOLS))
    return reply


def _tell_request(span: Span, messages: Sequence[Message], specs: Sequence[FunctionSpec], system: str) -> None:
    span.input([message.to_data() for message in messages])
    told = [{"message.role": "system", "message.content": system}] if system else []
    told += [part for message in messages for part in _parts(message)]
    tools = [{"tool.json_schema": json.dumps(spec, ensure_ascii=False)} for spec in specs[:_MOST_TOOLS]]
    span.set(_listed("llm.tools", tools, _MOST_TOOLS))
    span.set(_listed("llm.input_messages", told, _MOST_PARTS - len(tools)))


def _parts(message: Message) -> Iterator[dict[str, str]]:
    """Yield a message as messages of OpenInference, where each result of a call is one of its own."""
    for result in message.tool_results:
        yield {
            "message.role": "tool",
            "message.content": result.text,
            "message.tool_call_id": result.call_id,
            "message.name": result.name,
        }
    if message.tool_results:
        return
    made = {"message.role": str(message.role), "message.content": message.text}
    for number, call in enumerate(message.tool_calls):
        place = f"message.tool_calls.{number}.tool_call"
        made[f"{place}.id"] = call.id
        made[f"{place}.function.name"] = call.name
        made[f"{place}.function.arguments"] = json.dumps(call.arguments, ensure_ascii=False)
    yield made


def _listed(name: str, parts: Sequence[dict[str, str]], most: int) -> dict[str, str]:
    """Return a list as attributes: the last ones, as many as there is room for."""
    made: dict[str, str] = {}
    for number in reversed(range(len(parts))):
        if len(made) + len(parts[number]) > most:
            break
        made.update({f"{name}.{number}.{attribute}": value for attribute, value in parts[number].items()})
    return made


def _token_counts(usage: Usage) -> dict[str, int]:
    """Return the tokens of a reply; nothing where the provider does not tell. A prompt's include the cached ones."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    if not prompt and not usage.output_tokens:
        return {}
    return {
        "llm.token_count.prompt": prompt,
        "llm.token_count.completion": usage.output_tokens,
        "llm.token_count.total": prompt + usage.output_tokens,
        "llm.token_count.prompt_details.cache_read": usage.cache_read_tokens,
        "llm.token_count.prompt_details.cache_write": usage.cache_write_tokens,
    }
