"""Generated programs of the whole language are valid, reproducible and varied, and their outcomes are settled."""

import json
import re
from collections import Counter
from functools import cache

from afl.compiler import compile_text
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure, Node, Undecided
from tests.random_programs.interpreter import Interpreter
from tests.random_programs.whole_generator import generate_whole

_SEEDS = range(70)


@cache
def _compiled(text: str) -> Node:
    return compile_text(text, include_locations=False).program_json


def test_the_same_seed_gives_the_same_program_of_the_whole_language() -> None:
    assert [generate_whole(seed) for seed in _SEEDS[:20]] == [generate_whole(seed) for seed in _SEEDS[:20]]


def test_the_programs_use_the_whole_language() -> None:
    texts = "".join(json.dumps(_compiled(generate_whole(seed).text)) for seed in _SEEDS)
    seen = set(re.findall(r'"type": "(\w+)"', texts)) | set(
        re.findall(r'"(foreach|pre_script|alias|default)": ', texts)
    )

    assert seen >= {
        "AndThenBlock", "CatchClause", "EventFacetDecl", "FacetDecl", "ForeachClause", "ImplicitDecl", "MixinCall",
        "MixinSig", "SchemaDecl", "ScriptBlock", "StepRef", "SysAssertStmt", "SysLogStmt", "WhenBlock", "WhenCase",
        "WorkflowDecl", "YieldStmt", "foreach", "pre_script", "alias", "default",
    }  # fmt: skip


def test_most_runs_succeed_some_fail_and_few_are_left_to_the_engine() -> None:
    ends: Counter[str] = Counter()
    errors: set[str] = set()
    for seed in _SEEDS:
        case = generate_whole(seed)
        program = _compiled(case.text)
        try:
            Interpreter(program, Answers(program)).run(case.workflow, case.inputs)
        except Failure as failure:
            ends["failed"] += 1
            errors |= failure.types
        except Undecided:
            ends["undecided"] += 1
        else:
            ends["completed"] += 1

    assert ends["completed"] > 2 * len(_SEEDS) / 3
    assert ends["undecided"] < len(_SEEDS) / 8
    assert errors >= {"EvaluationError", "Mood"}
    assert len(errors) > 2
