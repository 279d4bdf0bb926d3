"""A run's status in words: apart from the reports, so that a list of runs loads no part of the language."""

from __future__ import annotations


def shown_status(status: str) -> str:
    """Return a run's status as it is shown. The stored PAUSED means that it waits for answers."""
    # Here: the commands are declared without the engine.
    from afl.engine.model.workflow_rows import PAUSED

    return "WAITING" if status == PAUSED else status
