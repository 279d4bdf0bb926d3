"""Expressions: compiled once into closures, then called with a frame that knows the values of references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from afl.core.text.exception_text import exception_text
from afl.engine.errors import EvaluationError, ReferenceError
from afl.engine.expressions.compiler import (
    References,
    compile_default,
    compile_expression,
    gives_exact_double,
    gives_number,
)
from afl.engine.expressions.nodes import Reference, expression_text, references_in
from afl.engine.types import Value
from afl.engine.values.rendering import type_name

__all__ = [
    "EvaluationContext",
    "ExpressionEvaluator",
    "Reference",
    "References",
    "compile_default",
    "compile_expression",
    "evaluate_args",
    "expression_text",
    "gives_exact_double",
    "gives_number",
    "references_in",
    "walk_members",
]


def walk_members(value: object, names: Sequence[str], reference_text: str) -> Value:
    """Follow names through nested maps. Raises ReferenceError for a missing name, and for a value without members."""
    for name in names:
        # Checking for the exact class first is several times cheaper, and nearly always enough.
        if type(value) is dict or isinstance(value, Mapping):
            if name not in value:
                raise ReferenceError(reference_text, f"member '{name}' not found")
            value = value[name]
        elif value is None:
            raise ReferenceError(reference_text, f"cannot access '{name}' of null")
        else:
            raise ReferenceError(reference_text, f"cannot access '{name}': {type_name(value)} has no members")
    return cast(Value, value)


@dataclass
class EvaluationContext:
    """The names that expressions may refer to when they are evaluated one by one, without a plan.

    `get_step_output(step, attribute)` returns a step's result, and raises any exception when there is none.
    """

    inputs: Mapping[str, object]
    get_step_output: Callable[[str, str], object]
    foreach_var: str | None = None
    foreach_value: object = None
    step_id: str | None = None


class _ContextReferences:
    """References read from an `EvaluationContext`, the frame of `ExpressionEvaluator`."""

    def input_reference(self, path: tuple[str, ...]) -> Callable[[EvaluationContext], Value]:
        text = ".".join(("$", *path))
        if not path:
            raise ReferenceError(text, "empty input reference: $ needs a name")
        name, members = path[0], path[1:]

        def read(context: EvaluationContext) -> Value:
            if name == context.foreach_var:
                return walk_members(context.foreach_value, members, text)
            if name not in context.inputs:
                raise ReferenceError(text, f"input '{name}' not found")
            return walk_members(context.inputs[name], members, text)

        return read

    def step_reference(self, path: tuple[str, ...]) -> Callable[[EvaluationContext], Value]:
        text = ".".join(path)

        def read(context: EvaluationContext) -> Value:
            if path and path[0] == context.foreach_var:
                return walk_members(context.foreach_value, path[1:], text)
            if len(path) < 2:
                raise ReferenceError(text, "a step reference needs at least step.attribute")
            try:
                value = context.get_step_output(path[0], path[1])
            except Exception as error:  # the caller's code may raise anything
                raise ReferenceError(text, f"no value: {exception_text(error)}") from error
            return walk_members(value, path[2:], text)

        return read


class ExpressionEvaluator:
    """Evaluator of single expressions. The engine does not use it: it compiles expressions into its plans."""

    def evaluate(self, expr: object, ctx: EvaluationContext) -> Value:
        """Return the value of an expression node, a literal value, or a list of either.

        Raises EvaluationError or ReferenceError without a value; messages begin with a capital, as callers know them.
        """
        try:
            return compile_expression(expr, _ContextReferences())(ctx)
        except (EvaluationError, ReferenceError) as error:
            error.message = error.message[:1].upper() + error.message[1:]
            error.step_id = ctx.step_id
            raise


def evaluate_args(args: Sequence[Mapping[str, object]], ctx: EvaluationContext) -> dict[str, Value]:
    """Evaluate named arguments, `{"name", "value"}` each, in order."""
    evaluator = ExpressionEvaluator()
    return {str(arg["name"]): evaluator.evaluate(arg.get("value"), ctx) for arg in args}
