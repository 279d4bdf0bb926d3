"""The garbage collector of a process: of a service, and of a command."""

from __future__ import annotations

import gc
from typing import Final

#: How many more objects there are, or collections of the younger ones, before there is a collection.
_THRESHOLDS: Final = (200_000, 10, 50)


def tune_collector() -> None:
    """Set the garbage collector for a process that keeps many small, long-lived records.

    The default scans all of them after every few thousand new ones; measured, that costs two thirds of the time at
    100,000 steps. Call once, when a service starts.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def expect_a_short_life() -> None:
    """Set the garbage collector for a command, which mostly loads modules: collections were some 3 % of `afl check`.

    Call once, before the modules are loaded.
    """
    gc.set_threshold(*_THRESHOLDS)
