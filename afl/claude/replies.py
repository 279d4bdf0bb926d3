"""A reply of the Messages API, read independently of the client's kind of object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: The reasons for the end of a reply, as the Messages API names them.
TOOL_USE: Final = "tool_use"
PAUSE_TURN: Final = "pause_turn"
MAX_TOKENS_REACHED: Final = "max_tokens"
CONTEXT_FULL: Final = "model_context_window_exceeded"
REFUSAL: Final = "refusal"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A use of a tool that Claude requests."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(slots=True)
class ClaudeUsage:
    """The number of requests and tokens."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def add(self, other: ClaudeUsage) -> None:
        """Add another count."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cache_read_tokens += other.cache_read_tokens
        self.cache_write_tokens += other.cache_write_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of Claude, independent of the client's kind of object."""

    content: Sequence[object]
    stop_reason: str
    uses: Sequence[ToolUse] = ()
    refusal: str = ""
    usage: ClaudeUsage = field(default_factory=ClaudeUsage)


def read_reply(response: object) -> Reply:
    """Read a response of the Messages API: an object of the anthropic client, a dict, or a similar object."""
    content = list(_part(response, "content") or ())
    uses = [
        ToolUse(str(_part(block, "id")), str(_part(block, "name")), dict(_part(block, "input") or {}))
        for block in content
        if _part(block, "type") == TOOL_USE
    ]
    stop_reason = str(_part(response, "stop_reason") or "")
    explanation = _part(_part(response, "stop_details"), "explanation") if stop_reason == REFUSAL else None
    usage = _part(response, "usage")
    return Reply(
        content,
        stop_reason,
        uses,
        explanation if isinstance(explanation, str) else "",
        ClaudeUsage(
            1,
            _count(usage, "input_tokens"),
            _count(usage, "output_tokens"),
            _count(usage, "cache_read_input_tokens"),
            _count(usage, "cache_creation_input_tokens"),
        ),
    )


def _part(thing: object, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _count(usage: object, name: str) -> int:
    found = _part(usage, name)
    return found if isinstance(found, int) else 0
