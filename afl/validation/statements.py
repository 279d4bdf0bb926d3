"""Checks declarations: their defaults, blocks, steps, calls and yields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afl import ast
from afl.validation.expressions import ExpressionChecker
from afl.validation.findings import Findings, listed, name_place
from afl.validation.scopes import Scope, Step, Variable
from afl.validation.symbols import Signature, Slot, Symbols
from afl.validation.value_types import SCALARS, STRING


@dataclass(frozen=True, slots=True)
class _Target:
    """Something a yield may give to; signature None where the callee of a step is unknown."""

    names: tuple[str, ...]
    signature: Signature | None


class StatementChecker:
    """Checks the declarations of a program one by one."""

    def __init__(self, symbols: Symbols, findings: Findings) -> None:
        self._symbols = symbols
        self._report = findings.report
        self._expressions = ExpressionChecker(symbols, findings)

    def check(self, signature: Signature) -> None:
        """Check everything inside one declaration."""
        node = signature.node
        if isinstance(node, ast.SchemaDecl):
            return
        self._check_defaults(signature, node.sig)
        self._check_clauses(node.body, signature, None, None)

    def _check_defaults(self, signature: Signature, sig: ast.FacetSig) -> None:
        """Defaults may use constants and what is bound before them; returns come after all parameters."""
        earlier: dict[str, Slot] = {}
        for item in sig.params:
            if item.default is not None:
                self._check_default(signature, item, earlier, signature.params)
            earlier[item.name] = signature.params[item.name]
        for item in sig.returns.params if sig.returns is not None else ():
            if item.default is not None:
                self._check_default(signature, item, earlier, signature.returns)

    def _check_default(
        self, owner: Signature, item: ast.Parameter, earlier: Mapping[str, Slot], slots: Mapping[str, Slot]
    ) -> None:
        assert item.default is not None
        outside = [
            reference
            for reference in references_in(item.default)
            if not reference.is_input or reference.path[0] not in earlier
        ]
        for reference in outside:
            written = ("$." if reference.is_input else "") + ".".join(reference.path)
            self._report("DEFAULT_NOT_CONSTANT", reference.location, name=item.name, written=written)
        if outside:
            self._expressions.check_constant(item.default, slots[item.name], item.name)
            return
        self._expressions.check_against(item.default, slots[item.name], item.name, Scope(owner))

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _check_clauses(
        self, body: ast.Body | None, declaration: Signature, outer: Scope | None, owner: Step | None
    ) -> None:
        if body is None:
            return
        clauses = ast.clauses(body)
        names = [{step.name for step in clause.block.steps} for clause in clauses] if len(clauses) > 1 else []
        for number, clause in enumerate(clauses):
            siblings = frozenset[str]().union(*names[:number], *names[number + 1 :]) if names else frozenset[str]()
            scope = Scope(declaration, outer, owner, sibling_names=siblings)
            if clause.foreach is not None:
                scope.variable = self._foreach_variable(clause.foreach, scope)
            self._check_block(clause.block, scope)

    def _foreach_variable(self, clause: ast.ForeachClause, scope: Scope) -> Variable:
        """Check the source, which the clause's own variable and steps are not part of, and type the variable."""
        source = self._expressions.check(clause.iterable, scope)
        if source is None:
            return Variable(clause.variable, None)
        if source.name in SCALARS:
            self._report("FOREACH_NOT_ITERABLE", clause.iterable.location, found=source)
            return Variable(clause.variable, None)
        # Going over a map, a schema's value included, goes over its keys.
        return Variable(clause.variable, source.element if source.name == "Array" else STRING)

    def _check_block(self, block: ast.Block, scope: Scope) -> None:
        for step in block.steps:
            if step.name in scope.own_names:
                first = scope.own_names[step.name]
                place = name_place(step.location, step.name)
                self._report("DUPLICATE_STEP_NAME", place, name=step.name, line=first.line if first else 0)
            else:
                scope.own_names[step.name] = step.location
        for step in block.steps:
            self._check_step(step, scope)
        seen: set[int] = set()
        for give in block.yield_stmts:
            self._check_yield(give, scope, seen)

    def _check_step(self, node: ast.StepStmt, scope: Scope) -> None:
        callee = self._symbols.callee(scope.declaration.part, node.call)
        if scope.owner is not None and node.name not in scope.steps:
            hidden = scope.step(node.name)
            if hidden is not None:
                line = hidden.place.line if hidden.place else 0
                self._report("SHADOWED_STEP_NAME", name_place(node.location, node.name), name=node.name, line=line)
        self._check_arguments(node.call, callee, scope)
        step = Step(node.name, node.call.name, callee, node.location)
        if node.body is not None:
            if callee is not None and callee.is_schema:
                place = ast.clauses(node.body)[0].location
                self._report("SCHEMA_INSTANTIATION_NO_BODY", place and _first_word(place, "andThen"), name=callee.name)
            self._check_clauses(node.body, scope.declaration, scope, step)
        scope.steps.setdefault(node.name, step)

    def _check_arguments(self, call: ast.CallExpr, callee: Signature | None, scope: Scope) -> None:
        slots = None if callee is None else callee.returns if callee.is_schema else callee.params
        given = self._check_values(call.args, slots, scope)
        if callee is None or slots is None:
            return
        for arg in call.args:
            if arg.name in slots:
                continue
            place = name_place(arg.location, arg.name)
            if callee.is_schema:
                self._report("SCHEMA_UNKNOWN_FIELD", place, name=arg.name, schema=callee.name, known=listed(slots))
            else:
                self._report("ARG_UNKNOWN", place, name=arg.name, facet=callee.name, known=listed(slots))
        if not callee.is_schema:
            missing = [name for name, slot in slots.items() if not slot.has_default and name not in given]
            if missing:
                place = name_place(call.location, call.name)
                self._report("ARG_MISSING", place, facet=callee.name, names=listed(missing))

    def _check_values(self, args: Sequence[ast.NamedArg], slots: Mapping[str, Slot] | None, scope: Scope) -> set[str]:
        given: set[str] = set()
        for arg in args:
            if arg.name in given:
                self._report("ARG_DUPLICATE", name_place(arg.location, arg.name), name=arg.name)
            given.add(arg.name)
            slot = slots.get(arg.name) if slots is not None else None
            self._expressions.check_against(arg.value, slot, arg.name, scope)
        return given

    # -- yields -------------------------------------------------------------------------------------------------------

    def _check_yield(self, node: ast.YieldStmt, scope: Scope, seen: set[int]) -> None:
        call = node.call
        place = name_place(call.location, call.name)
        targets = self._targets(scope)
        number = next((n for n, target in enumerate(targets) if call.name in target.names), None)
        if number is None:
            allowed = listed([target.names[0] for target in targets])
            self._report("YIELD_INVALID_TARGET", place, name=call.name, allowed=allowed)
            self._check_values(call.args, None, scope)
            return
        if number in seen:
            self._report("YIELD_DUPLICATE_TARGET", place, name=call.name)
        seen.add(number)
        signature = targets[number].signature
        self._check_values(call.args, signature.returns if signature is not None else None, scope)
        if signature is None:
            return
        for arg in call.args:
            if arg.name not in signature.returns:
                known = listed(signature.returns)
                at = name_place(arg.location, arg.name)
                self._report("YIELD_UNKNOWN_FIELD", at, name=arg.name, facet=signature.name, known=known)

    def _targets(self, scope: Scope) -> list[_Target]:
        """Return what a yield of this block may give to, the innermost first."""
        targets: list[_Target] = []
        for level in scope.outwards():
            if level.owner is None:
                continue
            callee = level.owner.callee
            if callee is None:
                targets.append(_Target((level.owner.written, level.owner.written.rpartition(".")[2]), None))
            elif not callee.is_schema:
                targets.append(_Target((callee.name, callee.qualified), callee))
        declaration = scope.declaration
        return [*targets, _Target((declaration.name, declaration.qualified), declaration)]


def _first_word(place: ast.SourceLocation, word: str) -> ast.SourceLocation:
    return place._replace(end_line=place.line, end_column=place.column + len(word))


def references_in(node: ast.Expression) -> list[ast.Reference]:
    """Return every reference in an expression, in the order of the text."""
    match node:
        case ast.Reference():
            return [node]
        case ast.ConcatExpr(operands=children) | ast.ArrayLiteral(elements=children):
            parts = children
        case ast.BinaryExpr():
            parts = [node.left, node.right]
        case ast.UnaryExpr():
            parts = [node.operand]
        case ast.MapLiteral():
            parts = [entry.value for entry in node.entries]
        case ast.IndexExpr():
            parts = [node.target, node.index]
        case _:
            return []
    return [reference for part in parts for reference in references_in(part)]
