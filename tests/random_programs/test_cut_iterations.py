"""An iteration is cut at the same places for every driver: in memory, read from its rows, or by the loop.

Random programs are small, so that their iterations are cut after very few steps here.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.engine.operations.operation_errors import OperationRefused
from afl.engine.types import Value
from afl.engine.workflow_cache import WorkflowCache
from afl.evaluation.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from afl_stream.wire.messages import StepContinue
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure
from tests.random_programs.generator import RandomProgram, generate
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.random_programs.whole_generator import generate_whole
from tests.tiers import some_now
from tests.worlds.deployment import START_MS
from tests.worlds.world import embedded

_CUTS = (1, 2, 3, 7)
#: Programs always, and those of the long run: every iteration of the cold ones reads all rows.
_SEEDS = some_now(range(1, 25), 1)


def cut_after(workflows: WorkflowCache, steps: int) -> None:
    workflows.run_limits = replace(workflows.run_limits, iteration_steps=steps, iteration_bytes=1_000)


class Run:
    """A random program, run to its end; and run again from one of its steps, when it is to be."""

    def __init__(self, case: RandomProgram, *, cut: int | None, is_cold: bool, rerun: bool = False) -> None:
        self.id = f"wf-{case.seed}"
        self.program = compile_text(case.text, include_locations=False).program_json
        self.store, self.random = MemoryStore(), Random(case.seed)
        self._cut, self._is_cold = cut, is_cold
        self._evaluator = self._new_evaluator()
        #: The order in which events were answered, and what.
        self.order: list[tuple[str, Mapping[str, Value]]] = []
        answers = Answers(self.program)
        result = self.evaluator.execute(case.workflow, case.inputs, program_ast=self.program, workflow_id=self.id)
        self._answer_all(result, answers)
        if rerun and self.store.load_workflow(self.id) is not None:
            steps = [step for step in self.store.load_steps(self.id) if step.object_type == "VariableAssignment"]
            try:
                self.evaluator.rerun(self.random.choice(steps).id if steps else self.id)
            except OperationRefused:
                return
            self._answer_all(self.evaluator.resume(self.id), answers)

    @property
    def evaluator(self) -> Evaluator:
        """The one that goes on: where nothing is hot, a new one each time."""
        if self._is_cold:
            self._evaluator = self._new_evaluator()
        return self._evaluator

    def _new_evaluator(self) -> Evaluator:
        evaluator = Evaluator(
            self.store,
            clock=ManualClock(START_MS),
            scripts=TrustingRunner(),
            max_iterations=1 if self._is_cold else 1_000_000,
        )
        if self._cut is not None:
            cut_after(evaluator._workflows, self._cut)
        return evaluator

    def _answer_all(self, result: ExecutionResult, answers: Answers) -> None:
        while result.status in (ExecutionStatus.TIMEOUT, ExecutionStatus.PAUSED):
            if result.status == ExecutionStatus.PAUSED:
                event = self.random.choice(list(result.pending_events))
                try:
                    answer = answers(event.event_type, event.payload)
                except Failure as failure:
                    self.evaluator.fail_step(event.step_id, str(failure), *failure.types)
                else:
                    self.order.append((event.step_id, answer))
                    self.evaluator.continue_step(event.step_id, answer)
            result = self.evaluator.resume(self.id)

    def outcome(self) -> tuple[object, ...]:
        row = self.store.load_workflow(self.id)
        return ("not started",) if row is None else of_row(row)

    def documents(self) -> list[StepDocument]:
        return plain(self.store.load_steps(self.id))


def of_row(row: WorkflowRow) -> tuple[object, ...]:
    return (row.status, row.outputs, row.error, row.iterations, row.steps)


def plain(steps: list[StepDocument]) -> list[StepDocument]:
    """All of the steps but when, and in which commit, they were written."""
    return [step._replace(revision=0, created_at_ms=0, deadline_ms=None) for step in steps]


def case_of(seed: int) -> RandomProgram:
    return generate_whole(seed) if seed % 2 else generate(seed)


@pytest.mark.parametrize("rerun", [False, True], ids=["once", "and again"])
@pytest.mark.parametrize("seed", _SEEDS)
def test_hot_and_read_back_before_every_iteration_a_cut_run_is_the_same(seed: int, rerun: bool) -> None:
    cut = _CUTS[seed // 2 % len(_CUTS)]
    hot, cold = (Run(case_of(seed), cut=cut, is_cold=is_cold, rerun=rerun) for is_cold in (False, True))

    assert hot.outcome() == cold.outcome()
    assert hot.documents() == cold.documents()


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_cut_run_gives_what_a_whole_one_gives(seed: int) -> None:
    cut = Run(case_of(seed), cut=_CUTS[seed // 2 % len(_CUTS)], is_cold=False)
    whole = Run(case_of(seed), cut=None, is_cold=False)

    assert cut.outcome()[:2] == whole.outcome()[:2]


@pytest.mark.parametrize("cut", _CUTS)
def test_the_loop_cuts_where_the_evaluator_does(cut: int) -> None:
    deployment = embedded(None)
    cut_after(deployment.evaluator().service.loop._context.workflows, cut)
    deployment.settle()
    for seed in range(0, 12, 2):
        expected = Run(generate(seed), cut=cut, is_cold=False)
        case, program = generate(seed), CompiledProgram(expected.program)
        deployment.client.apply_topics([program])
        deployment.client.deploy(program)
        deployment.client.start(case.workflow, case.inputs, workflow_id=expected.id)
        deployment.settle()
        for step_id, answer in expected.order:
            deployment.send(StepContinue(step_id=step_id, result=answer))
            deployment.settle()

        assert of_row(deployment.workflow(expected.id)) == expected.outcome(), f"seed {seed}"
        assert plain(deployment.steps(expected.id)) == expected.documents(), f"seed {seed}"
