"""Find declarations that always call themselves, directly or through others, and workflows that start over at once."""

from __future__ import annotations

from collections.abc import Iterator

from afl import ast
from afl.validation.findings import Findings, target_place
from afl.validation.references import references_in
from afl.validation.signatures import Signature
from afl.validation.symbols import Symbols

_Call = ast.CallExpr | ast.MixinSig | ast.MixinCall
_Calls = dict[str, list[tuple[str, _Call]]]


def check_recursion(symbols: Symbols, findings: Findings) -> None:
    """Report each declaration on a cycle of calls, at the call that continues the cycle."""
    calls: _Calls = {
        signature.qualified: list(_certain_calls(signature, symbols))
        for signature in symbols.by_name.values()
        if not signature.is_schema
    }
    component = _components(calls)
    for name, made in calls.items():
        for callee, call in made:
            if callee == name or component[callee] == component[name]:
                findings.report("RECURSIVE_CALL", target_place(call), name=name, callee=callee)
                break


def check_continuing(symbols: Symbols, findings: Findings) -> None:
    """Report each workflow that continues as new whatever happens, and before anything has."""
    for signature in symbols.all:
        clauses = ast.clauses(signature.node.body) if isinstance(signature.node, ast.WorkflowDecl) else []
        if not clauses or clauses[0].foreach is not None:
            continue
        for step in clauses[0].block.steps:
            if isinstance(step, ast.StepStmt) and _continues(signature, step.call, symbols):
                findings.report("CONTINUES_AT_ONCE", target_place(step.call), name=signature.name)


def _continues(signature: Signature, call: ast.CallExpr, symbols: Symbols) -> bool:
    known = symbols.known_callees(signature.part).get(call.name)
    callee = known.signature if known is not None else None
    is_it = callee is not None and callee.is_library and callee.name == "ContinueAsNew"
    return is_it and all(reference.is_input for reference in references_in(call))


def _certain_calls(signature: Signature, symbols: Symbols) -> Iterator[tuple[str, _Call]]:
    """Return the calls that happen in each run of a declaration: aliased mixins, and calls of its blocks."""
    for mixin in signature.mixins:
        if mixin.node.alias is not None and mixin.target is not None and mixin.target.qualified in symbols.by_name:
            yield mixin.target.qualified, mixin.node
    if not isinstance(signature.node, ast.SchemaDecl):
        callees = symbols.known_callees(signature.part)
        for call in _calls_in(signature.node.body):
            # The statements have been checked, so the part knows every callee.
            known = callees.get(call.name)
            callee = known.signature if known is not None else None
            if callee is not None and not callee.is_schema:
                yield callee.qualified, call


def _calls_in(body: ast.Body | None) -> Iterator[ast.CallExpr]:
    """Return the calls whose own bodies run each time this body runs.

    A foreach may have no items, the cases of a `when` depend on conditions, and a step with clauses of its own does not
    run its callee's.
    """
    for clause in ast.clauses(body):
        if clause.foreach is not None:
            continue
        for step in clause.block.steps:
            if not isinstance(step, ast.StepStmt):
                continue
            if step.body is None:
                yield step.call
            else:
                yield from _calls_in(step.body)


def _components(calls: _Calls) -> dict[str, int]:
    """Return the number of each strongly connected component (Tarjan's algorithm in a loop: chains may be long)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    component: dict[str, int] = {}
    open_names: list[str] = []
    count = 0
    for root in calls:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_names.append(root)
        work = [(root, iter(calls[root]))]
        while work:
            name, rest = work[-1]
            for callee, _ in rest:
                if callee not in index:
                    index[callee] = low[callee] = len(index)
                    open_names.append(callee)
                    work.append((callee, iter(calls[callee])))
                    break
                if callee not in component:
                    low[name] = min(low[name], index[callee])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    while True:
                        member = open_names.pop()
                        component[member] = count
                        if member == name:
                            break
                    count += 1
    return component
