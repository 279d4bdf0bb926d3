"""Our messages as those of Anthropic's Messages API, and its replies as ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from afl.claude.replies import Reply
from afl_stream.pubsub.llm.language_model import FunctionSpec
from afl_stream.pubsub.llm.messages import Message, Role, ToolCall, Usage

#: Names the form of a message's `provider_content`. It is stored: never change it.
PROVIDER: Final = "anthropic"
#: What our own fields hold of a block. A block with more than that is kept as it is.
_OWN_FIELDS: Final = {"text": {"type", "text"}, "tool_use": {"type", "id", "name", "input"}}

Block = dict[str, Any]


def api_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as the API wants them: user and assistant take turns, and none is empty.

    Results of calls are the user's there, and stand before a text.
    """
    made: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = _blocks(message)
        if not blocks:
            continue
        if made and made[-1]["role"] == role:
            made[-1]["content"].extend(blocks)
        else:
            made.append({"role": role, "content": blocks})
    return made


def api_tools(specs: Sequence[FunctionSpec]) -> list[dict[str, Any]]:
    """Return functions as the API's tools."""
    return [
        {"name": spec["name"], "description": spec.get("description", ""), "input_schema": dict(spec["parameters"])}
        for spec in specs
    ]


def reply_message(replies: Sequence[Reply]) -> Message:
    """Return the message of a reply, which the API may have given in several pieces."""
    blocks = [_plain(block) for reply in replies for block in reply.content]
    is_plain = all(set(block) <= _OWN_FIELDS.get(block.get("type", ""), set()) for block in blocks)
    return Message(
        role=Role.ASSISTANT,
        text="".join(block["text"] for block in blocks if block.get("type") == "text"),
        tool_calls=tuple(
            ToolCall(id=use.id, name=use.name, arguments=dict(use.input)) for reply in replies for use in reply.uses
        ),
        provider="" if is_plain else PROVIDER,
        provider_content=None if is_plain else blocks,
    )


def reply_usage(replies: Sequence[Reply]) -> Usage:
    """Return the number of requests and tokens of a reply."""
    total = Usage()
    for reply in replies:
        used = reply.usage
        total += Usage(
            requests=used.requests,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens,
        )
    return total


def _blocks(message: Message) -> list[Block]:
    if message.provider == PROVIDER and isinstance(message.provider_content, list):
        return [dict(block) for block in message.provider_content]
    blocks: list[Block] = [_result(result.call_id, result.text, result.is_error) for result in message.tool_results]
    if message.text.strip():
        blocks.append({"type": "text", "text": message.text})
    for call in message.tool_calls:
        # Another provider's model may have given what is no object; the API takes objects only.
        given = dict(call.arguments) if isinstance(call.arguments, Mapping) else {"arguments": call.arguments}
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    return blocks


def _result(call_id: str, text: str, is_error: bool) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return {**block, "is_error": True} if is_error else block


def _plain(block: Any) -> Block:
    """Return a block as a value of JSON, without fields that say nothing."""
    found = block if isinstance(block, Mapping) else block.model_dump(mode="json", exclude_unset=True)
    return {name: value for name, value in found.items() if value is not None}
