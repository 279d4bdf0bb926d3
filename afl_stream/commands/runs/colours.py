"""The colours of states, the same in every command."""

from __future__ import annotations

from typing import Final

#: By the status of a run, or of a step, in words.
_COLOURS: Final = {
    "COMPLETED": "green",
    "ERROR": "red",
    "CANCELLED": "yellow",
    "WAITING": "cyan",
    "RUNNING": "blue",
    "complete": "green",
    "failed": "red",
    "failed, caught": "yellow",
    "cancelled": "yellow",
    "stopped": "yellow",
}
_WAITS: Final = "cyan"


def colour_of(status: str) -> str:
    """Return the colour of a status."""
    return _COLOURS.get(status, _WAITS)
