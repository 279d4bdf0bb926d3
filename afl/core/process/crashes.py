"""The death of a process, as a test makes it: the one exception that stands for no mistake of anybody."""

from __future__ import annotations


class Crash(BaseException):
    """Stands for the death of the process: nothing may stop it, not even what stops every exception of a handler."""

    def __init__(self, point: str) -> None:
        super().__init__(f"crashed at {point}")
        self.point = point
