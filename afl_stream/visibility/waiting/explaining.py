"""Why a run waits: the store's rows and the broker's answers, brought together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from afl.compiled.program import CompiledProgram
from afl.core.errors import AFLError
from afl.engine.execution.generations import current_steps
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import ENDED_STATUSES, ERROR, PAUSED, RUNNING, StepDocument, WorkflowRow
from afl.engine.operations.unanswered import waiting_steps
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.programs import stored_program
from afl.engine.states import StepState
from afl.stores.public.persistence import EngineStore
from afl_stream.client.client import Client, NotAnswered
from afl_stream.errors import StreamError
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import TopicPartition, Transport
from afl_stream.visibility.waiting.broker_view import BrokerView, Unread, is_start_of
from afl_stream.visibility.waiting.described import described_steps
from afl_stream.visibility.waiting.evaluators import evaluator_causes, pause_text, time_text
from afl_stream.visibility.waiting.report import Cause, CauseCode, WaitReport
from afl_stream.visibility.waiting.step_causes import StepCauses
from afl_stream.visibility.waiting.step_places import StepPlaces
from afl_stream.wire.command_answers import RefusedByEvaluator

#: How long an evaluator may take to say what a run waits for.
_ANSWER_TIMEOUT_S: Final = 3.0
_NO_STORE: Final = (
    "paths, lines and inputs of steps: they are in the store of the evaluators, which is not on this machine"
)
#: States of steps that may wait for a script.
_SCRIPT_STATES: Final = (StepState.FACET_SCRIPTS_BEGIN, StepState.BLOCK_EXECUTION_BEGIN)


class UnknownRun(StreamError):
    """Neither store nor broker knows anything of a run with this id."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"there is no run {workflow_id}, and no start of it waits to be taken")
        self.workflow_id = workflow_id


def explain(
    config: StreamConfig,
    workflow_id: str,
    *,
    store: EngineStore | None,
    transport: Transport | None,
    unknown: Sequence[str] = (),
) -> WaitReport:
    """Return what a run waits for now.

    `store` None: it is not at hand, and an evaluator is asked. `transport` None: the broker cannot be asked; `unknown`
    says why. What cannot be found out is noted in the report, and raises nothing. Raises UnknownRun, and what the store
    raises.
    """
    view = None if transport is None else BrokerView(config, transport)
    try:
        report = _Explanation(config, workflow_id, store, transport, view).report()
        notes = (*unknown, *(view.unknown if view is not None else ()), *report.unknown)
        return WaitReport(
            workflow_id=report.workflow_id,
            workflow=report.workflow,
            status=report.status,
            causes=report.causes,
            waits=report.waits,
            unknown=tuple(dict.fromkeys(notes)),
        )
    finally:
        if view is not None:
            view.close()


