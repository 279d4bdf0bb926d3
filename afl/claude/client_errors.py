"""Errors of the client of the Messages API: its library, and its key."""

from __future__ import annotations

from afl.core.errors import RuntimeError as EngineError


class ClaudeNotInstalled(EngineError):
    """The client library is missing."""

    def __init__(self) -> None:
        super().__init__("the anthropic package is not installed; install afl-stream[claude], or pass another client")


class ClaudeKeyUnusable(EngineError):
    """The API key contains a character that no key has."""

    def __init__(self, place: int, length: int) -> None:
        super().__init__(
            f"the API key (ANTHROPIC_API_KEY, or api_key) has a blank, a line break or another character that no key "
            f"has, at place {place} of {length}"
        )
        self.place = place
        self.length = length
