"""The frame that the expression tests evaluate in: inputs and step results as one map of maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afl.engine.errors import ReferenceError
from afl.engine.expressions.expression import compile_expression, walk_members
from afl.engine.types import Value

#: Step name, or "$" for the inputs, to attributes.
Frame = Mapping[str, Mapping[str, Value]]


class FrameReferences:
    """Reads references from a `Frame`."""

    def input_reference(self, path: tuple[str, ...]) -> Callable[[Frame], Value]:
        return self._read("$", path[0], path[1:], ".".join(("$", *path)))

    def step_reference(self, path: tuple[str, ...]) -> Callable[[Frame], Value]:
        return self._read(path[0], path[1], path[2:], ".".join(path))

    def _read(self, owner: str, name: str, members: tuple[str, ...], text: str) -> Callable[[Frame], Value]:
        def read(frame: Frame) -> Value:
            if name not in frame[owner]:
                raise ReferenceError(text, f"'{name}' not found")
            return walk_members(frame[owner][name], members, text)

        return read


def evaluate(node: object, frame: Frame | None = None) -> Value:
    """Compile an expression and call it once."""
    return compile_expression(node, FrameReferences())(frame or {})


def literal(value: Value) -> dict[str, object]:
    """Return the node of a scalar."""
    kinds = {bool: "Boolean", int: "Int", float: "Double", str: "String"}
    return {"type": "Null"} if value is None else {"type": kinds[type(value)], "value": value}


def binary(left: object, operator: str, right: object) -> dict[str, object]:
    """Return the node of `left operator right`."""
    return {"type": "BinaryExpr", "operator": operator, "left": left, "right": right}


def step(*path: str) -> dict[str, object]:
    """Return the node of `s.a.b`."""
    return {"type": "StepRef", "path": list(path)}


def given(*path: str) -> dict[str, object]:
    """Return the node of `$.a.b`."""
    return {"type": "InputRef", "path": list(path)}
