"""The base of the engine's errors, and how they show the path of a step."""

from __future__ import annotations

from typing import Final

from afl.core.errors import RuntimeError as RuntimeError


def shown_path(path: str) -> str:
    """Return the path for messages: of a very deep path only its two ends, which show where it begins and ends."""
    return path if len(path) <= _MAX_SHOWN_PATH else f"{path[:60]} ... {path[-120:]}"


_MAX_SHOWN_PATH: Final = 240
