"""A store for people: what is sensitive in it is not shown. For reading; what writes takes the store itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from afl.compiled.sensitive import NO_MARKS, SensitiveMarks
from afl.core.sensitive import SensitivePatterns
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.engine.model.waiting import LibraryFacet
from afl.stores.public.persistence import EngineStore, EventDefinition
from afl_stream.evaluator.sensitive.program_marks import ProgramMarks
from afl_stream.evaluator.sensitive.sealed_store import names_of_step
from afl_stream.sensitive.redaction import Redaction


class RedactedStore:
    """A store whose rows have only what a person may see; what it does not define goes to the store itself."""

    def __init__(self, store: EngineStore, patterns: SensitivePatterns, *, reveals: bool = False) -> None:
        self.store = store
        self._redaction = Redaction(patterns, reveals=reveals)
        self._marks = ProgramMarks(store, patterns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None:
        row = self.store.load_workflow(workflow_id)
        return None if row is None else self.shown_row(row)

    def load_workflows(self, workflow_ids: Sequence[str]) -> list[WorkflowRow]:
        return [self.shown_row(row) for row in self.store.load_workflows(workflow_ids)]

    def list_workflows(self, **how: Any) -> list[WorkflowRow]:
        return [self.shown_row(row) for row in self.store.list_workflows(**how)]

    def load_steps(self, workflow_id: str, **how: Any) -> list[StepDocument]:
        marks = self._marks_of(workflow_id)
        return [self.shown_step(step, marks) for step in self.store.load_steps(workflow_id, **how)]

    def load_step(self, step_id: str) -> StepDocument | None:
        step = self.store.load_step(step_id)
        return None if step is None else self.shown_step(step, self._marks_of(step.workflow_id))

    def load_run(self, workflow_id: str) -> list[StepDocument]:
        return self.load_steps(workflow_id)

    def history(self, workflow_id: str, **how: Any) -> list[HistoryRow]:
        return self._shown_history(workflow_id, self.store.history(workflow_id, **how))

    def pending_events(self, workflow_ids: Collection[str]) -> dict[str, list[HistoryRow]]:
        found = self.store.pending_events(workflow_ids)
        return {workflow_id: self._shown_history(workflow_id, rows) for workflow_id, rows in found.items()}

    def get_waiting_events(self, workflow_id: str) -> Sequence[EventDefinition]:
        marks, events = self._marks_of(workflow_id), self.store.get_waiting_events(workflow_id)
        for event in events:
            names = names_of_step(marks, event.event_type)
            event.payload = dict(self._redaction.of(event.event_type, event.payload, names))
        return events

    def shown_row(self, row: WorkflowRow) -> WorkflowRow:
        """Return a workflow's row as it is shown."""
        marks = self._marks.of(row.program)
        inputs = self._redaction.of(row.name, row.inputs, marks.params_of(row.name))
        outputs = row.outputs
        if outputs is not None:
            outputs = self._redaction.of(row.name, outputs, marks.returns_of(row.name))
        return row if inputs is row.inputs and outputs is row.outputs else row._replace(inputs=inputs, outputs=outputs)

    def shown_step(self, step: StepDocument, marks: SensitiveMarks) -> StepDocument:
        """Return a step as it is shown; `marks` are those of its program."""
        names = names_of_step(marks, step.facet_name)
        params = self._redaction.of(step.facet_name, step.params, names)
        returns = self._redaction.of(step.facet_name, step.returns, names)
        element = self._redaction.value(step.foreach_value, is_sensitive=bool(marks) and step.foreach_value is not None)
        if params is step.params and returns is step.returns and element is step.foreach_value:
            return step
        return step._replace(params=params, returns=returns, foreach_value=element)

    def _marks_of(self, workflow_id: str) -> SensitiveMarks:
        row = self.store.load_workflow(workflow_id)
        return NO_MARKS if row is None else self._marks.of(row.program)

    def _shown_history(self, workflow_id: str, rows: Iterable[HistoryRow]) -> list[HistoryRow]:
        row = self.store.load_workflow(workflow_id)
        marks = NO_MARKS if row is None else self._marks.of(row.program)
        name = "" if row is None else row.name
        return [self._shown_history_row(one, marks, name) for one in rows]

    def _shown_history_row(self, row: HistoryRow, marks: SensitiveMarks, workflow: str) -> HistoryRow:
        value: Any = row.value
        if row.kind == HistoryKind.CONTINUED_AS_NEW and isinstance(value, Mapping):
            inputs = value.get("inputs")
            if isinstance(inputs, Mapping):
                shown = self._redaction.of(workflow, inputs, marks.params_of(workflow))
                value = value if shown is inputs else {**value, "inputs": shown}
        else:
            is_marked = "data" in marks.returns_of(LibraryFacet.WAIT_FOR_EVENT)
            value = self._redaction.event_value(row.name, value, is_sensitive=is_marked and value is not None)
        return row if value is row.value else row._replace(value=value)


def redacted(store: EngineStore, patterns: SensitivePatterns, *, reveals: bool = False) -> EngineStore:
    """Return a store as people may see it; with `reveals`, those who may see everything."""
    return cast(EngineStore, RedactedStore(store, patterns, reveals=reveals))
