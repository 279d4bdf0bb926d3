"""Errors that keep Claude from answering an event; the class names are the error types of the failed steps."""

from __future__ import annotations

from afl.engine.errors import RuntimeError as EngineError


class ClaudeFailed(EngineError):
    """Claude gave no answer to an event; the text says for which facet, and why."""

    def __init__(self, facet: str, reason: str) -> None:
        super().__init__(f"Claude did not answer {facet}: {reason}")
        self.facet = facet
        self.reason = reason


class ClaudeUnavailable(ClaudeFailed):
    """The request failed: no network, a wrong key, an unknown model, a rate limit that outlasted all retries."""


class ClaudeRefused(ClaudeFailed):
    """The request was refused."""


class ClaudeCutOff(ClaudeFailed):
    """The reply, or the conversation, exceeded its length limit."""


class ClaudeGaveNoAnswer(ClaudeFailed):
    """The replies contain no answer with the facet's declared returns, after all turns and retries."""


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
