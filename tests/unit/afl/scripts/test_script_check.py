"""The check of a script's text before it is run."""

import pytest

from afl.scripts.check import ProblemKind, check_script


def test_a_script_of_ordinary_python_has_no_problem() -> None:
    code = """
import math
from collections import Counter as Count

def total(lines, *, start=0):
    return sum((line["price"] for line in lines), start)

try:
    result["total"] = math.floor(total(params["lines"]))
except (KeyError, ValueError) as error:
    result["total"] = 0
    print(f"no total: {error}")
result["kinds"] = dict(Count(line["kind"] for line in params["lines"]))
"""
    checked = check_script(code)

    assert checked.problems == ()
    assert checked.refusal is None
    assert checked.assigned == {"total", "kinds"}
    assert not checked.result_is_open


@pytest.mark.parametrize(
    ("code", "assigned"),
    [
        ('result["a"] = result["b"] = 1', {"a", "b"}),
        ('result["a"], (result["b"], *result["c"]) = params["x"]', {"a", "b", "c"}),
        ('result["a"]: int = 1', {"a"}),
        ('result["n"] = 0\nresult["n"] += 1', {"n"}),
        ('for result["i"] in range(3):\n    pass', {"i"}),
        ('if params["x"]:\n    result["x"] = result["y"] = 1\nprint(result["x"])', {"x", "y"}),
        ("print(params)", set()),
        ('result["数量"] = 1', {"数量"}),
    ],
)
def test_names_set_by_constant_subscripts_are_listed(code: str, assigned: set[str]) -> None:
    checked = check_script(code)

    assert checked.assigned == assigned
    assert not checked.result_is_open


@pytest.mark.parametrize(
    "code",
    [
        "result = {'a': 1}",
        "result.update(params)",
        "result[params['key']] = 1",
        "result[1] = 1",
        "del result['a']",
        "into = result",
        "def put(result):\n    result['a'] = 1",
        "for result in [{}]:\n    pass",
        "global result",
        "match params:\n    case {'x': result}:\n        pass",
        "import json as result",
    ],
)
def test_any_other_use_of_result_leaves_its_names_open(code: str) -> None:
    checked = check_script('result["known"] = 1\n' + code)

    assert checked.result_is_open
    assert "known" in checked.assigned


def test_a_syntax_error_tells_its_line_and_column() -> None:
    (problem,) = check_script("a = 1\nb = = 2\n").problems

    assert (problem.kind, problem.line, problem.column) == (ProblemKind.SYNTAX, 2, 5)
    assert problem.error_type == "SyntaxError"


@pytest.mark.parametrize("code", ["a\0b", "(" * 5000, "-" * 50000 + "1", "x" + ".a" * 50000, "[" * 150 + "]" * 150])
def test_text_that_python_itself_gives_up_on_is_a_problem_or_none_but_never_raises(code: str) -> None:
    for problem in check_script(code).problems:
        assert problem.error_type == "SyntaxError"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import os", "os"),
        ("import json, sys", "sys"),
        ("from os import path", "os"),
        ("import collections.abc", "collections.abc"),
        ("from collections.abc import Mapping", "collections.abc"),
        ("from . import x", "."),
        ("from .json import x", ".json"),
        ("if False:\n    import socket", "socket"),
    ],
)
def test_other_imports_are_refused_by_name(code: str, name: str) -> None:
    refusal = check_script(code).refusal

    assert refusal is not None
    assert refusal.kind is ProblemKind.IMPORT
    assert refusal.message.startswith(f"{name} cannot be imported")
    assert refusal.error_type == "ImportError"


@pytest.mark.parametrize(
    "code",
    [
        "().__class__",
        "__builtins__",
        "__import__('os')",
        "params.__dict__['x'] = 1",
        "def f(__class__): pass",
        "f(__class__=1)",
        "def __getattr__(): pass",
        "import json as __x",
        "from json import __builtins__ as b",
        "global __builtins__",
        "match 1:\n    case int(__class__=kind):\n        pass",
        "match 1:\n    case int() as __x:\n        pass",
        "(i for i in ()).gi_frame",
        "error.tb_frame.f_back.f_globals",
        "type(1).mro()",
        "'{0.__class__}'.format(1)",
        "'{0[__class__]}'",
        "f'{().__class__}'",
        "lambda: (yield).__class__",
        "@x.__class__\ndef f(): pass",
        "try:\n    1\nexcept x as __y:\n    2",
    ],
)
def test_special_names_are_refused_wherever_they_stand(code: str) -> None:
    refusal = check_script(code).refusal

    assert refusal is not None
    assert refusal.kind is ProblemKind.ACCESS
    assert refusal.error_type == "ScriptError"


def test_a_class_is_refused_at_its_line() -> None:
    refusal = check_script("x = 1\nclass A: pass").refusal

    assert refusal is not None
    assert (refusal.kind, refusal.line) == (ProblemKind.CLASS, 2)


def test_a_builtin_that_scripts_lack_is_told_but_does_not_refuse() -> None:
    checked = check_script("if params['x']:\n    open('x')")

    assert [(problem.kind, problem.line, problem.column) for problem in checked.problems] == [
        (ProblemKind.BUILTIN, 2, 5)
    ]
    assert checked.problems[0].message == "open is not available in a script"
    assert checked.refusal is None


def test_a_name_of_the_scripts_own_may_be_that_of_a_builtin() -> None:
    code = "id = 1\ndef open(input): return input\nfor vars in (): pass\nprint(id, open, vars)"

    assert check_script(code).problems == ()


def test_problems_come_in_the_order_of_the_text() -> None:
    checked = check_script("().__class__\nimport os\nclass A: pass")

    assert [problem.line for problem in checked.problems] == [1, 2, 3]
