"""Finds declarations that call themselves, directly or through others, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

from afl import ast
from afl.compiled import CALLABLE, Kind
from afl.validation.findings import Findings, name_place
from afl.validation.symbols import Part, Signature, Symbols

_Calls = dict[str, list[tuple[str, ast.CallExpr]]]


def check_recursion(symbols: Symbols, findings: Findings) -> None:
    """Report each declaration on a cycle of calls, at the call that leads round it."""
    calls: _Calls = {
        signature.qualified: [
            (callee, call)
            for call in _certain_calls(signature.node.body)
            if (callee := _resolved(symbols, signature.part, call.name)) is not None
        ]
        for signature in symbols.by_name.values()
        if not isinstance(signature.node, ast.SchemaDecl)
    }
    component = _components(calls)
    for name, made in calls.items():
        for callee, call in made:
            if callee == name or component[callee] == component[name]:
                findings.report("RECURSIVE_CALL", name_place(call.location, call.name), name=name, callee=callee)
                break


def _resolved(symbols: Symbols, part: Part, name: str) -> str | None:
    # The statements have been checked: every callee is known to its part by now.
    known = part.callees.get(name)
    signature: Signature | None = known[0] if known else None
    return signature.qualified if signature is not None and signature.kind in CALLABLE - {Kind.SCHEMA} else None


def _certain_calls(body: ast.Body | None) -> Iterator[ast.CallExpr]:
    """Return the calls whose own bodies run each time this body runs.

    A foreach may have nothing to go over, and a step with clauses of its own does not run its callee's.
    """
    for clause in ast.clauses(body):
        if clause.foreach is not None:
            continue
        for step in clause.block.steps:
            if step.body is None:
                yield step.call
            else:
                yield from _certain_calls(step.body)


def _components(calls: _Calls) -> dict[str, int]:
    """Number the strongly connected components (Tarjan's algorithm, with a stack of its own: chains may be long)."""
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
