"""The kinds of fuzzing, each a function of a seed; `python -m tests.fuzzing` and the suite run them."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from random import Random
from typing import Any

from afl.compiled.program import ProgramError
from afl.compiler import compile_text
from afl.errors import AFLError
from afl.evaluation.evaluator import Evaluator, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from tests.fuzzing.checks import Defect, check_any, check_json, check_tree, check_valid, in_time
from tests.fuzzing.mutations import deepened, mutated_bytes, mutated_tree
from tests.fuzzing.programs import valid_program
from tests.random_programs.differential import COLD, HOT, MIXED, disagreement
from tests.random_programs.generator import generate
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.random_programs.whole_generator import generate_whole

#: How many mutations are made of one program before the next is taken.
_OF_ONE = 20


def valid(seed: int) -> None:
    check_valid(valid_program(seed))


def text_mutation(seed: int) -> None:
    check_any(mutated_bytes(_text(seed // _OF_ONE), Random(f"text-{seed}")))


def tree_mutation(seed: int) -> None:
    random = Random(f"tree-{seed}")
    tree = _tree(seed // _OF_ONE)
    if seed % _OF_ONE == 0:
        check_tree(deepened(tree, random))
    elif seed % _OF_ONE < 5:
        check_json(mutated_bytes(json.dumps(tree), random))
    else:
        check_tree(mutated_tree(tree, random))


def spoilt_run(seed: int) -> None:
    """Start a spoilt compiled program: it fails, or does whatever it now says."""
    number = seed // _OF_ONE * 2
    case, tree = generate_whole(number), mutated_tree(_tree(number), Random(f"run-{seed}"))
    with suppress(ProgramError, AFLError):
        evaluator = Evaluator(MemoryStore(), scripts=TrustingRunner())
        result = evaluator.execute(case.workflow, case.inputs, program_ast=tree)
        for event in list(result.pending_events):
            evaluator.continue_step(event.step_id, {})
        if result.status == ExecutionStatus.PAUSED:
            evaluator.resume(result.workflow_id)


def engine(seed: int) -> None:
    """Compare engine and interpreter: with all in memory, with some, and read back before every answer."""
    found = disagreement(generate_whole(seed), (HOT, MIXED, COLD)[seed % 3])
    if found:
        raise Defect(found)


KINDS: dict[str, Callable[[int], None]] = {
    "valid": valid,
    "text": text_mutation,
    "tree": tree_mutation,
    "run": spoilt_run,
    "engine": engine,
}


def attempt(kind: str, seed: int) -> str:
    """Run one seed; what is wrong, and how to see it again, or nothing."""
    try:
        with in_time():
            KINDS[kind](seed)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what was looked for
        again = f"python -m tests.fuzzing {kind} --seed {seed}"
        return f"{again}\n  {type(error).__name__}: {error}"
    return ""


@lru_cache(maxsize=4)
def _text(number: int) -> str:
    """Something to spoil: small programs show more than large ones."""
    return valid_program(number) if number % 2 else generate(number).text


@lru_cache(maxsize=4)
def _tree(number: int) -> dict[str, Any]:
    text = valid_program(number) if number % 2 else generate_whole(number).text
    return compile_text(text).program_json
