"""The walkthroughs of the specifications through the control loop, which commits once a batch."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.core.ids import event_id_of
from afl.engine.types import Value
from afl.stores.public.persistence import EventDefinition
from afl.telemetry.telemetry import Telemetry
from afl_stream.wire.messages import FailureReason, StepContinue, StepFailed
from tests.engine_view import RunView, SeenStep
from tests.scenarios.spec_walkthroughs import (
    CHECKOUT,
    WALKTHROUGHS,
    WITH_EVENTS,
    Iteration,
    Walkthrough,
    play,
    program_text,
    step_at,
    trace_of,
)
from tests.worlds.world import embedded

_WORKFLOW_ID = "walkthrough"


class LoopDriver:
    """Runs a workflow by records: a start command, answers on the control topic, one evaluator, one commit a batch."""

    def __init__(self, directory: Path, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry
        self.deployment = embedded(directory, telemetry=telemetry)
        self._join()
        self._program = CompiledProgram({})

    def _join(self) -> None:
        self.deployment.evaluator()
        self.deployment.settle()

    def start(self, program_text: bytes, workflow: str, inputs: Mapping[str, Value]) -> None:
        self._program = CompiledProgram.from_text(program_text)
        self.deployment.client.apply_topics([self._program])
        self.deployment.client.deploy(self._program)
        self.deployment.client.start(workflow, inputs, workflow_id=_WORKFLOW_ID)
        self.deployment.settle()

    def answer(self, step_id: str, result: Mapping[str, Value]) -> None:
        self.deployment.send(StepContinue(step_id=step_id, result=result))
        self.deployment.settle()

    def fail(self, step_id: str, error_type: str, message: str) -> None:
        self.deployment.send(StepFailed(step_id=step_id, error=FailureReason(type=error_type, message=message)))
        self.deployment.settle()

    def restart(self) -> None:
        self.deployment.crash_and_restart()
        self._join()

    def trace(self) -> Sequence[Iteration] | None:
        return None if self._telemetry is None else trace_of(self._telemetry)

    def steps(self) -> list[SeenStep]:
        return RunView(self.deployment.store, _WORKFLOW_ID, self._program.tree).steps()

    def events(self) -> list[EventDefinition]:
        events = [
            self.deployment.store.get_event(event_id_of(step.id, step.document.attempt))
            for step in self.steps()
            if step.document.attempt
        ]
        return [event for event in events if event is not None]

    def status(self) -> str:
        return self.deployment.workflow(_WORKFLOW_ID).status

    def outputs(self) -> Mapping[str, Value] | None:
        return self.deployment.workflow(_WORKFLOW_ID).outputs


@pytest.fixture(params=["traced", "silent"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDriver]:
    driver = LoopDriver(tmp_path, Telemetry() if request.param == "traced" else None)
    yield driver
    driver.deployment.crash()


def by_name(walkthrough: Walkthrough) -> str:
    return walkthrough.name


@pytest.mark.parametrize("walkthrough", WALKTHROUGHS, ids=by_name)
def test_a_walkthrough_through_the_loop_goes_as_the_specification_says(
    driver: LoopDriver, walkthrough: Walkthrough
) -> None:
    play(driver, walkthrough)


@pytest.mark.parametrize("walkthrough", WITH_EVENTS, ids=by_name)
def test_a_crash_at_every_pause_and_answers_sent_twice_change_nothing(
    driver: LoopDriver, walkthrough: Walkthrough
) -> None:
    play(driver, walkthrough, restart=True, answer_twice=True)


def test_an_event_is_dispatched_once_its_row_has_left_the_outbox(driver: LoopDriver) -> None:
    driver.start(program_text(CHECKOUT.text), CHECKOUT.workflow, CHECKOUT.inputs)

    assert [event.state for event in driver.events()] == ["event.Dispatched"]
    assert driver.deployment.store.outbox() == []


def test_a_failed_payment_ends_the_checkout_through_the_loop_and_names_the_cause(driver: LoopDriver) -> None:
    driver.start(program_text(CHECKOUT.text), CHECKOUT.workflow, CHECKOUT.inputs)

    driver.fail(step_at(driver, "payment").id, "CardDeclined", "no funds")

    error = driver.deployment.workflow(_WORKFLOW_ID).error
    assert driver.status() == "ERROR"
    assert error is not None
    assert (error.type, error.message, error.path, error.line) == (
        "CardDeclined",
        "no funds",
        "billing.Checkout.payment",
        6,
    )
