"""Programs with `when`, catches and sys through the control loop: the same steps as with one commit an iteration."""

from random import Random

import pytest

from afl.compiled.program import CompiledProgram, Node
from afl.core.clock import ManualClock
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.otel_sink import OpenTelemetrySink
from afl.telemetry.telemetry import Telemetry, TelemetryEvent, TelemetrySink
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.messages import FailureReason, StepContinue, StepFailed
from tests.unit.engine.nested_programs import branching_program
from tests.worlds.deployment import START_MS, Deployment
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: What a program does, does not depend on the broker.
WORLDS = EMBEDDED

_SEEDS = range(18)

#: The answers of a run, in order: the step, and the message of its failure (None: it succeeds).
Answers = list[tuple[str, str | None]]


def in_namespace(program: Node) -> Node:
    """Return the control loop wants qualified names: facets get topics by them."""
    return {"declarations": [{"type": "Namespace", "name": "n", "declarations": program["declarations"]}]}


def play(
    program: Node, seed: int, telemetry: Telemetry | None = None
) -> tuple[Answers, WorkflowRow, list[StepDocument]]:
    """Run with execute and resume, one answer at a time; some events fail."""
    store, random, answers = MemoryStore(), Random(seed), Answers()
    evaluator = Evaluator(store, telemetry, clock=ManualClock(START_MS))
    result = evaluator.execute("n.W", {}, program_ast=program, workflow_id=f"wf-{seed}")
    while result.status == "PAUSED":
        step_id = random.choice(list(result.pending_events)).step_id
        message = f"failed as number {len(answers)}" if random.random() < 0.2 else None
        answers.append((step_id, message))
        if message is None:
            evaluator.continue_step(step_id, {"r": [step_id]})
        else:
            evaluator.fail_step(step_id, message, "Broken")
        result = evaluator.resume(f"wf-{seed}")
    row = store.load_workflow(f"wf-{seed}")
    assert row is not None
    return answers, row, store.load_steps(f"wf-{seed}")


def documents(steps: list[StepDocument]) -> list[StepDocument]:
    """Everything that is stored of the steps but when and in which commit they were written."""
    return [step._replace(revision=0, created_at_ms=0) for step in steps]


def assert_the_loop_agrees(deployment: Deployment, tree: Node, seed: int) -> None:
    """Check that the loop stores the same of a program and its answers as execute and resume do."""
    program, workflow_id = CompiledProgram(tree), f"wf-{seed}"
    answers, expected, steps = play(tree, seed)
    deployment.client.apply_topics([program])
    deployment.client.deploy(program)

    deployment.client.start("n.W", {}, workflow_id=workflow_id)
    deployment.settle()
    for step_id, message in answers:
        if message is None:
            deployment.send(StepContinue(step_id=step_id, result={"r": [step_id]}))
        else:
            deployment.send(StepFailed(step_id=step_id, error=FailureReason(type="Broken", message=message)))
    deployment.settle()

    row = deployment.workflow(workflow_id)
    assert (row.status, row.outputs, row.error) == (expected.status, expected.outputs, expected.error), f"seed {seed}"
    assert row.iterations == expected.iterations, f"seed {seed}"
    assert documents(deployment.steps(workflow_id)) == documents(steps), f"seed {seed}"


@pytest.mark.parametrize("batch_records", [1, 500])
def test_the_loop_and_the_evaluator_agree_on_every_step(world: World, batch_records: int) -> None:
    deployment = world.deployment(evaluator=EvaluatorSettings(batch_records=batch_records))
    deployment.evaluator()
    deployment.settle()
    for seed in _SEEDS:
        tree = in_namespace(branching_program(seed))
        assert_the_loop_agrees(deployment, tree, seed)


def test_telemetry_changes_nothing_that_is_stored() -> None:
    for seed in _SEEDS:
        tree = in_namespace(branching_program(seed))

        assert play(tree, seed, Telemetry()) == play(tree, seed), f"seed {seed}"


class Raises(TelemetrySink):
    """Takes nothing."""

    def emit(self, event: TelemetryEvent) -> None:
        raise OSError("the disk is full")


@pytest.mark.parametrize("sink", [None, Raises(), OpenTelemetrySink()], ids=["in memory", "raises", "opentelemetry"])
def test_the_loop_stores_the_same_whatever_watches_it(world: World, sink: TelemetrySink | None) -> None:
    deployment = world.deployment(telemetry=Telemetry(sink=sink))
    deployment.evaluator()
    deployment.settle()
    for seed in _SEEDS[::4]:
        assert_the_loop_agrees(deployment, in_namespace(branching_program(seed)), seed)
