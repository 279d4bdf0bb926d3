"""The engine and the interpreter agree on random programs, in whatever order agents answer."""

import json
from collections.abc import Mapping
from random import Random

import pytest

from afl.compiler import compile_text
from afl.engine.errors import StepFailure
from afl.evaluation.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure, Node
from tests.random_programs.generator import RandomProgram, generate
from tests.random_programs.interpreter import Interpreter
from tests.tiers import some_now

_PROGRAMS = 1_000
_AT_ONCE = 50


@pytest.mark.parametrize("first", some_now(range(0, _PROGRAMS, _AT_ONCE), 6))
def test_engine_and_interpreter_agree(first: int) -> None:
    disagreements = [text for seed in range(first, first + _AT_ONCE) if (text := _disagreement(generate(seed)))]

    assert not disagreements, "\n\n".join(disagreements)


def _disagreement(case: RandomProgram) -> str:
    """Return what is different, and the program to look at; nothing when all is well."""
    program = compile_text(case.text, include_locations=False).program_json
    result = _run_engine(program, case)
    found = result.outputs if result.status == ExecutionStatus.COMPLETED else result.error
    try:
        expected = Interpreter(program, Answers(program)).run(case.workflow, case.inputs)
    except Failure as failure:
        if isinstance(found, StepFailure) and found.error_type in failure.types:
            return ""
        return f"seed {case.seed}: expected any of {sorted(failure.types)}, found {found!r}\n{case.text}"
    if isinstance(found, Mapping) and _canonical(found) == _canonical(expected):
        return ""
    return f"seed {case.seed}: expected {expected}, found {found!r}\n{case.text}"


def _run_engine(program: Node, case: RandomProgram) -> ExecutionResult:
    """Run to the end; at each pause answer some of the events, in an order of the seed's own.

    Now and then another evaluator goes on, which has nothing but the store.
    """
    store, answers, random = MemoryStore(), Answers(program), Random(case.seed)
    evaluator = Evaluator(store)
    result = evaluator.execute(case.workflow, case.inputs, program_ast=program)
    while result.status == ExecutionStatus.PAUSED:
        events = list(result.pending_events)
        if random.random() < 0.3:
            evaluator = Evaluator(store)
        for event in random.sample(events, random.randint(1, len(events))):
            evaluator.continue_step(event.step_id, answers(event.event_type, event.payload))
        result = evaluator.resume(result.workflow_id)
    return result


def _canonical(outputs: object) -> str:
    """Text in which 1, 1.0 and true differ, and the order of a map's keys does not count."""
    return json.dumps(outputs, sort_keys=True)
