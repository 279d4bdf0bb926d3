"""One commit an iteration or one a batch: the same program with the same answers leaves the same steps and traces."""

from collections.abc import Mapping
from random import Random

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.model.store import StepDocument
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.messages import StepContinue
from tests.random_programs.answers import Answers
from tests.random_programs.generator import RandomProgram, generate
from tests.worlds.deployment import START_MS
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: Traces are compared to the millisecond of the clock.
WORLDS = EMBEDDED

_SEEDS = 60
_AT_ONCE = 15


def _documents(steps: list[StepDocument]) -> list[StepDocument]:
    """Everything that is stored of the steps but when and in which commit they were written."""
    return [step._replace(revision=0, created_at_ms=0) for step in steps]


class OneCommitAnIteration:
    """The workflow run by execute and resume; the order in which the events were answered is kept."""

    def __init__(self, case: RandomProgram, program: CompiledProgram, answers: Answers, workflow_id: str) -> None:
        self.order: list[tuple[str, Mapping[str, Value]]] = []
        store, random = MemoryStore(), Random(case.seed)
        evaluator = Evaluator(store, clock=ManualClock(START_MS))
        result = evaluator.execute(case.workflow, case.inputs, program_ast=program, workflow_id=workflow_id)
        while result.status == ExecutionStatus.PAUSED:
            event = random.choice(list(result.pending_events))
            answer = answers(event.event_type, event.payload)
            self.order.append((event.step_id, answer))
            evaluator.continue_step(event.step_id, answer)
            result = evaluator.resume(workflow_id)
        row = store.load_workflow(workflow_id)
        assert row is not None
        self.row, self.steps = row, store.load_steps(workflow_id)


@pytest.mark.parametrize("batch_records", [1, 500])
@pytest.mark.parametrize("first", range(0, _SEEDS, _AT_ONCE))
def test_the_loop_and_the_evaluator_agree_on_every_step(world: World, first: int, batch_records: int) -> None:
    deployment = world.deployment(evaluator=EvaluatorSettings(batch_records=batch_records))
    deployment.evaluator()
    deployment.settle()
    for seed in range(first, first + _AT_ONCE):
        case, workflow_id = generate(seed), f"wf-{seed}"
        tree = compile_text(case.text, include_locations=False).program_json
        program = CompiledProgram(tree)
        expected = OneCommitAnIteration(case, program, Answers(tree), workflow_id)
        deployment.client.apply_topics([program])
        deployment.client.deploy(program)

        deployment.client.start(case.workflow, case.inputs, workflow_id=workflow_id)
        deployment.settle()
        for step_id, answer in expected.order:
            deployment.send(StepContinue(step_id=step_id, result=answer))
        deployment.settle()

        row = deployment.workflow(workflow_id)
        assert (row.status, row.outputs, row.error, row.iterations) == (
            expected.row.status,
            expected.row.outputs,
            expected.row.error,
            expected.row.iterations,
        ), f"seed {seed}"
        assert _documents(deployment.steps(workflow_id)) == _documents(expected.steps), f"seed {seed}"
