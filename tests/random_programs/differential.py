"""Runs a random program by the engine and by the interpreter, and says what is different."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from random import Random

from afl.compiler import compile_text
from afl.engine.errors import StepFailure
from afl.engine.execution.scripts import ScriptRunner
from afl.evaluation.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure, Node, Undecided
from tests.random_programs.generator import RandomProgram
from tests.random_programs.interpreter import Interpreter
from tests.random_programs.trusted_scripts import TrustingRunner

#: How likely the engine goes on from the store alone, with nothing in memory: never, now and then, before every answer.
HOT, MIXED, COLD = 0.0, 0.3, 1.0
#: What became of a program in the interpreter.
COMPLETED, FAILED, UNDECIDED = "completed", "failed", "undecided"


def disagreement(
    case: RandomProgram, coldness: float = MIXED, seen: Counter[str] | None = None, scripts: ScriptRunner | None = None
) -> str:
    """Return what is different, and the program; nothing when all is well. `seen` counts what programs do."""
    seen = Counter() if seen is None else seen
    program = compile_text(case.text, include_locations=False).program_json
    result = run_engine(program, case, coldness, scripts or TrustingRunner())
    found = result.outputs if result.status == ExecutionStatus.COMPLETED else result.error
    try:
        expected = Interpreter(program, Answers(program)).run(case.workflow, case.inputs)
    except Undecided:
        seen[UNDECIDED] += 1
        return ""
    except Failure as failure:
        seen[FAILED] += 1
        if isinstance(found, StepFailure) and _is_one_of(found, failure):
            return ""
        return f"seed {case.seed}: expected any of {sorted(failure.causes)}, found {found!r}\n{case.text}"
    seen[COMPLETED] += 1
    if isinstance(found, Mapping) and _canonical(found) == _canonical(expected):
        return ""
    return f"seed {case.seed}: expected {expected}, found {found!r}\n{case.text}"


def run_engine(program: Node, case: RandomProgram, coldness: float, scripts: ScriptRunner) -> ExecutionResult:
    """Run to the end; at each pause answer some of the events, in an order of the seed's own."""
    store, answers, random = MemoryStore(), Answers(program), Random(case.seed)
    evaluator = Evaluator(store, scripts=scripts)
    result = evaluator.execute(case.workflow, case.inputs, program_ast=program)
    while result.status == ExecutionStatus.PAUSED:
        events = list(result.pending_events)
        for event in random.sample(events, random.randint(1, len(events))):
            if random.random() < coldness:
                evaluator = Evaluator(store, scripts=scripts)
            try:
                answer = answers(event.event_type, event.payload)
            except Failure as failure:
                evaluator.fail_step(event.step_id, str(failure), *failure.types)
            else:
                evaluator.continue_step(event.step_id, answer)
        if random.random() < coldness:
            evaluator = Evaluator(store, scripts=scripts)
        result = evaluator.resume(result.workflow_id)
    return result


def _is_one_of(found: StepFailure, expected: Failure) -> bool:
    """Whether an error is of a class, and at a step, that the interpreter has seen fail."""
    names = re.split(r"[.\[\]#]", found.step_path)
    return any(found.error_type == name and (not step or step in names) for name, step in expected.causes)


def _canonical(outputs: object) -> str:
    """Text in which 1, 1.0 and true differ, and the order of a map's keys does not count."""
    return json.dumps(outputs, sort_keys=True)
