"""Expressions: compiled once into closures, then called with a frame that knows the values of references."""

from afl.engine.expressions.expression import (
    EvaluationContext,
    ExpressionEvaluator,
    Reference,
    References,
    compile_default,
    compile_expression,
    evaluate_args,
    expression_text,
    gives_exact_double,
    gives_number,
    references_in,
    walk_members,
)

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