class _Explanation:
    """Explains one run."""

    def __init__(
        self,
        config: StreamConfig,
        workflow_id: str,
        store: EngineStore | None,
        transport: Transport | None,
        view: BrokerView | None,
    ) -> None:
        self._config = config
        self._id = workflow_id
        self._store = store
        self._transport = transport
        self._view = view
        self._unread_found: list[Unread] | None = None
        if view is not None:
            view.asked("what is paused, and the programs", view.definitions.refresh)

    def report(self) -> WaitReport:
        """Return the report. Raises UnknownRun."""
        row = None if self._store is None else self._store.load_workflow(self._id)
        if row is not None and self._store is not None:
            return self._of_row(self._store, row)
        if self._store is not None and (tombstone := self._store.tombstone(self._id)) is not None:
            ended = f"it ended as {tombstone.status} at {time_text(tombstone.ended_at_ms)}, and was purged since"
            return self._ended(tombstone.name, tombstone.status, ended, ())
        if (pending := self._pending_start()) is not None:
            return pending
        if self._store is None and (described := self._described()) is not None:
            return described
        raise UnknownRun(self._id)

    # --- by the store -------------------------------------------------------------------------------------------

    def _of_row(self, store: EngineStore, row: WorkflowRow) -> WaitReport:
        if row.status in ENDED_STATUSES:
            return self._ended(row.name, row.status, _how_it_ended(row), _again(row))
        program, plan = _program_of(store, row)
        documents = current_steps(store.load_steps(row.id), row.execution)
        places = StepPlaces(row.name, documents, program, plan)
        causes = [*self._run_causes(row.runnable), *self._evaluators(store)]
        steps = StepCauses(self._config, self._view, store, places, plan, self._unread(store))
        waits = [steps.wait_of(step) for step in waiting_steps(store, row.id)]
        waits += [steps.script_wait(document) for document in self._scripts(row, documents, plan)]
        unknown = () if program is not None else (f"files and lines: the store lacks program {row.program}",)
        status = "WAITING" if row.status == PAUSED else row.status
        return WaitReport(
            workflow_id=row.id,
            workflow=row.name,
            status=status,
            causes=tuple(causes),
            waits=tuple(waits),
            unknown=(*unknown, *steps.unknown),
        )

    def _ended(self, name: str, status: str, text: str, commands: tuple[tuple[str, ...], ...]) -> WaitReport:
        cause = Cause(code=CauseCode.ENDED, text=text, commands=commands)
        return WaitReport(workflow_id=self._id, workflow=name, status=status, causes=(cause,))

    def _run_causes(self, is_runnable: bool) -> list[Cause]:
        pause = None if self._view is None else self._view.definitions.pauses.of_workflow(self._id)
        if pause is not None:
            words = ("resume", "--all") if pause.scope == "all" else ("resume", "--workflow", self._id)
            text = f"{pause_text(pause)}: answers are kept, and it continues when it is resumed"
            return [Cause(code=CauseCode.WORKFLOW_PAUSED, text=text, commands=(words,))]
        if is_runnable:
            text = "it has more to do now: an evaluator continues it"
            return [Cause(code=CauseCode.RUNNABLE, text=text)]
        return []

    def _evaluators(self, store: EngineStore | None) -> list[Cause]:
        if self._view is None:
            return []
        return evaluator_causes(self._config, self._view, self._id, self._unread_of(self._view, store))

    def _unread_of(self, view: BrokerView, store: EngineStore | None) -> list[Unread]:
        """Return what lies unread on the run's partitions of control, commands and external."""
        if self._unread_found is None:
            topics = (view.topology.control(), view.topology.commands(), view.topology.external())
            asked = [
                view.asked(f"what lies on {topic}", partial(self._unread_on, view, store, topic)) for topic in topics
            ]
            self._unread_found = [found for found in asked if found is not None]
        return self._unread_found

    def _unread_on(self, view: BrokerView, store: EngineStore | None, topic: str) -> Unread:
        positions = None
        if store is not None and self._transport is not None:
            cluster = self._transport.admin().cluster_id()
            positions = {
                TopicPartition(at.topic, at.partition): offset
                for at, offset in store.positions().items()
                if at.cluster_id == cluster
            }
        return view.unread(topic, self._id, positions)

    def _unread(self, store: EngineStore | None) -> Unread | None:
        """Return what lies unread on the run's control partition: answers."""
        if self._view is None:
            return None
        control = self._view.topology.control()
        found = self._unread_of(self._view, store)
        return next((unread for unread in found if unread.partition.topic == control), None)

    @staticmethod
    def _scripts(row: WorkflowRow, documents: Sequence[StepDocument], plan: WorkflowPlan | None) -> list[StepDocument]:
        """Return the steps whose script runs, or waits for its turn, in a run that has more to do."""
        if row.status != RUNNING or plan is None:
            return []
        scripted = {facet.name for facet in plan.facets if facet.pre_script is not None}
        return [
            document
            for document in documents
            if document.state in _SCRIPT_STATES
            and (document.state == StepState.BLOCK_EXECUTION_BEGIN or document.facet_name in scripted)
        ]

    # --- without a row ------------------------------------------------------------------------------------------

    def _pending_start(self) -> WaitReport | None:
        """Return the report of a start that no evaluator has taken, or that was refused; None: there is none."""
        view = self._view
        if view is None:
            return None
        commands = view.topology.commands()
        unread = next((one for one in self._unread_of(view, self._store) if one.partition.topic == commands), None)
        for offset, message in () if unread is None else unread.found:
            if is_start_of(message, self._id):
                where = f"{commands}[{unread.partition.partition}] offset {offset}" if unread is not None else commands
                name = getattr(message, "workflow", "")
                asked = f"its start lies at {where}, asked for at {time_text(getattr(message, 'created_at', 0) or 0)}"
                start = Cause(code=CauseCode.START_PENDING, text=f"{asked}: no evaluator has taken it yet")
                causes = (start, *self._run_causes(is_runnable=False), *self._evaluators(self._store))
                return WaitReport(workflow_id=self._id, workflow=name, status="NOT STARTED", causes=causes)
        letters = view.asked("refused starts", lambda: view.letters(commands, self._id)) or []
        for letter in reversed(letters):
            refused = view.message_of(letter)
            if refused is not None and is_start_of(refused, self._id):
                text = f"its start was refused at {time_text(letter.at_ms)}: {letter.reason}: {letter.error}"
                cause = Cause(code=CauseCode.START_REFUSED, text=f"{text} (dead letter {letter.place})")
                name = getattr(refused, "workflow", "")
                return WaitReport(workflow_id=self._id, workflow=name, status="REJECTED", causes=(cause,))
        return None

    def _described(self) -> WaitReport | None:
        """Return the report by an evaluator's answer; None: the evaluators know of no such run."""
        if self._transport is None or self._view is None or not self._config.is_kafka:
            return None
        with Client(self._config, self._transport) as client:
            try:
                found = client.describe(self._id, answer_timeout_s=_ANSWER_TIMEOUT_S)
            except RefusedByEvaluator:
                return None
            except NotAnswered:
                causes = self._evaluators(None) or [
                    Cause(
                        code=CauseCode.NO_EVALUATOR,
                        text=f"no evaluator of group {self._config.evaluator_group} has answered in "
                        f"{_ANSWER_TIMEOUT_S:g} s",
                        commands=(("evaluator",),),
                    )
                ]
                causes = [*self._run_causes(is_runnable=False), *causes]
                return WaitReport(
                    workflow_id=self._id, workflow="", status="UNKNOWN", causes=tuple(causes), unknown=(_NO_STORE,)
                )
        status = found.status or "UNKNOWN"
        if status in ENDED_STATUSES:
            return self._ended(found.workflow or "", status, f"it has ended as {status}", ())
        places, plan = StepPlaces(found.workflow or "", (), None, None), _current_plan(self._view, found.workflow)
        steps = StepCauses(self._config, self._view, None, places, plan, self._unread(None))
        waits = tuple(steps.wait_of(step) for step in described_steps(self._id, found.outputs or {}))
        shown = "WAITING" if status == PAUSED else status
        return WaitReport(
            workflow_id=self._id,
            workflow=found.workflow or "",
            status=shown,
            causes=(*self._run_causes(status == RUNNING and not waits), *self._evaluators(None)),
            waits=waits,
            unknown=(_NO_STORE, *steps.unknown),
        )


def _how_it_ended(row: WorkflowRow) -> str:
    ended = f"it ended as {row.status} at {time_text(row.ended_at_ms)}"
    error = row.error
    if error is None:
        return ended
    where = error.path or error.step_id
    return f"{ended}: {f'{where}: ' if where else ''}{error.type}: {error.message}"


def _again(row: WorkflowRow) -> tuple[tuple[str, ...], ...]:
    return (("status", row.id), ("retry", row.id)) if row.status == ERROR else (("status", row.id),)


def _current_plan(view: BrokerView, workflow: str | None) -> WorkflowPlan | None:
    """Return the plan of a workflow's current program, which tells the forms of answers."""
    try:
        program, name = view.definitions.find(workflow or "")
        return plan_workflow(program, name)
    except AFLError:
        return None


def _program_of(store: EngineStore, row: WorkflowRow) -> tuple[CompiledProgram | None, WorkflowPlan | None]:
    """Return a run's program and its plan; None where the store has none that can be read."""
    try:
        program = stored_program(store, row.program)
        return program, None if program is None else plan_workflow(program, row.name)
    except AFLError:
        return None, None
