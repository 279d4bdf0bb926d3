"""Sensitive values in what an evaluator sends: named in headers, encrypted where the settings say so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from afl.compiled.program import CompiledProgram, ProgramError
from afl.compiled.sensitive import STEP_LOG, SensitiveMarks
from afl.core.values import ValueRefused
from afl.engine.errors import InputTypeMismatch
from afl.engine.execution.execution import Execution
from afl.engine.model.plan import BlockPlan, FacetPlan, StatementPlan, WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.waiting import LibraryFacet
from afl.engine.types import ObjectType
from afl_stream.evaluator.sensitive.program_marks import ProgramMarks
from afl_stream.sensitive.envelope import ERASED, is_sealed
from afl_stream.sensitive.keys import KeyUnavailable
from afl_stream.sensitive.marks import mark_headers
from afl_stream.sensitive.redaction import REDACTED, Redaction
from afl_stream.sensitive.schedule_refusals import EncryptedSchedule, SensitiveSchedule
from afl_stream.sensitive.sealing import Sealer
from afl_stream.settings.sensitive import SensitiveSettings
from afl_stream.transport import Headers
from afl_stream.wire.messages import Lifecycle


class MarkedFacet(NamedTuple):
    """A facet with sensitive parameters or returns, as its events are made."""

    name: str
    params: frozenset[str]
    #: The headers that name both.
    headers: Headers
    #: What encrypts the parameters; None where they are sent as they are.
    sealer: Sealer | None

    def sent_type(self, param: str, declared: object) -> object:
        """Return the type of a parameter on the wire: an encrypted value is a text, whatever it was."""
        return "String" if self.sealer is not None and param in self.params else declared

    def payload(self, params: Mapping[str, Any], workflow_id: str, step_id: str) -> Mapping[str, Any]:
        """Return the parameters as they are sent. Raises ValueRefused for erased ones, and KeyUnavailable."""
        for name in self.params:
            if params.get(name) == ERASED:
                wanted = "a value whose workflow's data were not erased"
                raise ValueRefused(f"payload.{name}", wanted, "erased data")
        if self.sealer is None:
            return params
        try:
            return self.sealer.seal_values(params, self.params, workflow_id, step_id, "param")
        except KeyUnavailable as error:
            self.sealer.failure = error
            raise


class OutgoingValues:
    """What an evaluator knows of sensitive values when it sends something."""

    def __init__(self, marks: ProgramMarks, sealer: Sealer | None, settings: SensitiveSettings) -> None:
        self._marks = marks
        self._sealer = sealer if sealer is not None and sealer.seals else None
        self._settings = settings
        self._redaction = Redaction(settings.patterns)

    def prepare(self, plan: WorkflowPlan) -> SensitiveMarks:
        """Return the marks of a plan's program. What its `sys.log` statements say of sensitive values is replaced."""
        program = plan.program
        if not isinstance(program, CompiledProgram):
            return self._marks.of(plan.fingerprint)
        marks = self._marks.note(plan.fingerprint, program)
        if hidden := marks.params_of(STEP_LOG):
            for statement in _statements(plan.facets):
                if statement.object_type == ObjectType.SYS_LOG:
                    statement.args = tuple(
                        (name, _redacted if name in hidden else value) for name, value in statement.args
                    )
        return marks

    def facet(self, facet: FacetPlan, marks: SensitiveMarks) -> MarkedFacet | None:
        """Return what is sensitive in a facet's events and answers; None: nothing."""
        params, returns = frozenset(marks.params_of(facet.name)), frozenset(marks.returns_of(facet.name))
        if not params and not returns:
            return None
        is_plain = self._settings.is_plain_topic(facet.name)
        return MarkedFacet(facet.name, params, mark_headers(params, returns), None if is_plain else self._sealer)

    def refuse_task(self, facet: FacetPlan, marks: SensitiveMarks) -> None:
        """Raise ProgramError for a facet with sensitive values that is dispatched as tasks: these are not encrypted."""
        if self._sealer is not None and self.facet(facet, marks) is not None:
            raise ProgramError(
                f"{facet.name} has sensitive values, which are encrypted in this deployment, and its events are tasks, "
                "which hold values as they are: dispatch it to a topic (dispatch.topic_facets), or without encryption"
            )

    def inputs_of(self, program: str, workflow: str) -> Collection[str]:
        """Return the names of a workflow's sensitive inputs, by a program of the store."""
        return self._marks.of(program).params_of(workflow)

    def of_schedule(
        self, schedule_id: str, inputs: Mapping[str, Any], program: CompiledProgram, workflow: str
    ) -> frozenset[str]:
        """Return the names of a new schedule's sensitive inputs. Raises SensitiveSchedule and EncryptedSchedule."""
        encrypted = [name for name, value in inputs.items() if is_sealed(value)]
        if encrypted:
            raise EncryptedSchedule(schedule_id, encrypted)
        marks = self._marks.note(program.fingerprint, program)
        names = frozenset(marks.params_of(workflow)).intersection(inputs)
        if names and self._sealer is not None:
            raise SensitiveSchedule(schedule_id, names)
        return names

    def firing(
        self, inputs: Mapping[str, Any], names: frozenset[str], workflow_id: str
    ) -> tuple[Mapping[str, Any], Headers]:
        """Return the inputs of a schedule's run as they are sent, and the headers that name the sensitive ones.

        A schedule may be older than the setting that encrypts. Raises KeyUnavailable.
        """
        if names and self._sealer is not None:
            inputs = self._sealer.seal_values(inputs, names, workflow_id, "", "input")
        return inputs, mark_headers(names)

    def milestone(self, milestone: Lifecycle, program: str) -> tuple[Lifecycle, Headers]:
        """Return a milestone with outputs, of a run or step, as it is sent, and its headers. Raises KeyUnavailable."""
        step_id, values = milestone.step_id or "", milestone.outputs or {}
        owner = milestone.facet if step_id else milestone.workflow
        names = self._marks.of(program).returns_of(owner or "")
        if not names:
            return milestone, ()
        if self._sealer is not None:
            kind = "return" if step_id else "output"
            values = self._sealer.seal_values(values, names, milestone.workflow_id, step_id, kind)
        return replace(milestone, outputs=values), mark_headers(names)

    def shown_outputs(self, execution: Execution) -> Mapping[str, Any]:
        """Return the outputs of a run as logs and traces may have them."""
        names = self._marks.of(execution.plan.fingerprint).returns_of(execution.plan.name)
        return self._redaction.of(execution.plan.name, execution.outputs, names)

    def shown_result(self, execution: Execution, facet: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an answer's values as logs may have them."""
        return self._redaction.of(facet, values, self._marks.of(execution.plan.fingerprint).returns_of(facet))

    def shown_event(self, execution: Execution | None, name: str, value: Any) -> Any:
        """Return the data of an external event as logs may have it; of a run that is not known, by the patterns."""
        marks = None if execution is None else self._marks.of(execution.plan.fingerprint)
        is_marked = marks is not None and "data" in marks.returns_of(LibraryFacet.WAIT_FOR_EVENT)
        return self._redaction.event_value(name, value, is_sensitive=is_marked)

    @contextmanager
    def hiding_inputs(self, program: str, workflow: str) -> Iterator[None]:
        """Raise errors about a workflow's inputs from inside without the values of the sensitive ones."""
        try:
            yield
        except (InputTypeMismatch, ValueRefused) as error:
            from afl_stream.evaluator.sensitive.failure_texts import input_error

            raise input_error(error, self.inputs_of(program, workflow)) from None

    def of_start(self, program: CompiledProgram, workflow: str, inputs: Collection[str]) -> Headers:
        """Return the headers that name the sensitive ones among the inputs of a start."""
        marks = self._marks.note(program.fingerprint, program)
        return mark_headers(frozenset(marks.params_of(workflow)).intersection(inputs))

    def failure_text(self, execution: Execution, step: StepRecord, message: str) -> str:
        """Return the text of a step's failure as it may be kept and logged: without sensitive values."""
        marks = self._marks.of(execution.plan.fingerprint)
        if not marks:
            return message
        # Needed where something failed in a program with marks.
        from afl_stream.evaluator.sensitive.failure_texts import failure_text

        return failure_text(marks, execution, step, message)


def _redacted(_frame: object) -> str:
    return REDACTED


def _statements(facets: Iterable[FacetPlan]) -> Iterator[StatementPlan]:
    """Yield the statements of facets, at every depth."""
    pending: list[BlockPlan | None] = [block for facet in facets for block in (*facet.blocks, facet.catch)]
    while pending:
        block = pending.pop()
        if block is None:
            continue
        pending += [case.block for case in block.cases]
        for statement in block.statements:
            yield statement
            # A call without a body of its own has its callee's blocks, which are looked at there.
            if statement.callee is None or statement.blocks is not statement.callee.blocks:
                pending += statement.blocks
            if statement.callee is None or statement.catch is not statement.callee.catch:
                pending.append(statement.catch)


#: Returns the outputs of a run as logs may have them.
ShownOutputs = Callable[[Execution], Mapping[str, Any]]
