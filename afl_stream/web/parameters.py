"""What is wrong with a parameter of a request."""

from __future__ import annotations

from afl_stream.errors import StreamError


class BadParameter(StreamError):
    """A parameter of a request has no meaning; the message names it."""

    def __init__(self, name: str, found: object, expected: str) -> None:
        super().__init__(f"{name}: found {str(found)[:100]!r}, expected {expected}")
        self.name = name
