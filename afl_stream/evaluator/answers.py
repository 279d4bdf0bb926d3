"""The answers of agents in one unit of work: each is judged, and taken by the step that waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from afl.engine.execution.events import fail_with
from afl.engine.execution.execution import Execution
from afl.engine.execution.results import take_result
from afl.engine.execution.stored_steps import find_step
from afl_stream.errors import AnswerRefused
from afl_stream.evaluator.answer_identity import attempt_of_answer, workflow_of_answer
from afl_stream.evaluator.outcomes import ASKED, PARKED, RECORDED, Case, Outcome, judge
from afl_stream.transport import Record
from afl_stream.wire.bounded_texts import kept_failure, kept_name
from afl_stream.wire.headers import COMMAND_HEADER, header
from afl_stream.wire.messages import Answer, StepContinue, StepFailed, StepUpdate, event_id_of

if TYPE_CHECKING:
    from afl_stream.evaluator.context import EvaluatorContext
    from afl_stream.evaluator.unit_of_work import UnitOfWork


class Answers:
    """Applies answers to the workflows of one unit of work."""

    def __init__(self, context: EvaluatorContext, unit: UnitOfWork) -> None:
        self._context = context
        self._unit = unit
        self._has_tokens = context.tokens is not None
        #: The names of groups that are short and plain, which nearly all answers come from.
        self._names: dict[str | None, str | None] = {}

    def take_usual(self, answer: StepContinue) -> bool:
        """Take the usual answer, in one look; return False for any other, of which nothing was changed.

        Usual is: an agent's result for the current attempt of a step that waits for it, in a workflow that this unit
        has or that is hot. `judge` finds APPLIED for just these (a test compares the two over all cases).
        """
        workflow_id, step_id, attempt = answer.workflow_id, answer.step_id, answer.attempt
        if workflow_id is None or answer.group is None or attempt is None or self._has_tokens:
            return False
        execution = self._unit.hot_execution(workflow_id)
        if execution is None or execution.is_ended:
            return False
        step = execution.steps.get(step_id)
        if step is None or step.event_state not in ASKED or step.attempt != attempt:
            return False
        if answer.event_id is not None and answer.event_id != f"{step_id}#{attempt}":
            return False
        group = answer.group
        name = self._names.get(group)
        if name is None:
            name = self._names[group] = kept_name(group)
        self._unit.changed[workflow_id] = execution
        step.answered_by = name
        take_result(execution, step, answer.result, is_checked=True)
        self._unit.evaluate(execution)
        return True

    def apply(self, record: Record, answer: Answer, *, is_parked: bool = False) -> Outcome:
        """Judge an answer, and do what follows from its outcome."""
        unit = self._unit
        workflow_id = workflow_of_answer(answer)
        execution = unit.execution(workflow_id)
        case = self._case(execution, answer)
        outcome = judge(case)
        if outcome is Outcome.APPLIED:
            assert execution is not None
            self._take(execution, answer)
        elif outcome in PARKED:
            if not is_parked and not unit.outputs.park(record, workflow_id, answer.step_id):
                outcome = Outcome.SURPLUS
        elif outcome in RECORDED:
            unit.outputs.tell(workflow_id, f"answer.{outcome.value}", step_id=answer.step_id)
        elif outcome is Outcome.DUPLICATE and (twice := case.done_twice(kept_name(answer.group))):
            unit.doubled.setdefault(*twice)
        elif outcome is Outcome.REFUSED:
            unit.outputs.dead_letter(record, AnswerRefused(answer.step_id))
        if outcome is not Outcome.APPLIED:
            # A runnable workflow continues, whatever woke it.
            unit.continue_workflow(workflow_id)
            unit.confirm(workflow_id)
        # Agents name their group, and learn nothing from a reply: only a person waits for one.
        if answer.group is None and not is_parked and (asked := header(record.headers, COMMAND_HEADER)) is not None:
            unit.outputs.reply(workflow_id, answer.step_id, outcome, asked)
        return outcome

    def _case(self, execution: Execution | None, answer: Answer) -> Case:
        attempt = attempt_of_answer(answer)
        step = find_step(execution, answer.step_id) if execution is not None else None
        right = True
        if self._context.tokens is not None and step is not None and step.attempt:
            of = attempt or step.attempt
            right = self._context.tokens.accepts(answer.answer_token, event_id_of(answer.step_id, of), of)
        purged = execution is None and self._context.store.tombstone(workflow_of_answer(answer)) is not None
        again = step is None and execution is not None and execution.is_superseded(answer.step_id)
        return Case(execution, step, attempt, token_is_right=right, is_purged=purged, is_run_again=again)

    def _take(self, execution: Execution, answer: Answer) -> None:
        step = execution.steps[answer.step_id]
        self._unit.touch(execution)
        step.answered_by = kept_name(answer.group)
        if isinstance(answer, StepFailed):
            failure = kept_failure(answer.error.type, answer.error.message)
            fail_with(execution, step, failure.type, failure.message)
        else:
            is_partial = isinstance(answer, StepUpdate)
            values: Mapping[str, object] = answer.partial if isinstance(answer, StepUpdate) else answer.result
            take_result(execution, step, values, is_partial=is_partial, is_checked=True)
        self._unit.evaluate(execution)
