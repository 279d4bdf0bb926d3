"""Ids of runs and steps that a command only filters by, or that need not be in the store yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from afl.core.errors import AFLError
from afl.core.text.near_names import close_names, did_you_mean
from afl_stream.commands.invocation import store_here
from afl_stream.commands.runs.short_ids import is_short, meant_id

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl_stream.commands.terminal import Terminal
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport

#: How long a server is waited for where only a hint depends on it: less than after what a wait is reported.
QUICK_S: Final = 2.5
#: How alike a step's id has to be: those of one run begin alike.
_LIKENESS_OF_STEPS: Final = 0.8


class UnknownId(NamedTuple):
    """A run, or a step, that the store does not have, and the ids that may be meant."""

    what: str
    found: str
    near: tuple[str, ...]

    @property
    def note(self) -> str:
        """Return what is said about it where the command goes on."""
        meant = did_you_mean(self.near)
        return f"Note: there is no {self.what} {self.found} in the store yet{f'; {meant}' if meant else ''}"


def meant_here(config: StreamConfig, transport: Transport, terminal: Terminal, workflow_id: str) -> str:
    """Return the whole id, where the beginning of one that was drawn is given and the store is at hand.

    Raises NoSuchWorkflow where several runs begin so. A store that fails is as one that is elsewhere: commands that
    call this are not about it.
    """
    from afl_stream.visibility.workflows import NoSuchWorkflow

    if not is_short(workflow_id):
        return workflow_id
    try:
        with store_here(config, transport, timeout_s=QUICK_S) as store:
            return meant_id(store, terminal, workflow_id)
    except NoSuchWorkflow:
        raise
    except AFLError:
        return workflow_id


def unknown_ids(config: StreamConfig, transport: Transport, ids: Iterable[str]) -> list[UnknownId]:
    """Return those of these runs and steps that the store does not have; none where the store is not at hand."""
    try:
        with store_here(config, transport, timeout_s=QUICK_S) as store:
            if store is None:
                return []
            return [unknown for found in ids if (unknown := unknown_in(store, found)) is not None]
    except AFLError:
        return []


def unknown_in(store: EngineStore, found: str) -> UnknownId | None:
    """Return a run or a step that this store does not have; None where it has, or where its run was purged."""
    from afl_stream.visibility.workflows import near_runs

    workflow_id = found.partition(":")[0]
    if workflow_id not in store.revisions([workflow_id]):
        if store.tombstone(workflow_id) is not None:
            return None
        return UnknownId("run", workflow_id, tuple(near_runs(store, workflow_id)))
    if found == workflow_id:
        return None
    steps = [step.id for step in store.load_steps(workflow_id)]
    if found in steps:
        return None
    return UnknownId("step", found, tuple(close_names(found, steps, min_likeness=_LIKENESS_OF_STEPS)))
