"""Messages between a program and a language model, independent of who serves the model; they travel as event data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from afl_stream.pubsub.llm.errors import ConversationInvalid


class Role(StrEnum):
    """Who says a message. Values are stored: never change one."""

    USER = "user"
    ASSISTANT = "assistant"
    #: The results of functions that the model called.
    TOOL = "tool"


class StopReason(StrEnum):
    """Why a reply ended, where it is a good one; the others raise ModelFailed. Values are stored: never change one."""

    END = "end"
    TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a function that the model asks for.

    `arguments` is what the model gave: an object of JSON, unless the model made a mistake. What a provider cannot
    read as JSON stands here as text.
    """

    id: str
    name: str
    arguments: object = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The outcome of one call, as text for the model. `is_error`: the call failed, and the text says why."""

    call_id: str
    name: str
    text: str
    is_error: bool = False

    def to_data(self) -> dict[str, Any]:
        made: dict[str, Any] = {"call_id": self.call_id, "name": self.name, "text": self.text}
        return {**made, "is_error": True} if self.is_error else made


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: text of the user, a reply with the calls that it asks for, or results of calls.

    `provider_content` is a reply in the form of the provider named `provider`, where it has parts that the other
    fields cannot hold (thinking with a signature); that provider gets it back as it was.
    """

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    provider: str = ""
    provider_content: object = None

    def to_data(self) -> dict[str, Any]:
        """Return the message as a value of JSON, without what is empty."""
        made: dict[str, Any] = {"role": str(self.role)}
        if self.text:
            made["text"] = self.text
        if self.tool_calls:
            made["tool_calls"] = [call.to_data() for call in self.tool_calls]
        if self.tool_results:
            made["tool_results"] = [result.to_data() for result in self.tool_results]
        if self.provider:
            made["provider"] = self.provider
            made["provider_content"] = self.provider_content
        return made

    @classmethod
    def from_data(cls, data: object, place: str = "message") -> Message:
        """Return the message that a value of JSON holds. Raises ConversationInvalid that names the place."""
        found = _object(data, place)
        try:
            role = Role(str(found.get("role")))
        except ValueError:
            raise ConversationInvalid(
                f"{place}.role is {found.get('role')!r}; it is one of {', '.join(Role)}"
            ) from None
        return cls(
            role=role,
            text=_text(found, "text", place, ""),
            tool_calls=tuple(
                ToolCall(id=_text(call, "id", at), name=_text(call, "name", at), arguments=call.get("arguments", {}))
                for at, call in _objects(found, "tool_calls", place)
            ),
            tool_results=tuple(
                ToolResult(
                    call_id=_text(result, "call_id", at),
                    name=_text(result, "name", at, ""),
                    text=_text(result, "text", at, ""),
                    is_error=result.get("is_error") is True,
                )
                for at, result in _objects(found, "tool_results", place)
            ),
            provider=_text(found, "provider", place, ""),
            provider_content=found.get("provider_content"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The number of requests and tokens."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in _USAGE_FIELDS})

    def to_data(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in _USAGE_FIELDS}

    @classmethod
    def from_data(cls, data: object, place: str = "usage") -> Usage:
        found = _object(data, place)
        return cls(**{name: _count(found, name, place) for name in _USAGE_FIELDS})


_USAGE_FIELDS: Final = ("requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def user_message(text: str) -> Message:
    """Return a message of the user."""
    return Message(role=Role.USER, text=text)


def read_messages(data: object, place: str = "messages") -> tuple[Message, ...]:
    """Return the messages that a list of JSON holds. Raises ConversationInvalid that names the place."""
    if not isinstance(data, list | tuple):
        raise ConversationInvalid(f"{place} is a {type(data).__name__}; it is a list of messages")
    return tuple(Message.from_data(item, f"{place}[{index}]") for index, item in enumerate(data))


def _object(data: object, place: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ConversationInvalid(f"{place} is a {type(data).__name__}; it is an object")
    return data


def _objects(found: Mapping[str, Any], name: str, place: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
    listed = found.get(name, ())
    if not isinstance(listed, list | tuple):
        raise ConversationInvalid(f"{place}.{name} is a {type(listed).__name__}; it is a list")
    places = [f"{place}.{name}[{index}]" for index in range(len(listed))]
    return [(at, _object(item, at)) for at, item in zip(places, listed, strict=True)]


def _text(found: Mapping[str, Any], name: str, place: str, default: str | None = None) -> str:
    value = found.get(name, default)
    if not isinstance(value, str):
        raise ConversationInvalid(f"{place}.{name} is {'missing' if value is None else repr(value)}; it is a text")
    return value


def _count(found: Mapping[str, Any], name: str, place: str) -> int:
    value = found.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConversationInvalid(f"{place}.{name} is {value!r}; it is a number of tokens or requests")
    return value
