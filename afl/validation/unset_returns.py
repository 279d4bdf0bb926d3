"""Find returns that no part of a declaration's body can set."""

from __future__ import annotations

from collections.abc import Iterator

from afl import ast
from afl.validation.findings import Findings, listed, name_place
from afl.validation.signatures import Signature


def check_unset_returns(signature: Signature, findings: Findings) -> None:
    """Warn about the returns of a workflow that have no default and are in no yield.

    There is no warning where another part may set them: a script, or a yield to a mixin. A yield with a mistake, which
    is reported, may mean any of them.
    """
    node = signature.node
    if not isinstance(node, ast.WorkflowDecl) or not signature.returns or node.pre_script is not None:
        return
    if any(clause.script is not None for clause in ast.clauses(node.body)):
        return
    unset = [name for name, slot in signature.returns.items() if not slot.has_default]
    known = {signature.name, signature.qualified}
    steps: set[str] = set()
    for give in (*_yields_of_body(node.body, steps), *_yields_of_catch(node.catch, steps)):
        given = {arg.name for arg in give.call.args}
        if give.call.name in known and given <= signature.returns.keys():
            unset = [name for name in unset if name not in given]
        elif give.call.name not in steps:
            return
    if not unset:
        return
    example = ", ".join(f"{name} = ..." for name in unset[:3])
    findings.report(
        "RETURN_UNSET",
        name_place(signature.returns[unset[0]].place, unset[0]),
        hint=f"end a block with: yield {signature.name}({example}); or give the return a default",
        name=signature.name,
        returns=listed(unset),
    )


def _yields_of_body(body: ast.Body | None, steps: set[str]) -> Iterator[ast.YieldStmt]:
    """Return the yields of a body, those of its steps included, and add what its steps call to `steps`."""
    for clause in ast.clauses(body):
        yield from _yields_of_when(clause.when, steps)
        yield from _yields_of_block(clause.block, steps)


def _yields_of_catch(catch: ast.CatchClause | None, steps: set[str]) -> Iterator[ast.YieldStmt]:
    if catch is not None:
        yield from _yields_of_when(catch.when, steps)
        yield from _yields_of_block(catch.block, steps)


def _yields_of_when(when: ast.WhenBlock | None, steps: set[str]) -> Iterator[ast.YieldStmt]:
    for case in when.cases if when is not None else ():
        yield from _yields_of_block(case.block, steps)


def _yields_of_block(block: ast.Block, steps: set[str]) -> Iterator[ast.YieldStmt]:
    for step in block.steps:
        if isinstance(step, ast.StepStmt):
            steps.update((step.call.name, step.call.name.rpartition(".")[2]))
            yield from _yields_of_body(step.body, steps)
            yield from _yields_of_catch(step.catch, steps)
    yield from block.yield_stmts
