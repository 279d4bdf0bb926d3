"""The few states that statuses of runs, steps, servers and tasks amount to: each has a colour and a sign."""

from __future__ import annotations

from typing import Final

_STATES: Final = {
    "RUNNING": "running",
    "WAITING": "waiting",
    "COMPLETED": "complete",
    "ERROR": "failed",
    "CANCELLED": "stopped",
    "complete": "complete",
    "failed": "failed",
    "failed, caught": "caught",
    "cancelled": "stopped",
    "stopped": "stopped",
    "runs": "running",
    "running": "running",
    "startup": "running",
    "shutdown": "stopped",
    "error": "failed",
    "stale": "caught",
    "pending": "waiting",
    "completed": "complete",
    "ignored": "stopped",
    "canceled": "stopped",
    "paused": "waiting",
    "active": "complete",
}
#: What stands before the word, for those who do not see the colour.
SIGNS: Final = {
    "running": "●",
    "waiting": "◷",
    "complete": "✓",
    "failed": "✕",
    "caught": "!",
    "stopped": "⊘",
}


#: The statuses of runs that people have another word for.
_WORDS: Final = {"ERROR": "failed", "PAUSED": "waiting"}


def words_of(status: str) -> str:
    """Return a status as people say it."""
    return _WORDS.get(status, status.lower())


def state_of(status: str) -> str:
    """Return the state that a status amounts to: every status that waits for something is `waiting`."""
    return _STATES.get(status, "waiting")
