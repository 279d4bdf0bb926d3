"""Errors that keep Claude from answering an event; the class names are the error types of the failed steps."""

from __future__ import annotations

from afl.claude.client_errors import ClaudeKeyUnusable as ClaudeKeyUnusable
from afl.claude.client_errors import ClaudeNotInstalled as ClaudeNotInstalled
from afl.core.errors import RuntimeError as EngineError


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
