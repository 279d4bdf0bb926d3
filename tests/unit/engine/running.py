"""Runs programs in tests of the engine: compile, start, answer, look at what came of it."""

from collections.abc import Callable, Mapping
from typing import Any

from afl.compiled.program import CompiledProgram, Node
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.errors import StepFailure
from afl.engine.model.store import WorkflowRow
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator, ExecutionResult
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.telemetry.telemetry import Telemetry
from tests.engine_view import RunView, SeenStep

#: What agents return, given the facet's name and the payload.
Agents = Callable[[str, Mapping[str, Value]], Mapping[str, Value]]


def compiled(text: str) -> CompiledProgram:
    """Return a program of one namespace, `n`."""
    return CompiledProgram(compile_text(f"namespace n {{\n{text}\n}}").program_json)


class Engine:
    """One run of the workflow `n.W` of a program, over a store of its own."""

    def __init__(
        self,
        program: str | Node | CompiledProgram,
        *,
        store: EngineStore | None = None,
        telemetry: Telemetry | None = None,
        max_iterations: int = 1_000_000,
        max_open_events: int = 10_000,
        hot_steps: int = 200_000,
        workflow_id: str = "run",
        **more: Any,
    ) -> None:
        """Take the program, and what its evaluators get, also by their own names."""
        if isinstance(program, str):
            program = compiled(program)
        self.program = program if isinstance(program, CompiledProgram) else CompiledProgram(program)
        self.store = store or MemoryStore()
        self.workflow_id = workflow_id
        self._arguments = (telemetry, max_iterations, max_open_events, hot_steps)
        self._more = more
        self.evaluator = self.new_evaluator()

    def new_evaluator(self) -> Evaluator:
        telemetry, max_iterations, max_open_events, hot_steps = self._arguments
        return Evaluator(
            self.store,
            telemetry,
            max_iterations,
            clock=ManualClock(1_000),
            hot_steps=hot_steps,
            max_open_events=max_open_events,
            **self._more,
        )

    def restart(self) -> None:
        """Lose the memory."""
        self.evaluator = self.new_evaluator()

    def start(self, inputs: Mapping[str, Value] | None = None, workflow: str = "W") -> ExecutionResult:
        return self.evaluator.execute(workflow, inputs, self.program, workflow_id=self.workflow_id)

    def answer(self, path: str, result: Mapping[str, Value] | None = None) -> ExecutionResult:
        self.evaluator.continue_step(self.step(path).id, result, is_checked=result is not None)
        return self.resume()

    def fail(self, path: str, message: str = "broken", error_type: str = "Broken") -> ExecutionResult:
        self.evaluator.fail_step(self.step(path).id, message, error_type)
        return self.resume()

    def resume(self) -> ExecutionResult:
        return self.evaluator.resume(self.workflow_id)

    def run(self, inputs: Mapping[str, Value] | None = None, agents: Agents | None = None) -> ExecutionResult:
        """Start, and let agents answer everything, the oldest first, until the workflow ends."""
        result = self.start(inputs)
        while result.status == "PAUSED":
            assert agents is not None, f"who answers {self.waiting()}?"
            step = self.view().waiting()[0]
            self.evaluator.continue_step(step.id, agents(step.document.facet_name, step.document.params))
            result = self.resume()
        return result

    def view(self) -> RunView:
        return RunView(self.store, self.workflow_id, self.program.tree)

    def steps(self) -> list[SeenStep]:
        return self.view().steps()

    def step(self, path: str) -> SeenStep:
        return self.view().step(path)

    def waiting(self) -> list[str]:
        return self.view().waiting_paths()

    def paths(self) -> list[str]:
        return [step.path for step in self.steps()]

    def row(self) -> WorkflowRow:
        row = self.store.load_workflow(self.workflow_id)
        assert row is not None
        return row


def outputs_of(text: str, inputs: Mapping[str, Value] | None = None, agents: Agents | None = None) -> dict[str, Value]:
    """Return the outputs of a run that must succeed."""
    result = Engine(text).run(inputs, agents)
    assert result.status == "COMPLETED", result.error
    return result.outputs


def failure_of(result: ExecutionResult) -> StepFailure:
    """Return the first cause of a run that must have failed."""
    assert (result.success, result.status) == (False, "ERROR")
    assert isinstance(result.error, StepFailure), result.error
    return result.error
