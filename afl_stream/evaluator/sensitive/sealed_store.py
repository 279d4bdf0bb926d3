"""A store whose sensitive values are encrypted: the evaluator works on plain ones, and the store gets none of them.

What is encrypted is decided by the marks of a workflow's program. What is read says by itself whether it is encrypted,
so that values from before stay readable. All that is not about values goes to the store as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, TypeVar, cast

from afl.compiled.program import CompiledProgram
from afl.compiled.sensitive import SensitiveMarks
from afl.core.sensitive import SensitivePatterns
from afl.engine.errors import StoreCorrupt
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.store import (
    Batch,
    OpenRun,
    RunningChange,
    StepDocument,
    StoredStep,
    WorkflowChange,
    WorkflowRow,
)
from afl.engine.model.waiting import LibraryFacet
from afl.stores.public.persistence import EngineStore
from afl_stream.evaluator.sensitive.program_marks import ProgramMarks
from afl_stream.sensitive.envelope import Place, is_sealed
from afl_stream.sensitive.keys import KeysMissing
from afl_stream.sensitive.sealing import SealBroken, Sealer

_FOREVER_MS: Final = 100 * 365 * 86_400_000
#: A lock that nobody takes away: the store holds encrypted values.
SEALED_LOCK: Final = "afl.sealed"

R = TypeVar("R")


class SealedStore:
    """A store behind a sealer; see above. What it does not define goes to the store itself."""

    def __init__(self, store: EngineStore, sealer: Sealer, patterns: SensitivePatterns) -> None:
        self.store = store
        self._sealer = sealer
        self._marks = ProgramMarks(store, patterns)
        self._is_marked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    # --- writing ------------------------------------------------------------------------------------------------

    def commit_batch(self, batch: Batch) -> int:
        """Write a batch; see Store. Raises KeyUnavailable too."""
        return self.store.commit_batch(self._sealed(batch))

    def stage_batch(self, batch: Batch) -> Callable[[], int]:
        """Stage a batch; see Store. Raises KeyUnavailable too."""
        return self.store.stage_batch(self._sealed(batch))

    def _sealed(self, batch: Batch) -> Batch:
        if not self._sealer.seals:
            return batch
        failure, self._sealer.failure = self._sealer.failure, None
        if failure is not None:
            raise failure
        for fingerprint, text in batch.programs.items():
            self._marks.note(fingerprint, CompiledProgram.stored(fingerprint, text))
        changes = [self._sealed_change(change) for change in batch.changes]
        history = [self._sealed_history(row, batch) for row in batch.history]
        history_changes = [self._sealed_history(row, batch) for row in batch.history_changes]
        if changes == batch.changes and history == batch.history and history_changes == batch.history_changes:
            return batch
        if not self._is_marked:
            # First: a store with encrypted values says so, whatever crashes.
            self.store.acquire_lock(SEALED_LOCK, _FOREVER_MS)
            self._is_marked = True
        sealed = copy.copy(batch)
        sealed.changes, sealed.history, sealed.history_changes = changes, history, history_changes
        return sealed

    def _sealed_change(self, change: WorkflowChange) -> WorkflowChange:
        before = change._before if isinstance(change, RunningChange) else change.workflow
        marks = self._marks.of(before.program)
        if not marks:
            return change
        rows = [
            self._sealed_step(row if isinstance(row, StepDocument) else row.document(), marks) for row in change.rows
        ]
        row = self._sealed_row(before, marks)
        if not isinstance(change, RunningChange):
            sealed = WorkflowChange(row, change.expected_revision, rows)
            sealed.replaces = change.replaces
            return sealed
        counted = RunningChange(
            row,
            change.expected_revision,
            change.runnable,
            rows,
            change.steps_made,
            change.iterations,
            change.updated_at_ms,
            change.is_written,
        )
        counted.keeps_status = change.keeps_status
        return counted

    def _sealed_row(self, row: WorkflowRow, marks: SensitiveMarks) -> WorkflowRow:
        seal, names = self._sealer.seal_values, marks.params_of(row.name)
        inputs = seal(row.inputs, names, row.id, "", "input")
        outputs = row.outputs
        if outputs is not None:
            outputs = seal(outputs, marks.returns_of(row.name), row.id, "", "output")
        return row._replace(inputs=inputs, outputs=outputs)

    def _sealed_step(self, step: StepDocument, marks: SensitiveMarks) -> StepDocument:
        seal, names = self._sealer.seal_values, names_of_step(marks, step.facet_name)
        element = step.foreach_value
        if element is not None:
            # Which element of which list it is, its step does not say.
            element = self._sealer.seal(element, Place(step.workflow_id, step.id, "element", ""))
        return step._replace(
            params=seal(step.params, names, step.workflow_id, step.id, "param"),
            returns=seal(step.returns, names, step.workflow_id, step.id, "return"),
            foreach_value=element,
        )

    def _sealed_history(self, row: HistoryRow, batch: Batch) -> HistoryRow:
        program = next(
            (change.workflow.program for change in batch.changes if change.workflow_id == row.workflow_id), None
        )
        if program is None:
            stored = self.store.load_workflow(row.workflow_id)
            if stored is None:
                return row
            program, name = stored.program, stored.name
        else:
            name = next(change.workflow.name for change in batch.changes if change.workflow_id == row.workflow_id)
        marks = self._marks.of(program)
        if not _history_is_sensitive(row, marks, name):
            return row
        place = Place(row.workflow_id, "", "event", f"{row.kind}/{row.number}")
        return row._replace(value=self._sealer.seal(row.value, place))

    # --- reading ------------------------------------------------------------------------------------------------

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None:
        row = self.store.load_workflow(workflow_id)
        return None if row is None else self._opened_row(row)

    def list_workflows(self, **how: Any) -> list[WorkflowRow]:
        return [self._opened_row(row) for row in self.store.list_workflows(**how)]

    def load_steps(self, workflow_id: str, **how: Any) -> list[StepDocument]:
        return [self._opened_step(step) for step in self.store.load_steps(workflow_id, **how)]

    def load_step(self, step_id: str) -> StepDocument | None:
        step = self.store.load_step(step_id)
        return None if step is None else self._opened_step(step)

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        """Return the workflow's steps, complete ones undecoded still; see Store."""
        return [
            self._opened_step(step) if isinstance(step, StepDocument) else self._opened_later(step)
            for step in self.store.load_run(workflow_id)
        ]

    def load_open(self, workflow_id: str) -> OpenRun | None:
        """Return the workflow's steps that are not complete; see Store."""
        found = self.store.load_open(workflow_id)
        if found is None:
            return None
        read = found.read
        return found._replace(
            steps=[self._opened_step(step) for step in found.steps],
            read=lambda step_id: self._opened_step(read(step_id)),
        )

    def history(self, workflow_id: str, **how: Any) -> list[HistoryRow]:
        return [self._opened_history(row) for row in self.store.history(workflow_id, **how)]

    def pending_events(self, workflow_ids: Collection[str]) -> dict[str, list[HistoryRow]]:
        found = self.store.pending_events(workflow_ids)
        return {workflow_id: [self._opened_history(row) for row in rows] for workflow_id, rows in found.items()}

    def _opened_later(self, stored: StoredStep) -> StoredStep:
        read = stored._read
        return StoredStep(
            stored.id,
            stored.revision,
            stored.content,
            stored.change,
            lambda step: self._opened_step(read(step)),
            stored.statement_id,
            stored.block,
        )

    def _opened_row(self, row: WorkflowRow) -> WorkflowRow:
        opened = partial(self._opened, row.id)
        inputs = opened(row.inputs, "", "input")
        outputs = None if row.outputs is None else opened(row.outputs, "", "output")
        return row if inputs is row.inputs and outputs is row.outputs else row._replace(inputs=inputs, outputs=outputs)

    def _opened_step(self, step: StepDocument) -> StepDocument:
        opened = partial(self._opened, step.workflow_id)
        params, returns = opened(step.params, step.id, "param"), opened(step.returns, step.id, "return")
        element = step.foreach_value
        if is_sealed(element):
            element = self._guarded(
                lambda: self._sealer.open(str(element), Place(step.workflow_id, step.id, "element", ""))
            )
        if params is step.params and returns is step.returns and element is step.foreach_value:
            return step
        return step._replace(params=params, returns=returns, foreach_value=element)

    def _opened_history(self, row: HistoryRow) -> HistoryRow:
        if not is_sealed(row.value):
            return row
        place = Place(row.workflow_id, "", "event", f"{row.kind}/{row.number}")
        return row._replace(value=self._guarded(lambda: self._sealer.open(str(row.value), place)))

    def _opened(self, workflow_id: str, values: Mapping[str, Any], step_id: str, kind: str) -> Mapping[str, Any]:
        for value in values.values():
            if is_sealed(value):
                return self._guarded(lambda: self._sealer.open_values(values, workflow_id, step_id, kind))
        return values

    def _guarded(self, read: Callable[[], R]) -> R:
        try:
            return read()
        except SealBroken as error:
            raise StoreCorrupt(path=self.store.location(), reason=str(error)) from error


