"""Words of the commands that look back: what an answer was, that there are no runs, and exact times."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl_stream.commands.invocation import Invocation
    from afl_stream.visibility.records import Answer

_SAID: Final = {"continue": "answered", "fail": "failed", "update": "reported"}


def said_of(answer: Answer) -> str:
    """Return what an answer was, in a word."""
    return "refused" if answer.refused else _SAID.get(answer.answer, answer.answer)


def no_runs_text(invocation: Invocation, store: EngineStore) -> str:
    """Return what is said of a store without runs: tombstones tell for a time that there were some."""
    from afl.engine.model.tombstones import PURGED, PURGING

    if any(store.tombstones(state=state, limit=1) for state in (PURGED, PURGING)):
        look = invocation.command_line("status", "WORKFLOW_ID")
        return f"no runs: those that there were have been purged ({look} shows what is known of one)"
    return f"no runs; start one with: {invocation.command_line('start', 'WORKFLOW')}"


def exact_time(at_ms: int) -> str:
    """Return a local time with its milliseconds, so that records of one second are told apart."""
    return datetime.fromtimestamp(at_ms / 1000).isoformat(sep=" ", timespec="milliseconds")
