"""Generated programs are valid, reproducible and varied."""

import json
import re
from functools import cache

from afl.compiler import compile_text
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure, Node
from tests.random_programs.generator import generate
from tests.random_programs.interpreter import Interpreter

_SEEDS = range(100)


@cache
def _compiled(text: str) -> Node:
    return compile_text(text, include_locations=False).program_json


def test_every_program_compiles() -> None:
    assert all(_compiled(generate(seed).text)["declarations"] for seed in _SEEDS)


def test_the_same_seed_gives_the_same_program() -> None:
    assert [generate(seed) for seed in _SEEDS] == [generate(seed) for seed in _SEEDS]


def test_the_programs_use_the_whole_language_of_the_interpreter() -> None:
    texts = [json.dumps(_compiled(generate(seed).text)) for seed in _SEEDS]
    seen = set(re.findall(r'"type": "(\w+)"', "".join(texts)))

    assert seen >= {
        "AndThenBlock", "ArrayLiteral", "BinaryExpr", "Boolean", "ConcatExpr", "Double", "EventFacetDecl", "FacetDecl",
        "ForeachClause", "IndexExpr", "InputRef", "Int", "MapLiteral", "Namespace", "Null", "SchemaDecl", "StepRef",
        "String", "UnaryExpr", "WorkflowDecl", "YieldStmt",
    }  # fmt: skip


def test_the_programs_use_every_operator() -> None:
    texts = [json.dumps(_compiled(generate(seed).text)) for seed in _SEEDS]
    seen = set(re.findall(r'"operator": "([^"]+)"', "".join(texts)))

    assert seen == {
        "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "!",
        "in", "not in", "contains", "startsWith", "endsWith",
    }  # fmt: skip


def test_most_runs_succeed_and_some_fail_of_each_error() -> None:
    succeeded = 0
    errors: set[str] = set()
    for seed in _SEEDS:
        case = generate(seed)
        program = _compiled(case.text)
        try:
            succeeded += bool(Interpreter(program, Answers(program)).run(case.workflow, case.inputs))
        except Failure as failure:
            errors |= failure.types

    assert succeeded > len(_SEEDS) / 2
    assert errors == {"EvaluationError", "ReferenceError"}
