"""What the steps of one workflow have made for its next commit: a batch that is used again.

A batch has many containers, and most workflows use one of them.
"""

from __future__ import annotations

from typing import Final

from afl.engine.model.store import Batch

_SPARE: Final[list[Batch]] = []
_MOST_SPARE: Final = 1_024


def empty_effects() -> Batch:
    """Return an empty batch. Any thread may call this."""
    try:
        return _SPARE.pop()
    except IndexError:
        return Batch(values_checked=True)


def reuse(effects: Batch) -> bool:
    """Take back effects with nothing but outbox records, which are copied, and no other holder; False: there is more.

    In dispatch mode `topic` most have no more. Any thread may call this.
    """
    if (
        effects.tasks
        or effects.task_ends
        or effects.logs
        or effects.timers
        or effects.timers_done
        or effects.history
        or effects.history_changes
        or effects.history_trims
        or effects.programs
    ):
        return False
    effects.outbox.clear()
    if len(_SPARE) < _MOST_SPARE:
        _SPARE.append(effects)
    return True