def names_of_step(marks: SensitiveMarks, facet: str) -> Collection[str]:
    """Return the sensitive names of a step: a yield has the returns of its facet for parameters."""
    params, returns = marks.params_of(facet), marks.returns_of(facet)
    return {*params, *returns} if params and returns else params or returns


def _history_is_sensitive(row: HistoryRow, marks: SensitiveMarks, workflow: str) -> bool:
    if row.kind == HistoryKind.CONTINUED_AS_NEW:
        return bool(marks.params_of(workflow))
    if row.kind == HistoryKind.EXTERNAL_EVENT and row.value is not None:
        return "data" in marks.returns_of(LibraryFacet.WAIT_FOR_EVENT)
    return False


def sealed(store: EngineStore, sealer: Sealer | None, patterns: SensitivePatterns) -> EngineStore:
    """Return a store whose sensitive values are encrypted; the store itself without a sealer.

    Raises KeysMissing when it holds encrypted values and there is no sealer.
    """
    if isinstance(store, SealedStore):
        return cast(EngineStore, store)
    if sealer is None:
        if store.check_lock(SEALED_LOCK) is not None:
            raise KeysMissing(
                f"the store {store.location()} holds encrypted values, and no keys are set; set keys.path "
                "(AFL_KEYS_PATH) to their folder"
            )
        return store
    return cast(EngineStore, SealedStore(store, sealer, patterns))
