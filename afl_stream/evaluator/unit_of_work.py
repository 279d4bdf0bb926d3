"""One batch of the control loop in memory: records applied to their workflows, and all that one commit will write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from afl.core.clock import epoch_ns
from afl.core.text.exception_text import exception_class, exception_text
from afl.engine.errors import RunGivenUp, VersionMismatchError
from afl.engine.execution.commit_rows import add_rows
from afl.engine.execution.execution import Execution
from afl.engine.execution.scripts import ScriptJob, take_jobs
from afl.engine.model.store import Batch, ParkedRecord, TimerRow, WorkflowRow
from afl.engine.values import sizes as value_sizes
from afl_stream.errors import (
    IdRefused,
    NewerFormat,
    NotEvaluable,
    Reason,
    SchemaUnavailable,
    StreamError,
    Unreadable,
)
from afl_stream.evaluator import run_commands
from afl_stream.evaluator.answer_identity import workflow_of_answer
from afl_stream.evaluator.answers import Answers
from afl_stream.evaluator.batch_outputs import BatchOutputs
from afl_stream.evaluator.batches.earlier_commit import EarlierCommitFailed
from afl_stream.evaluator.batches.record_reading import decoded, read
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.external.continuing import continue_by_command, run_to_fixed_point
from afl_stream.evaluator.external.executions import PastExecutions
from afl_stream.evaluator.external.external_events import ExternalEvents
from afl_stream.evaluator.operator_commands import BatchOfItsOwn, migrate, run_again
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.evaluator.reporting.event_lines import lines_for
from afl_stream.evaluator.schedules import commands as schedule_commands
from afl_stream.evaluator.schedules.book import ScheduleBook
from afl_stream.evaluator.timers.retry_milestones import tell_retries
from afl_stream.transport import Record
from afl_stream.wire.messages import (
    Answer,
    CancelWorkflow,
    Command,
    ContinueAsNew,
    DescribeWorkflow,
    ExternalEvent,
    Message,
    MigrateWorkflow,
    ScheduleCommand,
    StartWorkflow,
    StepContinue,
    check_workflow_id,
)

#: What makes a record a dead letter, or pauses its partition.
_FAULTS = (VersionMismatchError, Unreadable, IdRefused, *REFUSALS)


class UnitOfWork:
    """Applies records and evaluates; nothing is written before the batch is committed.

    When the commit is refused, the unit is dropped: its workflows were taken out of memory, and are read again.
    """

    def __init__(
        self,
        context: EvaluatorContext,
        *,
        is_alone: bool = False,
        earlier: UnitOfWork | None = None,
        complete: Callable[[], None] | None = None,
    ) -> None:
        """Take the context.

        `is_alone`: the unit has a single record or turn, whose workflow gets the time of the batch. `earlier`: the unit
        that is being committed, on top of which this one computes; `complete` waits for that commit.
        """
        self._context = context
        self._pauses = context.definitions.pauses
        self._earlier, self._complete = earlier, complete
        self._unusual = 0  #: Records that were not the usual answers.
        #: Whether its workflows are hot, because it is committed.
        self._is_kept = False
        self._tracing = context.tracing
        #: For spans: since when, the records with their outcomes, and the workflows that end in this unit.
        self._began_ns = 0 if context.tracing is None else epoch_ns()
        self._worked_on: list[tuple[Record, str]] = []
        self._ending: list[Execution] = []
        self.warnings = context.warnings
        settings = context.config.evaluator
        self._budget_ms = max(settings.workflow_budget_ms, settings.batch_ms if is_alone else 0)
        self._control = context.topology.control()
        self._commands = context.topology.commands()
        self._external = context.topology.external()
        self.now_ms = context.clock.now_ms()
        self.batch = Batch(now_ms=self.now_ms, values_checked=True)
        self.outcomes: Counter[Outcome] = Counter()
        self._lines = lines_for(self.now_ms, context.config, context.sensitive)
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
        self._answers = Answers(context, self)
        #: Workflows that a record of this batch cancels: they do not continue, whatever comes before it.
        self._cancelled: set[str] = set()
        #: Facets that two groups answer: the group that was first, and the other.
        self.doubled: dict[str, tuple[str, str]] = {}
        self._executions: dict[str, Execution | None] = {}
        #: The workflows that the batch writes.
        self.changed: dict[str, Execution] = {}
        #: Revisions of rows as they were first read here: decisions without an execution relied on them.
        self._revisions_read: dict[str, int] = {}

    # --- records ------------------------------------------------------------------------------------------------

    def read(self, records: Sequence[Record]) -> list[Message | Exception | None]:
        """Decode records that are about to be applied (batches/record_reading.py), and note what they say of runs."""
        messages = read(self._context, records)
        for record, message in zip(records, messages, strict=True):
            if isinstance(message, StepContinue):
                continue
            if isinstance(message, CancelWorkflow):
                self._cancelled.add(message.workflow_id)
            elif isinstance(message, ExternalEvent | StartWorkflow):
                self.external.note(record, message)
        return messages

    def apply(self, record: Record, message: Message | Exception | None = None) -> Outcome:
        """Apply one record of control, commands or external; `message` is what `read` found in it.

        Raises NewerFormat and SchemaGone (pause the partition), and any other SchemaUnavailable (wait, skip nothing); a
        record that is itself at fault becomes a dead letter.
        """
        try:
            if (
                isinstance(message, StepContinue)
                and record.topic == self._control
                and self._answers.take_usual(message)
            ):
                outcome = Outcome.APPLIED
            else:
                self.settle()
                self._unusual += 1
                outcome = self._apply(record, message)
        except _FAULTS as error:
            outcome = self._faulty(record, error)
        self.outcomes[outcome] += 1
        if self._tracing is not None:
            self._worked_on.append((record, outcome))
        if self._lines is not None:
            self._lines.note(message, outcome, self._executions)
        return outcome

    def _faulty(self, record: Record, error: Exception) -> Outcome:
        """Make a record that is itself at fault a dead letter.

        Raises NewerFormat where its workflow is of another release.
        """
        if isinstance(error, VersionMismatchError):
            # The workflow, not the record, is of another release: that waits for the upgrade, too.
            raise NewerFormat(error.found, error.expected_version, error.remedy) from error
        if isinstance(error, Unreadable | IdRefused):
            return self.outputs.unreadable(record, error)
        self.outputs.dead_letter(record, error)
        return Outcome.REJECTED

    def _apply(self, record: Record, message: Message | Exception | None) -> Outcome:
        if message is None:
            message = decoded(self._context, record)
        if isinstance(message, Exception):
            raise message
        message = self._context.own(message)
        if record.topic == self._control and isinstance(message, Answer):
            return self._answers.apply(record, message)
        if record.topic == self._commands and isinstance(message, Command):
            return self._command(record, message)
        if record.topic == self._commands and isinstance(message, ScheduleCommand):
            return schedule_commands.apply(self._context, self, message, record)
        if record.topic == self._external and isinstance(message, ExternalEvent):
            return self.external.apply(record, message)
        raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} does not belong on {record.topic}")

    def parked_answer(self, record: Record) -> Outcome:
        """Judge a parked answer again."""
        try:
            message = self._context.codec.decode(record.value, record.headers, json_allowed=True)
            if not isinstance(message, Answer):
                raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} was parked")
            return self._answers.apply(record, message, is_parked=True)
        except _FAULTS as error:
            return self._faulty(record, error)

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
            if isinstance(command, MigrateWorkflow):
                return migrate(self._context, self, command)
            return run_again(self._context, self, command)
        except (BatchOfItsOwn, SchemaUnavailable, NewerFormat, VersionMismatchError):
            raise
        except (StreamError, *REFUSALS) as error:
            self._refuse(command, error)
            self.confirm(command.workflow_id)
            # Last: a row that cannot be read makes this raise above, and the record a dead letter there, once.
            said = f"{type(command).__name__} of run {command.workflow_id} is refused"
            self.outputs.dead_letter(run_commands.with_named_inputs(self._context, record, command), error, said)
            return Outcome.REJECTED

    def _refuse(self, command: Command, error: Exception) -> None:
        """Answer a command that it is refused, and that its run will not exist unless there is one already."""
        is_no_run = isinstance(command, StartWorkflow) and self.row(command.workflow_id) is None
        self.outputs.refuse(command, error, is_no_run=is_no_run)
        self.schedules.refused(command, error)

    # --- workflows ----------------------------------------------------------------------------------------------

    def add(self, execution: Execution) -> None:
        """Add a workflow that has just been started, or its next execution, in place of the one before."""
        self._executions[execution.id] = execution
        self.touch(execution)

    def is_under_way(self, workflow_id: str) -> bool:
        """Return whether this unit has the workflow, and it has not ended."""
        return (execution := self._executions.get(workflow_id)) is not None and not execution.is_ended

    def hot_execution(self, workflow_id: str) -> Execution | None:
        """Return the workflow if this unit has it or it is hot, without a look at the store."""
        execution = self._executions.get(workflow_id)
        if execution is None and workflow_id not in self._executions:
            execution = None if self._earlier is None else self._earlier.give(workflow_id)
            if execution is None:
                execution = self._context.workflows.take(workflow_id)
            if execution is not None:
                execution.now_ms = max(self.now_ms, execution.now_ms)
                self._executions[workflow_id] = execution
        return execution

    def give(self, workflow_id: str) -> Execution | None:
        """Hand a workflow of this unit, which is being committed, to the next one; None for one that has to stay.

        Once the unit is committed, its workflows are hot, and taken from there: whoever has one has it alone.
        """
        execution = None if self._is_kept else self._executions.get(workflow_id)
        if execution is None or execution.is_ended or execution.queue or execution.scripts:
            return None
        del self._executions[workflow_id]
        return execution

    def settle(self) -> None:
        """Wait for the commit of the earlier unit, on which what comes relies.

        Raises EarlierCommitFailed: this unit must be dropped.
        """
        earlier, self._earlier = self._earlier, None
        if earlier is not None and self._complete is not None:
            try:
                self._complete()
            except Exception as error:
                raise EarlierCommitFailed(error) from error

    @property
    def has_only_usual(self) -> bool:
        """Return whether the unit has nothing but usual answers whose workflows wait again or have ended."""
        return not (self._unusual or self.over_budget or self._context.telemetry is not None)

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
        if execution is not None and execution.queue and not execution.is_ended and not self.is_paused(workflow_id):
            self.touch(execution)
            self.evaluate(execution)

    def is_paused(self, workflow_id: str) -> bool:
        """Return whether the workflow is left as it is, until it is resumed."""
        return self._pauses.holds_workflows and self._pauses.of_workflow(workflow_id) is not None

    def scripts_due(self) -> list[ScriptJob]:
        """Return the scripts that steps of this unit have reached. Ask when the batch is committed."""
        due = [run for run in self._executions.values() if run is not None and run.new_scripts]
        return [job for execution in due for job in take_jobs(execution)]

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
            message = decoded(self._context, record)
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

        A paused workflow is left with what it has to do: it is stored as runnable, and continues when it is resumed.
        Raises NotEvaluable: the unit must be dropped then.
        """
        if not execution.queue or execution.id in self.over_budget:
            return
        if execution.id in self._cancelled:
            self.over_budget.append(execution.id)
            return
        if self._pauses.holds_workflows and self.is_paused(execution.id):
            return
        if not run_to_fixed_point(self._context, self, execution, self._budget_ms):
            self.over_budget.append(execution.id)

    def note_parked(self, row: ParkedRecord, outcome: Outcome) -> None:
        """Count what a parked answer has become, and log it."""
        self.outcomes[outcome] += 1
        if self._lines is not None:
            self._lines.note_parked(row, outcome, self._executions)

    def finish(self) -> Batch:
        """Return the batch to commit."""
        batch = self.batch
        if self._tracing is not None:
            self._ending = [run for run in self.changed.values() if run.is_ended and not run.end_was_reported]
        for workflow_id, execution in self.changed.items():
            batch.confirms.pop(workflow_id, None)
            add_rows(execution, batch)
        self.schedules.finish()
        if batch.timers:
            tell_retries(self._context.dispatch, self.changed, batch, self.now_ms)
        self.external.finish(batch)
        return batch

    def keep(self) -> None:
        """Keep the unit's workflows hot: the batch is committed."""
        value_sizes.forget()
        self.outputs.committed()
        self.external.committed()
        if self._tracing is not None:
            self._tracing.committed(self._worked_on, self._began_ns, self.changed, self._run_of, self._ending)
        executions = [execution for execution in self._executions.values() if execution is not None]
        if self._context.telemetry is not None:
            for execution in executions:
                if execution.trace is not None:
                    execution.trace.committed()
        self._context.workflows.keep_all(executions)
        self._is_kept = True
        if self._lines is not None:
            self._lines.write(self.changed.values())

    def _run_of(self, workflow_id: str) -> Execution | None:
        # A workflow that the next unit has taken over is still among those that this one has changed.
        return self.changed.get(workflow_id) or self._executions.get(workflow_id)

    # --- effects ------------------------------------------------------------------------------------------------

    def touch(self, execution: Execution) -> None:
        """Write the workflow with the batch."""
        self.changed[execution.id] = execution

    def confirm(self, workflow_id: str) -> None:
        """Require the store's revision of the workflow: a decision without a write relied on it."""
        if workflow_id not in self.changed:
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
                id=execution.id, revision=0, program=execution.plan.fingerprint, name=execution.plan.name,
                status=execution.status, inputs=execution.inputs,
            )  # fmt: skip
        row = self._context.store.load_workflow(workflow_id)
        self._revisions_read.setdefault(workflow_id, 0 if row is None else row.revision)
        return row
