"""Conversations as event data: each event carries the whole conversation so far.

So no node keeps a history of its own. What a node needs is in the events that it takes, and a request that is restored
in a new process goes on with what its events hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from afl_stream.pubsub.llm.errors import ConversationInvalid
from afl_stream.pubsub.llm.language_model import ModelReply
from afl_stream.pubsub.llm.messages import (
    Message,
    Role,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
    read_messages,
    user_message,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages so far, why the last reply ended, and what all requests together cost."""

    messages: tuple[Message, ...] = ()
    #: None: the last message is no reply.
    stop_reason: StopReason | None = None
    #: The model of the last reply.
    model: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        """The text of the last message: at the end, the answer."""
        return self.messages[-1].text if self.messages else ""

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that no result answers."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message.role is Role.ASSISTANT:
                return tuple(call for call in message.tool_calls if call.id not in answered)
            answered.update(result.call_id for result in message.tool_results)
        return ()

    @property
    def replies_since_question(self) -> int:
        """How many replies followed the last message of the user."""
        count = 0
        for message in reversed(self.messages):
            if message.role is Role.USER:
                break
            count += message.role is Role.ASSISTANT
        return count

    @property
    def until_last_reply(self) -> tuple[Message, ...]:
        """The messages up to the last reply; all of them where there is none."""
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].role is Role.ASSISTANT:
                return self.messages[: index + 1]
        return self.messages

    def joined(self, other: Conversation) -> Conversation:
        """Return the conversation with what another one, with the same last reply, has after that."""
        made = self
        for message in other.messages[len(other.until_last_reply) :]:
            if message.role is Role.TOOL:
                known = {call.id for call in made.open_calls}
                made = made.answered([result for result in message.tool_results if result.call_id in known])
            else:
                made = replace(made, messages=(*made.messages, message), stop_reason=None)
        return made

    def asked(self, text: str) -> Conversation:
        """Return the conversation with a further message of the user."""
        return replace(self, messages=(*self.messages, user_message(text)), stop_reason=None)

    def replied(self, reply: ModelReply) -> Conversation:
        """Return the conversation with a reply."""
        return Conversation(
            messages=(*self.messages, reply.message),
            stop_reason=reply.stop_reason,
            model=reply.model or self.model,
            usage=self.usage + reply.usage,
        )

    def answered(self, results: Sequence[ToolResult]) -> Conversation:
        """Return the conversation with results of the last reply's calls, which stand right behind it."""
        before = self.until_last_reply
        after = self.messages[len(before) :]
        if after and after[0].role is Role.TOOL:
            results = (*after[0].tool_results, *results)
            after = after[1:]
        if results:
            after = (Message(role=Role.TOOL, tool_results=tuple(results)), *after)
        return replace(self, messages=(*before, *after), stop_reason=None)

    def declined(self, reason: str) -> Conversation:
        """Return the conversation with an error in place of each result that is missing: the calls were not made."""
        return self.answered(
            [ToolResult(call_id=call.id, name=call.name, text=reason, is_error=True) for call in self.open_calls]
        )

    def to_data(self) -> dict[str, Any]:
        """Return the conversation as event data. `text` is that of the last message, for readers of an answer."""
        made: dict[str, Any] = {
            "text": self.text,
            "messages": [message.to_data() for message in self.messages],
            "usage": self.usage.to_data(),
        }
        if self.stop_reason is not None:
            made["stop_reason"] = str(self.stop_reason)
        if self.model:
            made["model"] = self.model
        return made

    @classmethod
    def from_data(cls, data: object) -> Conversation:
        """Return the conversation that event data holds. Raises ConversationInvalid that names the place."""
        if not holds_conversation(data):
            raise ConversationInvalid(f"event data with a conversation is an object with messages; found {data!r:.80}")
        stop_reason = data.get("stop_reason")
        if stop_reason is not None and stop_reason not in set(StopReason):
            raise ConversationInvalid(f"stop_reason is {stop_reason!r}; it is one of {', '.join(StopReason)}")
        return cls(
            messages=read_messages(data["messages"]),
            stop_reason=None if stop_reason is None else StopReason(stop_reason),
            model=str(data.get("model") or ""),
            usage=Usage.from_data(data.get("usage") or {}),
        )


def holds_conversation(data: object) -> TypeGuard[Mapping[str, Any]]:
    """Say whether event data is a conversation, by its form: an object with messages."""
    return isinstance(data, Mapping) and "messages" in data


def conversations_of(events: Sequence[object], prompt: Callable[[object], str]) -> tuple[Conversation, ...]:
    """Return the conversations that the data of a node's events hold, in the order in which they first occur.

    Results of one reply's calls may come in several events, from several nodes: those make one conversation. Data
    that is no conversation is a question, which `prompt` puts into words; questions go on with the conversation that
    came with them, or begin one. Where several conversations came, they begin one of their own.
    """
    found: dict[str, Conversation] = {}
    questions: list[str] = []
    for data in events:
        if not holds_conversation(data):
            questions.append(prompt(data))
            continue
        conversation = Conversation.from_data(data)
        base = conversation.until_last_reply
        shared = bool(base) and bool(base[-1].tool_calls)
        same = json.dumps([message.to_data() for message in base], sort_keys=True) if shared else f"#{len(found)}"
        found[same] = conversation if same not in found else found[same].joined(conversation)
    if questions:
        alone = len(found) == 1
        same = next(iter(found)) if alone else ""
        for text in questions:
            found[same] = found.get(same, Conversation()).asked(text)
    return tuple(found.values())


def question_text(data: object) -> str:
    """Return data as the text of a question: a text as it is, other values as JSON."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def calls_functions(data: object) -> bool:
    """Condition of a destination: the model asks for functions."""
    return isinstance(data, Mapping) and data.get("stop_reason") == StopReason.TOOL_CALLS


def is_answer(data: object) -> bool:
    """Condition of a destination: the model has answered, and asks for no function."""
    return isinstance(data, Mapping) and data.get("stop_reason") == StopReason.END
