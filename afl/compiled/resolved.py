"""Add derived facts to a compiled program: the meanings of names, and the steps that each step needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from afl.compiled.needs import Scope, is_plain, needs, own_parts, yields
from afl.compiled.program import CALLABLE, SCHEMA_VERSION, SCHEMAS, CompiledProgram, blocks_of

Json = dict[str, Any]

_CALLS = frozenset({"CallExpr", "MixinSig", "MixinCall"})
_BODIED = frozenset({"FacetDecl", "EventFacetDecl", "WorkflowDecl"})


def add_resolved(document: Json) -> Json:
    """Return the program with `schemaVersion`, `resolved` names of calls and mixins, and `needs` of steps and blocks.

    Changes the document itself. A name that the program does not declare has no `resolved`.
    """
    writer = _Writer(CompiledProgram(document))
    for child in document.get("declarations") or ():
        if child["type"] == "Namespace":
            for declaration in child.get("declarations") or ():
                writer.declaration(declaration, child["name"], tuple(child.get("uses") or ()))
        else:
            writer.declaration(child, "", ())
    # A program that uses the library says its form already.
    return {"type": document["type"], "schemaVersion": SCHEMA_VERSION, **document}


class _Writer:
    """Writer that walks declarations."""

    def __init__(self, program: CompiledProgram) -> None:
        self._names = program.names

    def declaration(self, node: Json, namespace: str, uses: Sequence[str]) -> None:
        self._resolve(node, namespace, tuple(uses))
        if node["type"] in _BODIED:
            seen = Scope()
            for block in blocks_of(node.get("body")):
                # Only a `when` sees the steps of the blocks before it.
                scope = Scope(seen) if block.get("when") else Scope()
                self._block(cast(Json, block), scope)
                if is_plain(block):
                    for step in block.get("steps") or ():
                        if "name" in step:
                            seen.add(step["name"], step["id"])
            self._catch(node.get("catch"), Scope())

    def _resolve(self, node: object, namespace: str, uses: tuple[str, ...]) -> None:
        if isinstance(node, list):
            for item in node:
                self._resolve(item, namespace, uses)
        elif isinstance(node, dict):
            # A parameter's `type` is that of its values, and may be anything.
            if "target" in node and node["type"] in _CALLS:
                for kinds in (CALLABLE, SCHEMAS):
                    found = self._names.resolve(node["target"], namespace, uses, kinds).found
                    if found is not None:
                        node["resolved"] = found
                        break
            for value in list(node.values()):
                self._resolve(value, namespace, uses)

    def _block(self, block: Json, scope: Scope) -> None:
        """Walk a block; its steps get a scope of their own inside `scope`."""
        _set(block, needs(own_parts(block), scope))
        clause, when = block.get("foreach"), block.get("when")
        if when is not None:
            for case in when.get("cases") or ():
                self._steps(case, Scope(scope))
            return
        self._steps(block, Scope(scope, clause["variable"] if clause else None))

    def _steps(self, block: Json, scope: Scope) -> None:
        for step in block.get("steps") or ():
            own = {part: value for part, value in step.items() if part not in ("body", "catch")}
            _set(step, needs(own, scope))
            if "name" in step:
                scope.add(step["name"], step["id"])
            for inner in blocks_of(step.get("body")):
                self._block(cast(Json, inner), scope)
            self._catch(step.get("catch"), scope)
        for item in yields(block):
            _set(cast(Json, item), needs(item, scope))

    def _catch(self, clause: Json | None, scope: Scope) -> None:
        if clause is not None:
            for part in (clause.get("when") or {}).get("cases") or (clause,):
                self._steps(part, Scope(scope))


def _set(node: Json, ids: Sequence[str]) -> None:
    if ids:
        node["needs"] = list(ids)
