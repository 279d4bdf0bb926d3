"""The death of a process, as a test simulates it: the only exception that does not stand for a mistake."""

from __future__ import annotations


class Crash(BaseException):
    """The simulated death of the process: even code that catches all exceptions of a handler must not stop it."""

    def __init__(self, point: str) -> None:
        super().__init__(f"crashed at {point}")
        self.point = point
