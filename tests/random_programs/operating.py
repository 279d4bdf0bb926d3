"""Random programs that operators act on: what is run again, or retried after a failure, ends as if nothing had been."""

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from afl.compiler import compile_text
from afl.engine.errors import StepFailure
from afl.engine.execution.generations import current_steps
from afl.evaluation.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure
from tests.random_programs.generator import RandomProgram
from tests.random_programs.trusted_scripts import TrustingRunner

#: What agents fail with where nothing is wrong with the program.
FLAKY = "Flaky"


class Operated:
    """One run of a random program, whose agents answer by facet and payload alone."""

    def __init__(self, case: RandomProgram, coldness: float, salt: str, *, catches: bool = True) -> None:
        self.case = case
        program = compile_text(case.text, include_locations=False).program_json
        self.program = program if catches else _without_catches(program)
        self.random = Random(f"{salt} {case.seed}")
        self._answers = Answers(self.program)
        self._coldness = coldness
        self.store = MemoryStore()
        self._evaluator = Evaluator(self.store, scripts=TrustingRunner())
        self.result: ExecutionResult = self._evaluator.execute(case.workflow, case.inputs, program_ast=self.program)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator, now and then another that has nothing but the store."""
        if self.random.random() < self._coldness:
            self._evaluator = Evaluator(self.store, scripts=TrustingRunner())
        return self._evaluator

    def resume(self) -> None:
        self.result = self.evaluator.resume(self.result.workflow_id)

    def play(self, disturb: Callable[["Operated", str], bool] = lambda _run, _step: False) -> None:
        """Answer events, in an order of the seed's own, until the run ends. Where `disturb` has done something with a
        step, that is not answered.
        """
        while self.result.status == ExecutionStatus.PAUSED:
            events = list(self.result.pending_events)
            for event in self.random.sample(events, self.random.randint(1, len(events))):
                if disturb(self, event.step_id):
                    continue
                try:
                    answer = self._answers(event.event_type, event.payload)
                except Failure as failure:
                    self.evaluator.fail_step(event.step_id, str(failure), *failure.types)
                else:
                    self.evaluator.continue_step(event.step_id, answer)
            self.resume()

    def any_step(self) -> str:
        """Any step that counts."""
        row = self.store.load_workflow(self.result.workflow_id)
        assert row is not None
        return self.random.choice(current_steps(self.store.load_steps(row.id), row.execution)).id

    def end(self) -> str:
        """How the run has ended, as text; of a failure only that it is one: which came first may differ."""
        if self.result.status != ExecutionStatus.COMPLETED:
            assert isinstance(self.result.error, StepFailure), self.result.error
            return "failed"
        return json.dumps(self.result.outputs, sort_keys=True)


def _without_catches(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_catches(part) for key, part in tree.items() if key != "catch"}
    return [_without_catches(part) for part in tree] if isinstance(tree, list) else tree


def difference_when_run_again(case: RandomProgram, coldness: float, seen: Counter[str]) -> str:
    """Run to the end, then again from random steps, also in the middle of that; what is different in the end."""
    run = Operated(case, coldness, "again")
    run.play()
    expected = run.end()
    seen[expected if expected == "failed" else "completed"] += 1
    left = 4

    def disturb(run: Operated, _step_id: str) -> bool:
        nonlocal left
        if not left or run.random.random() < 0.8:
            return False
        left -= 1
        run.evaluator.rerun(run.any_step())
        return True

    for _ in range(2):
        step = run.any_step()
        run.evaluator.rerun(step)
        run.resume()
        run.play(disturb)
        if run.end() != expected and ".error" not in case.text:  # Another of several failures may come first.
            return f"seed {case.seed}: from {step} again: expected {expected}, found {run.end()}\n{case.text}"
    return ""


def difference_when_retried(case: RandomProgram, coldness: float, seen: Counter[str]) -> str:
    """Let agents fail at random, and retry what has failed, or all of it; what is different from a run without."""
    # What is caught is not retried.
    undisturbed = Operated(case, coldness, "retry", catches=False)
    undisturbed.play()
    expected = undisturbed.end()
    run = Operated(case, coldness, "retry", catches=False)
    failed: Counter[str] = Counter()

    def disturb(run: Operated, step_id: str) -> bool:
        if failed[step_id] == 2 or run.random.random() < 0.6:
            return False
        failed[step_id] += 1
        run.evaluator.fail_step(step_id, "not now", FLAKY)
        if run.random.random() < 0.5:
            # While other steps go on.
            run.evaluator.retry(step_id)
            seen["at once"] += 1
        return True

    run.play(disturb)
    while isinstance(run.result.error, StepFailure) and run.result.error.error_type == FLAKY:
        seen["retried"] += 1
        run.evaluator.retry(run.random.choice([run.result.workflow_id, run.result.error.step_id]))
        run.resume()
        run.play(disturb)
    if run.end() != expected:
        return f"seed {case.seed}: expected {expected}, found {run.end()}\n{case.text}"
    return ""
