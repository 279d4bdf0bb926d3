"""One batch of the control loop in memory: records applied to their workflows, and all that one commit will write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from afl.core.text.exception_text import exception_class, exception_text
from afl.engine.errors import RunGivenUp, VersionMismatchError
from afl.engine.execution.commit_rows import add_rows
from afl.engine.execution.events import fail_with
from afl.engine.execution.execution import Execution
from afl.engine.execution.results import take_result
from afl.engine.execution.scripts import ScriptJob, take_jobs
from afl.engine.model.store import Batch, ParkedRecord, TimerRow, WorkflowRow
from afl.engine.operations.operations import Action
from afl.engine.values import sizes as value_sizes
from afl_stream.errors import (
    AnswerExpired,
    AnswerRefused,
    IdRefused,
    NewerFormat,
    NotEvaluable,
    Reason,
    SchemaGone,
    SchemaUnavailable,
    StreamError,
    Unreadable,
)
from afl_stream.evaluator import run_commands
from afl_stream.evaluator.answer_identity import attempt_of_answer, workflow_of_answer
from afl_stream.evaluator.batch_outputs import BatchOutputs, record_of
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.external.continuing import continue_by_command, run_to_fixed_point
from afl_stream.evaluator.external.executions import PastExecutions
from afl_stream.evaluator.external.external_events import ExternalEvents
from afl_stream.evaluator.operator_commands import BatchOfItsOwn, run_again
from afl_stream.evaluator.outcomes import PARKED, RECORDED, Case, Outcome, judge
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.evaluator.schedules import commands as schedule_commands
from afl_stream.evaluator.schedules.book import ScheduleBook
from afl_stream.evaluator.timers.retry_milestones import tell_retries
from afl_stream.transport import Record
from afl_stream.wire.bounded_texts import kept_failure, kept_name
from afl_stream.wire.codec import addressed, decode_key
from afl_stream.wire.headers import COMMAND_HEADER, header
from afl_stream.wire.messages import (
    Answer,
    CancelWorkflow,
    Command,
    ContinueAsNew,
    DescribeWorkflow,
    ExternalEvent,
    Message,
    ScheduleCommand,
    StartWorkflow,
    StepFailed,
    StepUpdate,
    check_workflow_id,
    event_id_of,
)


class UnitOfWork:
    """Applies records and evaluates; nothing is written before the batch is committed.

    When the commit is refused, the unit is dropped: its workflows were taken out of memory, and are read again.
    """

    def __init__(self, context: EvaluatorContext, *, is_alone: bool = False) -> None:
        """Take the context.

        `is_alone`: the unit has a single record or turn, whose workflow gets the time of the batch.
        """
        self._context = context
        self.warnings = context.warnings
        settings = context.config.evaluator
        self._budget_ms = max(settings.workflow_budget_ms, settings.batch_ms if is_alone else 0)
        self._control = context.topology.control()
        self._commands = context.topology.commands()
        self._external = context.topology.external()
        self.now_ms = context.clock.now_ms()
        self.batch = Batch(now_ms=self.now_ms, values_checked=True)
        self.outcomes: Counter[Outcome] = Counter()
        #: Workflows over their budget: committed as runnable, they continue in a later batch.
        self.over_budget: list[str] = []
        #: Runnable workflows that had no turn: others took the time for it.
        self.postponed: list[str] = []
        #: Timers that were fired, and timers that had no turn.
        self.timers_fired: list[TimerRow] = []
        self.timers_left: list[TimerRow] = []
        self.outputs = BatchOutputs(context, self.batch)
        self.schedules = ScheduleBook(context, self.batch)
        self.external = ExternalEvents(context, self)
        self.past = PastExecutions(context.store)
        #: Records that were decoded, or why not, by where they stand.
        self._read: dict[tuple[str, int, int], Message | Exception] = {}
        #: Workflows that a record of this batch cancels: they do not continue, whatever comes before it.
        self._cancelled: set[str] = set()
        #: Facets that two groups answer: the group that was first, and the other.
        self.doubled: dict[str, tuple[str, str]] = {}
        self._executions: dict[str, Execution | None] = {}
        self._changed: dict[str, Execution] = {}
        #: Revisions of rows as they were first read here: decisions without an execution relied on them.
        self._revisions_read: dict[str, int] = {}

    # --- records ------------------------------------------------------------------------------------------------

    def read(self, records: Iterable[Record]) -> None:
        """Decode records that are about to be applied; the error of a record is raised when its turn comes.

        Decoding them in one go takes half of the time that it takes between applying them: the same code runs again and
        again. It ends at a schema that cannot be looked up now, which ends the batch. A schema that is gone ends it for
        the record's partition: records behind it there are not applied before it.
        """
        held: set[tuple[str, int]] = set()
        for record in records:
            if held and record[:2] in held:
                continue
            at = record.topic, record.partition, record.offset
            try:
                message = self._read[at] = self._decoded(record)
            except (Unreadable, NewerFormat, SchemaUnavailable) as error:
                self._read[at] = error
                if isinstance(error, SchemaGone):
                    held.add((record.topic, record.partition))
                elif isinstance(error, SchemaUnavailable):
                    return
            else:
                if isinstance(message, CancelWorkflow):
                    self._cancelled.add(message.workflow_id)
                elif isinstance(message, ExternalEvent | StartWorkflow):
                    self.external.note(record, message)

    def apply(self, record: Record) -> Outcome:
        """Apply one record of control, commands or external.

        Raises NewerFormat and SchemaGone (pause the partition), and any other SchemaUnavailable (wait, skip nothing); a
        record that is itself at fault becomes a dead letter.
        """
        outcome = self._guarded(record, self._apply)
        self.outcomes[outcome] += 1
        return outcome

    def _guarded(self, record: Record, judge_it: Callable[[Record], Outcome]) -> Outcome:
        try:
            return judge_it(record)
        except VersionMismatchError as error:
            # The workflow, not the record, is of another release: that waits for the upgrade, too.
            raise NewerFormat(error.found, error.expected_version, error.remedy) from error
        except (Unreadable, IdRefused) as error:
            self.outputs.dead_letter(record, error)
            return Outcome.UNREADABLE
        except REFUSALS as error:
            self.outputs.dead_letter(record, error)
            return Outcome.REJECTED

    def _decoded(self, record: Record) -> Message:
        message = self._context.codec.decode(record.value, record.headers, json_allowed=True)
        if record.key:
            # Only its partition depends on the key, so any text will do. Our writers always write text.
            decode_key(record.key)
        return addressed(message, record.key) if isinstance(message, ExternalEvent) else message

    def _apply(self, record: Record) -> Outcome:
        message = self._read.pop((record.topic, record.partition, record.offset), None) or self._decoded(record)
        if isinstance(message, Exception):
            raise message
        if record.topic == self._control and isinstance(message, Answer):
            return self._answer(record, message)
        if record.topic == self._commands and isinstance(message, Command):
            return self._command(record, message)
        if record.topic == self._commands and isinstance(message, ScheduleCommand):
            return schedule_commands.apply(self._context, self, message, record)
        if record.topic == self._external and isinstance(message, ExternalEvent):
            return self.external.apply(record, message)
        raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} does not belong on {record.topic}")

    def _parked_answer(self, record: Record) -> Outcome:
        message = self._context.codec.decode(record.value, record.headers, json_allowed=True)
        if not isinstance(message, Answer):
            raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} was parked")
        return self._answer(record, message, is_parked=True)

    def _answer(self, record: Record, answer: Answer, *, is_parked: bool = False) -> Outcome:
        workflow_id = workflow_of_answer(answer)
        execution = self.execution(workflow_id)
        case = self._case(execution, answer)
        outcome = judge(case)
        if outcome is Outcome.APPLIED:
            assert execution is not None
            self._take_answer(execution, answer)
        elif outcome in PARKED:
            if not is_parked and not self.outputs.park(record, workflow_id, answer.step_id):
                outcome = Outcome.SURPLUS
        elif outcome in RECORDED:
            self.outputs.tell(workflow_id, f"answer.{outcome.value}", step_id=answer.step_id)
        elif outcome is Outcome.DUPLICATE and (twice := case.done_twice(kept_name(answer.group))):
            self.doubled.setdefault(*twice)
        elif outcome is Outcome.REFUSED:
            self.outputs.dead_letter(record, AnswerRefused(answer.step_id))
        if outcome is not Outcome.APPLIED:
            # A runnable workflow continues, whatever woke it.
            self.continue_workflow(workflow_id)
            self.confirm(workflow_id)
        # Agents name their group, and learn nothing from a reply: only a person waits for one.
        if answer.group is None and not is_parked and (asked := header(record.headers, COMMAND_HEADER)) is not None:
            self.outputs.reply(workflow_id, answer.step_id, outcome, asked)
        return outcome

    def _case(self, execution: Execution | None, answer: Answer) -> Case:
        attempt = attempt_of_answer(answer)
        step = execution.steps.get(answer.step_id) if execution is not None else None
        right = True
        if self._context.tokens is not None and step is not None and step.attempt:
            of = attempt or step.attempt
            right = self._context.tokens.accepts(answer.answer_token, event_id_of(answer.step_id, of), of)
        purged = execution is None and self._context.store.tombstone(workflow_of_answer(answer)) is not None
        again = step is None and execution is not None and execution.is_superseded(answer.step_id)
        return Case(execution, step, attempt, token_is_right=right, is_purged=purged, is_run_again=again)

    def _take_answer(self, execution: Execution, answer: Answer) -> None:
        step = execution.steps[answer.step_id]
        self.touch(execution)
        step.answered_by = kept_name(answer.group)
        if isinstance(answer, StepFailed):
            failure = kept_failure(answer.error.type, answer.error.message)
            fail_with(execution, step, failure.type, failure.message)
        else:
            values: Mapping[str, object] = answer.partial if isinstance(answer, StepUpdate) else answer.result
            is_partial = isinstance(answer, StepUpdate)
            take_result(execution, step, values, is_partial=is_partial, is_checked=True)
        self.evaluate(execution)

    # --- commands -----------------------------------------------------------------------------------------------

    def _command(self, record: Record, command: Command) -> Outcome:
        check_workflow_id(command.workflow_id)
        try:
            if isinstance(command, StartWorkflow):
                return run_commands.start(self._context, self, command, record)
            if isinstance(command, CancelWorkflow):
                return run_commands.cancel(self._context, self, command)
            if isinstance(command, DescribeWorkflow):
                return run_commands.describe(self._context, self, command)
            if isinstance(command, ContinueAsNew):
                return continue_by_command(self._context, self, command)
            return run_again(self._context, self, command)
        except (BatchOfItsOwn, SchemaUnavailable, NewerFormat, VersionMismatchError):
            raise
        except (StreamError, *REFUSALS) as error:
            self._refuse(command, error)
            self.confirm(command.workflow_id)
            # Last: a row that cannot be read makes this raise above, and the record a dead letter there, once.
            self.outputs.dead_letter(record, error)
            text = "%s of run %s is refused: %s: %s"
            self.warnings.warning(
                "refused commands", text, type(command).__name__, command.workflow_id, exception_class(error),
                exception_text(error),
            )  # fmt: skip
            return Outcome.REJECTED

    def _refuse(self, command: Command, error: Exception) -> None:
        """Answer a command that it is refused, and that its run will not exist unless there is one already."""
        is_no_run = isinstance(command, StartWorkflow) and self.row(command.workflow_id) is None
        self.outputs.refuse(command, error, is_no_run=is_no_run)
        self.schedules.refused(command, error)

    def open_again(self, workflow_id: str, action: Action) -> bool:
        """Let a stored workflow run again, in a later batch of its own; return False when there is none."""
        if workflow_id in self._changed:
            raise BatchOfItsOwn
        known = self.execution(workflow_id, is_checked=True) is not None
        opened = self._context.workflows.open_again(workflow_id, action) if known else None
        if opened is None:
            return False  # Also one that was purged in this moment.
        # Later than the cancel that it may follow, whatever the clocks say: agents skip events that are not later.
        opened.execution.now_ms = max(self.now_ms, opened.execution.now_ms) + 1
        self._executions[workflow_id] = opened.execution
        self.touch(opened.execution)
        self.over_budget.append(workflow_id)
        return True

    # --- workflows ----------------------------------------------------------------------------------------------

    def add(self, execution: Execution) -> None:
        """Add a workflow that has just been started, or its next execution, in place of the one before."""
        self._executions[execution.id] = execution
        self.touch(execution)

    def is_under_way(self, workflow_id: str) -> bool:
        """Return whether this unit has the workflow, and it has not ended."""
        execution = self._executions.get(workflow_id)
        return execution is not None and not execution.is_ended

    def execution(self, workflow_id: str, *, is_checked: bool = False, cancel_only: bool = False) -> Execution | None:
        """Return the workflow as this unit has it: hot from memory (stale, maybe, unless it is checked), or stored."""
        if workflow_id not in self._executions:
            hot = None if is_checked else self._context.workflows.take(workflow_id)
            execution = hot or self._context.workflows.load(workflow_id, cancel_only=cancel_only)
            if execution is not None:
                execution.now_ms = max(self.now_ms, execution.now_ms)
            self._executions[workflow_id] = execution
        return self._executions[workflow_id]

    def continue_workflow(self, workflow_id: str) -> None:
        """Give a runnable workflow its turn."""
        execution = self.execution(workflow_id)
        if execution is not None and execution.queue and not execution.is_ended:
            self.touch(execution)
            self.evaluate(execution)

    def scripts_due(self) -> list[ScriptJob]:
        """Return the scripts that steps of this unit have reached. Ask when the batch is committed."""
        return [
            job
            for execution in self._executions.values()
            if execution is not None and execution.new_scripts
            for job in take_jobs(execution)
        ]

    def to_continue(self) -> list[str]:
        """Return the workflows that have more to do in a later batch."""
        return [workflow_id for workflow_id in self.over_budget if not self._has_ended(workflow_id)]

    def _has_ended(self, workflow_id: str) -> bool:
        execution = self._executions.get(workflow_id)
        return execution is not None and execution.is_ended

    def ended(self) -> list[str]:
        """Return the workflows among those of this unit that have ended, in it or before."""
        return [execution.id for execution in self._executions.values() if execution is not None and execution.is_ended]

    def fail_workflow(self, record: Record | None, workflow_id: str | None, error: Exception) -> None:
        """Fail the workflow of a record or turn that cannot be evaluated or stored, and dead-letter the record.

        Without a workflow id, the record's workflow is left as it is stored.
        """
        if record is not None:
            self.outputs.dead_letter(record, error)
            self.outcomes[Outcome.REJECTED] += 1
            message = self._decoded(record)
            if isinstance(message, Answer):
                workflow_id = workflow_of_answer(message)
            elif isinstance(message, Command):
                self._refuse(message, error)
            elif isinstance(message, ExternalEvent):
                workflow_id = message.workflow_id
                self.external.tell_refused(record, message, error)
        execution = self.execution(workflow_id, cancel_only=True) if workflow_id is not None else None
        if execution is not None and not execution.is_ended:
            if isinstance(error, NotEvaluable):
                error = RunGivenUp(execution.id, execution.plan.name, error.error_type, error.text)
            ends = "workflow %s (%s) ends with an error: %s"
            self.warnings.error("workflows that end with an error", ends, execution.id, execution.plan.name, error)
            self.touch(execution)
            execution.abort(exception_class(error), exception_text(error))

    def evaluate(self, execution: Execution) -> None:
        """Run to the fixed point, or until the workflow's budget of this batch is used up; not if a record cancels it.

        Raises NotEvaluable: the unit must be dropped then.
        """
        if not execution.queue or execution.id in self.over_budget:
            return
        if execution.id in self._cancelled:
            self.over_budget.append(execution.id)
            return
        if not run_to_fixed_point(self._context, self, execution, self._budget_ms):
            self.over_budget.append(execution.id)

    def apply_parked(self, rows: list[ParkedRecord]) -> None:
        """Judge parked records again.

        Those that have found their step are settled; the others stay until they expire.
        """
        for row in rows:
            record = record_of(row)
            try:
                outcome = self._guarded(record, self._parked_answer)
            except NewerFormat as error:
                waits = "a parked answer to step %s waits for an upgrade: %s"
                self.warnings.error("parked answers that wait for an upgrade", waits, row.step_id, error)
                continue
            if outcome in PARKED:
                if row.expires_at_ms > self.now_ms:
                    continue
                self.outputs.dead_letter(record, AnswerExpired(row.step_id, (self.now_ms - row.parked_at_ms) // 1000))
            else:
                self.outcomes[outcome] += 1
            self.batch.unparked.append(row.id)

    def finish(self) -> Batch:
        """Return the batch to commit."""
        batch = self.batch
        for workflow_id, execution in self._changed.items():
            batch.confirms.pop(workflow_id, None)
            add_rows(execution, batch)
        self.schedules.finish()
        if batch.timers:
            tell_retries(self._context.dispatch, self._changed, batch, self.now_ms)
        self.external.finish(batch)
        return batch

    def keep(self) -> None:
        """Keep the unit's workflows hot: the batch is committed."""
        value_sizes.forget()
        self.outputs.committed()
        self.external.committed()
        for execution in self._executions.values():
            if execution is not None:
                if execution.trace is not None:
                    execution.trace.committed()
                self._context.workflows.keep(execution)

    # --- effects ------------------------------------------------------------------------------------------------

    def touch(self, execution: Execution) -> None:
        """Write the workflow with the batch."""
        self._changed[execution.id] = execution

    def confirm(self, workflow_id: str) -> None:
        """Require the store's revision of the workflow: a decision without a write relied on it."""
        if workflow_id not in self._changed:
            if workflow_id in self._executions:
                # Also when it was not there: another evaluator may have started it since.
                execution = self._executions[workflow_id]
                revision = 0 if execution is None else execution.revision
            elif workflow_id in self._revisions_read:
                revision = self._revisions_read[workflow_id]
            else:
                return  # It could not be read at all: there is no revision that this relied on.
            self.batch.confirms[workflow_id] = revision

    def row(self, workflow_id: str) -> WorkflowRow | None:
        """Return the workflow's stored row; for a workflow that this unit has started, what is known of it yet."""
        execution = self._executions.get(workflow_id)
        if execution is not None and not execution.revision:
            # Started in this very unit: the store does not know it yet.
            return WorkflowRow(
                id=execution.id,
                revision=0,
                program=execution.plan.fingerprint,
                name=execution.plan.name,
                status=execution.status,
                inputs=execution.inputs,
            )
        row = self._context.store.load_workflow(workflow_id)
        self._revisions_read.setdefault(workflow_id, 0 if row is None else row.revision)
        return row
