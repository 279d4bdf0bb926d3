"""The walkthroughs of the specifications on the evaluator, which commits each iteration."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.core.ids import event_id_of
from afl.engine.model.store import Batch
from afl.engine.states import StepState
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator, ExecutionResult
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore, EventDefinition
from afl.stores.sqlite.store import SqliteStore
from afl.telemetry.telemetry import Telemetry
from tests.engine_view import RunView, SeenStep
from tests.scenarios.spec_walkthroughs import (
    CHECKOUT,
    EVENT_IN_THE_MIDDLE,
    FAN_IN,
    SEVERAL_PAUSES,
    WALKTHROUGHS,
    WITH_EVENTS,
    Iteration,
    Walkthrough,
    play,
    program_text,
    step_at,
    trace_of,
)


class CommitTrace:
    """The iterations as commits show them."""

    def __init__(self) -> None:
        self.iterations: list[Iteration] = []
        self._complete: dict[str, bool] = {}
        self._done = 0

    def note(self, batch: Batch) -> None:
        for change in batch.changes:
            created = frozenset(step.id for step in change.steps if step.id not in self._complete)
            self._complete |= {step.id: step.state == StepState.STATEMENT_COMPLETE for step in change.steps}
            # The commit of an answer is none of an iteration.
            if change.workflow.iterations > self._done:
                self._done = change.workflow.iterations
                self.iterations.append(Iteration(len(self._complete), sum(self._complete.values()), created))


class TracedMemoryStore(MemoryStore):
    def __init__(self, trace: CommitTrace) -> None:
        super().__init__()
        self._trace = trace

    def commit_batch(self, batch: Batch) -> int:
        sequence = super().commit_batch(batch)
        self._trace.note(batch)
        return sequence


class TracedSqliteStore(SqliteStore):
    def __init__(self, path: Path, trace: CommitTrace) -> None:
        super().__init__(path)
        self._trace = trace

    def commit_batch(self, batch: Batch) -> int:
        sequence = super().commit_batch(batch)
        self._trace.note(batch)
        return sequence


class EvaluatorDriver:
    """Runs a workflow with `execute`, `continue_step` and `resume`, one commit an iteration."""

    def __init__(
        self, open_store: Callable[[], EngineStore], trace: CommitTrace, telemetry: Telemetry | None = None
    ) -> None:
        self._open_store = open_store
        self._trace = trace
        self._telemetry = telemetry
        self.store = open_store()
        self._evaluator = Evaluator(self.store, telemetry, iterations_per_commit=1)
        self._workflow_id = ""
        self._program = CompiledProgram({})
        self.result: ExecutionResult | None = None

    def start(self, program_text: bytes, workflow: str, inputs: Mapping[str, Value]) -> None:
        self._program = CompiledProgram.from_text(program_text)
        self.result = self._evaluator.execute(workflow, inputs, self._program)
        self._workflow_id = self.result.workflow_id

    def answer(self, step_id: str, result: Mapping[str, Value]) -> None:
        self._evaluator.continue_step(step_id, result)
        self.result = self._evaluator.resume(self._workflow_id)

    def fail(self, step_id: str, error_type: str, message: str) -> None:
        self._evaluator.fail_step(step_id, message, error_type)
        self.result = self._evaluator.resume(self._workflow_id)

    def restart(self) -> None:
        store = self._open_store()
        if store is not self.store:
            self.store.close()
        self.store = store
        self._evaluator = Evaluator(self.store, self._telemetry, iterations_per_commit=1)

    def trace(self) -> Sequence[Iteration]:
        return self._trace.iterations

    def steps(self) -> list[SeenStep]:
        return RunView(self.store, self._workflow_id, self._program.tree).steps()

    def events(self) -> list[EventDefinition]:
        events = [
            self.store.get_event(event_id_of(step.id, step.document.attempt))
            for step in self.steps()
            if step.document.attempt
        ]
        return [event for event in events if event is not None]

    def status(self) -> str:
        row = self.store.load_workflow(self._workflow_id)
        assert row is not None
        return row.status

    def outputs(self) -> Mapping[str, Value] | None:
        row = self.store.load_workflow(self._workflow_id)
        return None if row is None else row.outputs

    def close(self) -> None:
        self.store.close()


@pytest.fixture(params=["memory", "sqlite"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EvaluatorDriver]:
    trace = CommitTrace()
    if request.param == "memory":
        store = TracedMemoryStore(trace)
        driver = EvaluatorDriver(lambda: store, trace)
    else:
        driver = EvaluatorDriver(lambda: TracedSqliteStore(tmp_path / "runs.db", trace), trace)
    yield driver
    driver.close()


def by_name(walkthrough: Walkthrough) -> str:
    return walkthrough.name


@pytest.mark.parametrize("walkthrough", WALKTHROUGHS, ids=by_name)
def test_a_walkthrough_goes_as_the_specification_says(driver: EvaluatorDriver, walkthrough: Walkthrough) -> None:
    play(driver, walkthrough)


@pytest.mark.parametrize("walkthrough", WALKTHROUGHS, ids=by_name)
def test_a_restart_at_every_pause_changes_nothing(driver: EvaluatorDriver, walkthrough: Walkthrough) -> None:
    play(driver, walkthrough, restart=True)


@pytest.mark.parametrize("walkthrough", WITH_EVENTS, ids=by_name)
def test_a_second_answer_to_a_step_changes_nothing(driver: EvaluatorDriver, walkthrough: Walkthrough) -> None:
    play(driver, walkthrough, answer_twice=True)


@pytest.mark.parametrize("walkthrough", WITH_EVENTS, ids=by_name)
def test_a_second_answer_after_a_restart_changes_nothing(driver: EvaluatorDriver, walkthrough: Walkthrough) -> None:
    play(driver, walkthrough, restart=True, answer_twice=True)


@pytest.mark.parametrize("walkthrough", WALKTHROUGHS, ids=by_name)
def test_telemetry_sees_the_iterations_that_are_committed(walkthrough: Walkthrough) -> None:
    trace, telemetry = CommitTrace(), Telemetry()
    store = TracedMemoryStore(trace)

    play(EvaluatorDriver(lambda: store, trace, telemetry), walkthrough)

    assert trace_of(telemetry) == trace.iterations


def test_the_last_iteration_in_which_nothing_moves_is_counted(driver: EvaluatorDriver) -> None:
    play(driver, FAN_IN)

    assert driver.result is not None
    assert driver.result.iterations == 6


def test_a_pause_is_a_success_that_lists_its_events(driver: EvaluatorDriver) -> None:
    driver.start(program_text(CHECKOUT.text), CHECKOUT.workflow, CHECKOUT.inputs)

    result = driver.result
    assert result is not None
    assert (result.success, result.status, result.outputs, result.error) == (True, "PAUSED", {}, None)
    assert [event.event_type for event in result.pending_events] == ["billing.ProcessPayment"]


def test_a_task_is_committed_with_the_step_that_waits_for_it(driver: EvaluatorDriver) -> None:
    driver.start(program_text(CHECKOUT.text), CHECKOUT.workflow, CHECKOUT.inputs)

    (task,) = driver.store.get_pending_tasks("default")
    payment = step_at(driver, "payment")
    assert (task.name, task.step_id, task.data) == (
        "billing.ProcessPayment",
        payment.id,
        {"amount": 99.5, "currency": "USD"},
    )


def test_a_failed_payment_ends_the_checkout_and_names_the_cause(driver: EvaluatorDriver) -> None:
    driver.start(program_text(CHECKOUT.text), CHECKOUT.workflow, CHECKOUT.inputs)

    driver.fail(step_at(driver, "payment").id, "CardDeclined", "no funds")

    assert driver.status() == "ERROR"
    assert driver.result is not None
    assert str(driver.result.error) == (
        "billing.Checkout.payment (billing.ProcessPayment, line 6) failed: CardDeclined: no funds"
    )


def test_an_answer_is_stored_before_the_next_run_begins(driver: EvaluatorDriver) -> None:
    text = program_text(EVENT_IN_THE_MIDDLE.text)
    driver.start(text, EVENT_IN_THE_MIDDLE.workflow, {})
    sub = step_at(driver, "addition.s1.sub")

    Evaluator(driver.store).continue_step(sub.id, {"out": 5})

    after = step_at(driver, "addition.s1.sub")
    assert (after.state, after.document.returns) == (StepState.STATEMENT_BLOCKS_BEGIN, {"out": 5})
    assert driver.store.runnable_workflows() == [driver.steps()[0].document.workflow_id]


def test_steps_of_two_runs_of_one_program_share_nothing(driver: EvaluatorDriver) -> None:
    play(driver, SEVERAL_PAUSES)
    first = {step.id for step in driver.steps()}

    driver.start(program_text(SEVERAL_PAUSES.text), SEVERAL_PAUSES.workflow, {})

    assert first.isdisjoint(step.id for step in driver.steps())
