"""Rows made by position: what makes them knows the order of the fields, and refuses another at import."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

from afl.core.row_maker import row_maker

_ROOT = Path(__file__).parents[3]


class Point(NamedTuple):
    """A row of the tests."""

    x: int
    y: int = 0


_MODULES = [path for package in ("afl", "afl_stream") for path in sorted((_ROOT / package).rglob("*.py"))]
#: The modules that have a row maker.
MAKERS = [
    str(path.relative_to(_ROOT))
    for path in _MODULES
    if " row_maker(" in path.read_text() and path.name != "row_maker.py"
]


def parsed(path: str) -> ast.Module:
    """Return the tree of a module."""
    return ast.parse((_ROOT / path).read_text())


def calls_of_row_maker(module: ast.Module) -> list[tuple[str, ast.Call]]:
    """Return the makers of a module: name and call."""
    return [
        (target.id, statement.value)
        for statement in module.body
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Call)
        if isinstance(statement.value.func, ast.Name) and statement.value.func.id == "row_maker"
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    ]


def test_a_maker_makes_what_the_constructor_makes() -> None:
    made = row_maker(Point, "x", "y")((3, 4))

    assert made == Point(3, 4)
    assert type(made) is Point


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("y", "x"), "value 0 is given as 'y', and the field is 'x'"),
        (("x", "z"), "value 1 is given as 'z', and the field is 'y'"),
        (("x",), "1 values are given for 2 fields"),
        (("x", "y", "z"), "3 values are given for 2 fields"),
    ],
)
def test_other_fields_and_another_order_are_refused(names: tuple[str, ...], problem: str) -> None:
    with pytest.raises(TypeError, match=f"rows of Point: {problem}"):
        row_maker(Point, *names)


@pytest.mark.parametrize("path", MAKERS)
def test_a_module_with_another_order_is_not_imported(path: str) -> None:
    module = parsed(path)
    (_, call), *_ = calls_of_row_maker(module)
    call.args[1], call.args[2] = call.args[2], call.args[1]
    code = compile(module, path, "exec")

    with pytest.raises(TypeError, match="value 0 is given as"):
        exec(code, {"__name__": path.removesuffix(".py").replace("/", "."), "__file__": path})


def _count(value: ast.expr) -> int:
    """Return how many values an element of a row stands for: more than one where it is a slice, `*event[:5]`."""
    if not isinstance(value, ast.Starred):
        return 1
    assert isinstance(value.value, ast.Subscript)
    assert isinstance(value.value.slice, ast.Slice), "only a slice says how many"
    first, last = (
        ast.literal_eval(bound) if bound else 0 for bound in (value.value.slice.lower, value.value.slice.upper)
    )
    return int(last) - int(first)


@pytest.mark.parametrize("path", MAKERS)
def test_a_maker_is_given_a_value_for_each_of_its_names(path: str) -> None:
    module = parsed(path)
    for name, call in calls_of_row_maker(module):
        given = [
            sum(_count(value) for value in node.args[0].elts)
            for node in ast.walk(module)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
            if node.args and isinstance(node.args[0], ast.Tuple)
        ]

        assert set(given) <= {len(call.args) - 1}


def test_rows_are_made_by_position_by_makers_alone() -> None:
    others = [
        str(path.relative_to(_ROOT))
        for path in _MODULES
        if "tuple.__new__" in path.read_text() and path.name != "row_maker.py"
    ]

    assert others == []
    assert {"afl/engine/execution/commit_rows.py", "afl/engine/model/step_rows.py"} <= set(MAKERS)
