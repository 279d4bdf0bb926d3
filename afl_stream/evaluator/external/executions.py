"""Commands that have continued workflows as new, as the histories tell of them."""

from __future__ import annotations

from collections.abc import Iterator

from afl.engine.execution.execution import Execution
from afl.engine.model.store import HistoryKind, HistoryRow, HistoryStore
from afl.engine.types import Value
from afl_stream.wire.bounded_texts import kept_id, kept_reason
from afl_stream.wire.messages import ContinueAsNew

_ROWS_ASKED = 1_000


class PastExecutions:
    """What the histories of workflows say of the executions before, read once for each workflow of a unit of work."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._stored: dict[str, list[HistoryRow]] = {}

    def has_done(self, execution: Execution, command_id: str) -> bool:
        """Return whether the workflow has continued by the command of this id."""
        return any(
            isinstance(row.value, dict) and row.value.get("command_id") == command_id
            for row in self._continuations(execution)
        )

    def _continuations(self, execution: Execution) -> Iterator[HistoryRow]:
        """Return the rows of this unit, then the stored ones, about executions that have continued as new."""
        if execution.has_effects:
            yield from (row for row in execution.effects.history if row.kind == HistoryKind.CONTINUED_AS_NEW)
        if execution.id not in self._stored:
            self._stored[execution.id] = list(self._read(execution.id))
        yield from self._stored[execution.id]

    def _read(self, workflow_id: str) -> Iterator[HistoryRow]:
        after = -1
        while rows := self._store.history(workflow_id, after=after, limit=_ROWS_ASKED):
            yield from (row for row in rows if row.kind == HistoryKind.CONTINUED_AS_NEW)
            after = rows[-1].number


def note_command(following: Execution, command: ContinueAsNew) -> None:
    """Note in the history who has asked for an execution that has just been made, and why."""
    history = following.effects.history
    about = history[-1].value
    assert isinstance(about, dict)
    asked: dict[str, Value] = {"command_id": kept_id(command.command_id), "reason": kept_reason(command.reason)}
    history[-1] = history[-1]._replace(value={**about, **{name: found for name, found in asked.items() if found}})
