"""The planning of `sys` statements, which have no name and no value: sys.log and sys.assert."""

from __future__ import annotations

from typing import Final

from afl.compiled.program import Node, column_of, line_of
from afl.engine.expressions.expression import compile_expression, expression_text
from afl.engine.model.plan import StatementPlan
from afl.engine.planning.references import StatementReferences
from afl.engine.types import SYSTEM_STATEMENTS, ObjectType

SYSTEM_TYPES: Final = frozenset(object_type for _, object_type in SYSTEM_STATEMENTS.values())


def system_shell(node: Node, kind: str, index: int) -> StatementPlan:
    """Return the plan of such a statement before its expressions; a step cannot have its name."""
    called, object_type = SYSTEM_STATEMENTS[kind]
    name = f"{called}-{index}"
    shell = StatementPlan(index, name, str(node.get("id") or name), object_type, called)
    shell.line, shell.column = line_of(node), column_of(node)
    shell.plain = False
    return shell


def plan_system(node: Node, plan: StatementPlan, references: StatementReferences) -> None:
    """Compile its expressions: the pairs of a log, the condition of an assertion."""
    if plan.object_type == ObjectType.SYS_LOG:
        pairs = node.get("args") or ()
        plan.args = tuple((str(pair["name"]), compile_expression(pair.get("value"), references)) for pair in pairs)
    else:
        plan.args = (("condition", compile_expression(node["condition"], references)),)
        plan.source_text = expression_text(node["condition"])
    plan.waits = references.local_waits()
    plan.outer_waits = references.outer_waits()
