"""Replies of models made fit to be the data of events: a model may say what no value of JSON can hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from afl.core.limits import LONG_MAX, LONG_MIN, MAX_VALUE_DEPTH
from afl.core.values import ValueRefused, plain_value
from afl_stream.pubsub.llm.messages import Message, ToolCall

#: A message is some levels deep in the data of its event.
_MOST_LEVELS: Final = MAX_VALUE_DEPTH // 2


def storable(message: Message) -> Message:
    """Return a reply as it can be stored; nearly every one as it is.

    Halves of surrogate pairs become question marks, and numbers that no value holds become texts: the function that
    they are for refuses those, and the model hears of it. What only the provider understands is kept as it is, or not.
    """
    keeps_own = _is_storable(message.provider_content)
    return replace(
        message,
        text=_encodable(message.text),
        tool_calls=tuple(_storable_call(call) for call in message.tool_calls),
        provider=message.provider if keeps_own else "",
        provider_content=message.provider_content if keeps_own else None,
    )


def _storable_call(call: ToolCall) -> ToolCall:
    arguments = call.arguments
    if not _is_storable(arguments):
        arguments = _mended(arguments, 0)
    return ToolCall(id=_encodable(call.id), name=_encodable(call.name), arguments=arguments)


def _is_storable(value: object) -> bool:
    try:
        plain_value([value], "reply")
    except ValueRefused:
        return False
    return _levels(value, 0) <= _MOST_LEVELS


def _levels(value: object, above: int) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((_levels(part, above + 1) for part in inner), default=above)


def _mended(value: object, level: int) -> object:
    if level >= _MOST_LEVELS:
        return _encodable(json.dumps(value, default=repr))
    if isinstance(value, dict):
        return {_encodable(str(name)): _mended(part, level + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(part, level + 1) for part in value]
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if LONG_MIN <= value <= LONG_MAX else str(value)
    return value if isinstance(value, float) and value - value == 0 else str(value)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
