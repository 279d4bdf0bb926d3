"""The planning of branches: a `when` with its cases, a catch, and yields with several targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from afl.compiled.program import Node, ProgramError
from afl.engine.expressions.expression import compile_expression, expression_text
from afl.engine.model.plan import CATCH_INDEX, BlockPlan, CasePlan, Expression
from afl.engine.planning.references import BlockContext, StatementReferences


class PlanBody(Protocol):
    """Function that plans a block of the current declaration."""

    def __call__(self, node: Node, index: int, context: BlockContext, where: str) -> BlockPlan: ...


def plan_when(node: Node, plan: BlockPlan, context: BlockContext, where: str, plan_body: PlanBody) -> None:
    """Fill the plan of a `when`. Raises ProgramError for several defaults, and for a case that is not a plain block."""
    if any(node.get(key) is not None for key in ("foreach", "script")):
        raise ProgramError(f"{where}: a block with `when` has no foreach and no script")
    if not node["when"]["cases"]:
        raise ProgramError(f"{where}: a `when` needs a case")
    references = StatementReferences(context, where)
    cases: list[CasePlan] = []
    for number, case in enumerate(node["when"]["cases"]):
        if any(case.get(key) is not None for key in ("when", "foreach", "script")):
            raise ProgramError(f"{where}: a case holds statements and yields, nothing else")
        body = plan_body(case, plan.index, context.case(), f"{where}.case[{number}]")
        body.case, body.name, body.label = number, f"case-{number}", f"case[{number}]"
        condition: Expression | None = None
        text = "_"
        if not case.get("default"):
            condition = compile_expression(case["condition"], references)
            text = expression_text(case["condition"])
        cases.append(CasePlan(condition, text, body))
    if sum(case.condition is None for case in cases) > 1:
        raise ProgramError(f"{where}: a `when` has one `case _` only")
    plan.cases = tuple(cases)
    plan.splits = True
    plan.source_waits = references.outer_waits()


def plan_catch(node: Node, context: BlockContext, where: str, plan_body: PlanBody) -> BlockPlan:
    """Plan a catch, in the scope of the step or declaration around it."""
    if any(node.get(key) is not None for key in ("foreach", "script")):
        raise ProgramError(f"{where}: a catch has no foreach and no script")
    context.is_catch = True
    plan = plan_body(node, CATCH_INDEX, context, f"{where}.catch")
    plan.is_catch, plan.name, plan.label = True, "catch", "catch"
    for case in plan.cases:
        case.block.label = f"catch.{case.block.label}"
    return plan


def split_yields(nodes: Iterable[Node]) -> list[Node]:
    """Return the yields of a block; `yield A(..) with B(..)` of the older shape counts as two."""
    return [single for node in nodes for single in _split(node)]


def _split(node: Node) -> Iterator[Node]:
    mixins = node["call"].get("mixins")
    if not mixins:
        yield node
        return
    yield {**node, "call": {key: part for key, part in node["call"].items() if key != "mixins"}}
    for number, mixin in enumerate(mixins):
        single: dict[str, object] = {"call": {"target": mixin["target"], "args": mixin.get("args")}}
        if node.get("id"):
            single["id"] = f"{node['id']}/with-{number}"
        if node.get("location"):
            single["location"] = node["location"]
        yield single
