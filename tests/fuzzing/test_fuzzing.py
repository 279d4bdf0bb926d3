"""Valid programs of every shape are taken, and no spoilt one brings anything down; `make fuzz` tries many more."""

import json
import re
from collections.abc import Callable
from random import Random

import pytest

from afl.compiled.program import CompiledProgram, ProgramError
from afl.compiler import compile_text
from afl.errors import ParseError
from afl.formatting import FormatRefused, format_text
from afl.parser import parse
from afl.syntax.tree_builder import MAX_BLOCK_DEPTH, MAX_EXPRESSION_DEPTH, MAX_TYPE_DEPTH
from tests.fuzzing.__main__ import main
from tests.fuzzing.checks import check_any, in_time
from tests.fuzzing.kinds import KINDS, attempt
from tests.fuzzing.mutations import mutated_bytes
from tests.fuzzing.programs import valid_program
from tests.fuzzing.words import KEYWORDS
from tests.unit.afl.checking import check_texts

#: Seeds of each kind that the suite has time for.
_COUNTS = {"valid": 12, "text": 40, "tree": 60, "run": 20}
_PARTS = 2


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("kind", _COUNTS)
def test_fuzzing_finds_nothing(kind: str, part: int) -> None:
    seeds = range(part, _COUNTS[kind], _PARTS)

    assert [defect for seed in seeds if (defect := attempt(kind, seed))] == []


def test_the_generated_programs_use_every_construct_and_every_keyword_as_a_name() -> None:
    texts = [valid_program(seed) for seed in range(24)]
    trees = json.dumps([compile_text(text, include_locations=False).program_json for text in texts])

    assert set(re.findall(r'"type": "(\w+)"', trees)) >= {
        "AndThenBlock", "ArrayLiteral", "ArrayType", "BinaryExpr", "Boolean", "CallExpr", "CatchClause", "ConcatExpr",
        "Double", "EventFacetDecl", "FacetDecl", "ForeachClause", "ImplicitDecl", "IndexExpr", "InputRef", "Int",
        "MapLiteral", "MixinCall", "MixinSig", "Namespace", "Null", "PromptBlock", "SchemaDecl", "ScriptBlock",
        "StepRef", "StepStmt", "String", "SysAssertStmt", "SysLogStmt", "UnaryExpr", "WhenBlock", "WhenCase",
        "WorkflowDecl", "YieldStmt",
    }  # fmt: skip
    assert set(re.findall(r'"operator": "([^"]+)"', trees)) == {
        "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "!",
        "in", "not in", "contains", "startsWith", "endsWith",
    }  # fmt: skip
    assert set(re.findall(r'"name": "(\w+)"', trees)) >= set(KEYWORDS)
    for key in ('"doc"', '"pre_script"', '"uses"', '"alias"', '"default": true', '"yields"'):
        assert key in trees


def _expression(depth: int, opening: str, closing: str) -> str:
    return f"facet F(p: Json = {opening * depth}1{closing * depth})"


_DEEP: dict[str, tuple[int, Callable[[int], str]]] = {
    "brackets": (MAX_EXPRESSION_DEPTH, lambda n: _expression(n, "(", ")")),
    "arrays": (MAX_EXPRESSION_DEPTH, lambda n: _expression(n, "[", "]")),
    "signs": (MAX_EXPRESSION_DEPTH, lambda n: _expression(n, "-", "")),
    "types": (MAX_TYPE_DEPTH, lambda n: f"facet F(p: {'[' * n}Int{']' * n})"),
    "blocks": (
        MAX_BLOCK_DEPTH,
        lambda n: f"facet F() facet G() {'andThen { a = F() ' * n}{'}' * n}",
    ),
}


@pytest.mark.parametrize("form", _DEEP)
def test_nesting_ends_at_its_limit_and_not_before(form: str) -> None:
    limit, program = _DEEP[form]
    allowed = program(limit)

    assert check_any(allowed.encode())
    assert parse(format_text(allowed)) is not None
    with pytest.raises(ParseError, match="nested too deeply"):
        parse(program(limit + 1))


@pytest.mark.parametrize("form", _DEEP)
def test_what_is_nested_a_hundred_times_deeper_is_refused_in_time(form: str) -> None:
    limit, program = _DEEP[form]
    with in_time():
        assert not check_any(program(limit * 100).encode())


@pytest.mark.parametrize(
    "text",
    ["\x00", "\ufeff", "\ufeff\ufeff", "facet F(p: Double = 1.0e999)", f"facet F(p: Int = {'9' * 5000})", '"' * 50_000,
     "/*" * 50_000, "facet F() script {" + "'''" * 20_000, "use " * 20_000, "a." * 20_000,
     "facet F(" + "a: Int, " * 5_000],
)  # fmt: skip
def test_odd_texts_are_refused_or_taken_in_time(text: str) -> None:
    with in_time():
        check_any(text.encode())


def test_a_compiled_program_deeper_than_python_can_walk_is_refused() -> None:
    deep: dict[str, object] = {"type": "Int", "value": 1}
    for _ in range(50_000):
        deep = {"type": "UnaryExpr", "operator": "-", "operand": deep}
    slot = {"name": "p", "type": "Int", "default": deep}
    program = CompiledProgram(
        {"type": "Program", "declarations": [{"type": "FacetDecl", "name": "F", "params": [slot]}]}
    )

    with pytest.raises(ProgramError, match="RecursionError"):
        _ = program.text


def test_mutations_are_not_all_refused_for_the_same_reason() -> None:
    found: set[str] = set()
    texts = [valid_program(seed) for seed in range(4)]
    for seed in range(40):
        content = mutated_bytes(texts[seed % 4], Random(seed)).decode("utf-8", "replace")
        found |= {diagnostic.code for diagnostic in check_texts([(content, None)]).diagnostics}

    assert len(found) > 5


def test_a_defect_comes_with_the_command_that_shows_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(seed: int) -> None:
        raise FormatRefused(f"of seed {seed}")

    KINDS["broken"] = fails
    try:
        status = main(["broken", "--first", "7", "--count", "2"])
        with pytest.raises(FormatRefused):
            main(["broken", "--seed", "8"])
    finally:
        del KINDS["broken"]

    shown = capsys.readouterr().out
    assert status == 1
    assert "python -m tests.fuzzing broken --seed 7" in shown
    assert "2 defects" in shown
