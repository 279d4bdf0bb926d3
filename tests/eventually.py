"""Waiting for what happens elsewhere: the only waiting aid of the tests."""

import time
from collections.abc import Callable
from threading import Event


def eventually(condition: Callable[[], object], deadline_s: float = 15.0, *, interval_s: float = 0.01) -> None:
    """Return as soon as `condition()` is true; fail when it is not by the deadline."""
    end_s = time.monotonic() + deadline_s
    pause = Event()
    while not condition():
        assert time.monotonic() < end_s, f"did not happen within {deadline_s} s"
        pause.wait(interval_s)
