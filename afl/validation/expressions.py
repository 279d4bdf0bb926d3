"""Check expressions: their references, and the types that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afl import ast
from afl.core.limits import LONG_MAX
from afl.core.types import NUMBER_TYPES
from afl.syntax.operator_chains import links_of, right_of
from afl.validation.bare_steps import BareSteps
from afl.validation.findings import Findings, listed
from afl.validation.other_languages import is_self, value_hint
from afl.validation.scopes import Scope, Step
from afl.validation.signatures import UNKNOWN, Slot
from afl.validation.symbols import Symbols
from afl.validation.value_types import (
    ARITHMETIC,
    BOOLEAN,
    BY_LITERAL_KIND,
    MAP,
    STRING,
    ValueType,
    arithmetic_result,
    inexact_integer,
    mismatch,
)


class ExpressionChecker:
    """Checker of the expressions inside a scope, which also returns their types as far as known."""

    def __init__(self, symbols: Symbols, findings: Findings) -> None:
        self._symbols = symbols
        self._findings = findings
        self._report = findings.report
        self._bare_steps = BareSteps(symbols, findings)

    def check(self, expression: ast.Expression, scope: Scope) -> ValueType | None:
        """Report what is wrong with an expression; return its type, None if it is not known."""
        return _CHECKS[type(expression)](self, expression, scope)

    def check_boolean(self, expression: ast.Expression, scope: Scope, rule: str) -> None:
        """Report a condition that is known not to be a Boolean."""
        found = self.check(expression, scope)
        if found is not None and found != BOOLEAN:
            self._report(rule, expression.location, found=found)

    def check_against(self, expression: ast.Expression, slot: Slot | None, name: str, scope: Scope) -> None:
        """Check a value that is given to a parameter, return or field; the slot is None if unknown."""
        if isinstance(expression, ast.Reference):
            step = _bare_step(expression, scope)
            if step is not None:
                self._bare_steps.check(expression, step, slot, name)
                return
        found = self.check(expression, scope)
        self.check_constant(expression, slot, name)
        if slot is not None and found is not None and found.name == "step":
            self._bare_steps.check_passed_on(expression, found, slot, name)

    def check_constant(self, expression: ast.Expression, slot: Slot | None, name: str) -> None:
        """Report a constant that contradicts the declared type."""
        wrong = mismatch(slot.type, expression) if slot is not None else None
        if wrong is not None:
            at, found, wanted = wrong
            self._report("TYPE_ARG_MISMATCH", at.location, name=name, wanted=wanted, found=found)
            return
        inexact = inexact_integer(slot.type, expression) if slot is not None else None
        if inexact is not None:
            self._report("INT_INEXACT", inexact.location, name=name)

    def _literal(self, node: ast.Literal, _scope: Scope) -> ValueType:
        if node.kind == "integer" and isinstance(node.value, int) and node.value > LONG_MAX:
            self._report("INT_BEYOND_LONG", node.location)
        return BY_LITERAL_KIND[node.kind]

    def _concat(self, node: ast.ConcatExpr, scope: Scope) -> ValueType:
        for operand in node.operands:
            self._value(operand, scope)
        return STRING

    def _chain(self, node: ast.BinaryExpr | ast.IndexExpr, scope: Scope) -> ValueType | None:
        first, links = links_of(node)
        found = self._value(first, scope)
        for link in links:
            right = self._value(right_of(link), scope)
            found = self._binary(link, found, right) if isinstance(link, ast.BinaryExpr) else _type_of_entry(found)
        return found

    def _binary(self, node: ast.BinaryExpr, left: ValueType | None, right: ValueType | None) -> ValueType | None:
        if node.operator in ARITHMETIC:
            self._check_arithmetic(node, left, right)
            return arithmetic_result(node.operator, left, right)
        check = _OPERAND_CHECKS.get(node.operator)
        if check is not None:
            check(self, node, left, right)
        return BOOLEAN

    def _check_arithmetic(self, node: ast.BinaryExpr, left: ValueType | None, right: ValueType | None) -> None:
        if left is None or right is None:
            return
        for operand, found in ((node.left, left), (node.right, right)):
            if found.name not in NUMBER_TYPES:
                rule = {"String": "TYPE_ARITHMETIC_STRING", "Boolean": "TYPE_ARITHMETIC_BOOLEAN"}.get(
                    found.name, "TYPE_ARITHMETIC_SCHEMA"
                )
                self._report(rule, operand.location, operator=node.operator, found=found)
                break

    def _check_logic(self, node: ast.BinaryExpr, left: ValueType | None, right: ValueType | None) -> None:
        for operand, found in ((node.left, left), (node.right, right)):
            if found is not None and found != BOOLEAN:
                rule = "TYPE_BOOLEAN_OPERAND_REQUIRED"
                self._report(rule, operand.location, operator=node.operator, found=found)

    def _check_ordering(self, node: ast.BinaryExpr, left: ValueType | None, right: ValueType | None) -> None:
        for operand, found in ((node.left, left), (node.right, right)):
            if found is not None and (found == BOOLEAN or found.is_object):
                rule = "TYPE_ORDERED_COMPARISON_SCHEMA" if found.is_object else "TYPE_ORDERED_COMPARISON_BOOLEAN"
                self._report(rule, operand.location, operator=node.operator, found=found)
                break

    def _check_containment(self, node: ast.BinaryExpr, left: ValueType | None, right: ValueType | None) -> None:
        container, found = (node.left, left) if node.operator == "contains" else (node.right, right)
        if found is not None and (found == BOOLEAN or found.name in NUMBER_TYPES):
            self._report("TYPE_CONTAINMENT_OPERAND", container.location, operator=node.operator, found=found)

    def _check_string_match(self, node: ast.BinaryExpr, left: ValueType | None, right: ValueType | None) -> None:
        for operand, found in ((node.left, left), (node.right, right)):
            if found is not None and found != STRING:
                rule = "TYPE_STRING_MATCH_OPERAND"
                self._report(rule, operand.location, operator=node.operator, found=found)
                break

    def _unary(self, node: ast.UnaryExpr, scope: Scope) -> ValueType | None:
        return self._negation(node, scope) if node.operator == "-" else self._not(node, scope)

    def _negation(self, node: ast.UnaryExpr, scope: Scope) -> ValueType | None:
        operand = node.operand
        # The smallest Long is written as the negation of a number that is itself one too large.
        if isinstance(operand, ast.Literal) and operand.kind == "integer" and operand.value == LONG_MAX + 1:
            return BY_LITERAL_KIND["integer"]
        found = self._value(operand, scope)
        if found is None or found.name in NUMBER_TYPES:
            return found
        rule = {"String": "TYPE_NEGATE_STRING", "Boolean": "TYPE_NEGATE_BOOLEAN"}.get(found.name, "TYPE_NEGATE_SCHEMA")
        self._report(rule, node.location, found=found)
        return None

    def _not(self, node: ast.UnaryExpr, scope: Scope) -> ValueType:
        found = self._value(node.operand, scope)
        if found is not None and found != BOOLEAN:
            self._report("TYPE_NOT_OPERAND_REQUIRED", node.operand.location, found=found)
        return BOOLEAN

    def _array(self, node: ast.ArrayLiteral, scope: Scope) -> ValueType:
        elements = [self._value(element, scope) for element in node.elements]
        same = bool(elements) and all(element == elements[0] for element in elements)
        return ValueType("Array", elements[0] if same else None)

    def _map(self, node: ast.MapLiteral, scope: Scope) -> ValueType:
        for entry in node.entries:
            self._value(entry.value, scope)
        return MAP

    def _value(self, node: ast.Expression, scope: Scope) -> ValueType | None:
        return _CHECKS[type(node)](self, node, scope)

    # -- references ---------------------------------------------------------------------------------------------------

    def _reference(self, node: ast.Reference, scope: Scope) -> ValueType | None:
        if not node.path:
            self._report("REF_INVALID_STEP_FORMAT empty", node.location)
            return None
        if not node.is_input:
            return self._step_reference(node, scope)
        name = node.path[0]
        slot = scope.input(name)
        if slot is None:
            known = scope.input_names()
            hint = self._findings.did_you_mean(name, known)
            listing = listed(f"$.{item}" for item in known)
            self._report("REF_INVALID_INPUT", node.location, hint=hint, name=name, known=listing)
            return None
        return self._walk(slot.type, node, 1)

    def _step_reference(self, node: ast.Reference, scope: Scope) -> ValueType | None:
        name = node.path[0]
        step = scope.step(name)
        if step is None:
            variable = scope.foreach_variable(name)
            if variable is not None:
                return self._walk(variable.type, node, 1)
            self._unknown_step(node, scope)
            return None
        if len(node.path) == 1:
            self._report("REF_INVALID_STEP_FORMAT", node.location, name=name)
            return None
        attribute = node.path[1]
        slot = step.attribute(attribute)
        if slot is None:
            known = step.attribute_names()
            hint = self._findings.did_you_mean(attribute, known)
            self._report(
                "REF_INVALID_STEP_ATTRIBUTE",
                node.location,
                hint=hint,
                step=name,
                attribute=attribute,
                known=listed(known),
            )
            return None
        return self._walk(slot.type, node, 2)

    def _unknown_step(self, node: ast.Reference, scope: Scope) -> None:
        name = node.path[0]
        later = scope.later_step(name)
        if later is not None:
            cycle = scope.cycle_over(name)
            if cycle:
                self._report("REF_FORWARD_STEP cycle", node.location, cycle=" -> ".join(cycle))
            else:
                self._report("REF_FORWARD_STEP", node.location, name=name, line=later.line)
        elif scope.is_sibling(name):
            self._report("REF_CROSS_BLOCK_STEP", node.location, name=name)
        else:
            known = scope.visible_steps()
            hint = scope.hint_for_unseen(name)
            if hint is None and scope.input(name) not in (None, UNKNOWN):
                hint = f"write $.{name} for the parameter"
            own = scope.declaration.name
            if hint is None and len(node.path) > 1 and is_self(name, own) and scope.input(node.path[1]) is not None:
                hint = f"write $.{node.path[1]} for the parameter"
            hint = hint or value_hint(name) or self._findings.did_you_mean(name, known)
            self._report("REF_UNDEFINED_STEP", node.location, hint=hint, name=name, known=listed(known))

    def _walk(self, found: ValueType | None, node: ast.Reference, start: int) -> ValueType | None:
        """Follow the rest of a path through schemas, steps and maps of mixins, as far as types are known."""
        for number in range(start, len(node.path)):
            if found is None:
                return None
            part, slot = node.path[number], None
            owner = self._symbols.named(found.facet or found.schema)
            if owner is None:
                return None
            slot = owner.returns.get(part) if found.schema else owner.member(part)
            if slot is None:
                known = list(owner.returns) if found.schema else owner.member_names()
                rule = "SCHEMA_UNKNOWN_FIELD path" if found.schema else "REF_INVALID_FACET_REF_ATTRIBUTE"
                self._report(
                    rule,
                    node.location,
                    hint=self._findings.did_you_mean(part, known),
                    path=("$." if node.is_input else "") + ".".join(node.path[:number]),
                    owner=owner.name,
                    name=part,
                    known=listed(known),
                )
                return None
            found = slot.type
        return found


def _type_of_entry(container: ValueType | None) -> ValueType | None:
    if container is None:
        return None
    return container.element if container.name == "Array" else STRING if container.name == "String" else None


def _bare_step(node: ast.Reference, scope: Scope) -> Step | None:
    """Return the step that a reference without an attribute names, if it names one."""
    return scope.step(node.path[0]) if not node.is_input and len(node.path) == 1 else None


#: Functions, not methods of a checker: it would hold itself, and with it the tree, until the next collection.
_CHECKS: dict[type, Callable[[ExpressionChecker, Any, Scope], ValueType | None]] = {
    ast.Literal: ExpressionChecker._literal,
    ast.Reference: ExpressionChecker._reference,
    ast.ConcatExpr: ExpressionChecker._concat,
    ast.BinaryExpr: ExpressionChecker._chain,
    ast.UnaryExpr: ExpressionChecker._unary,
    ast.ArrayLiteral: ExpressionChecker._array,
    ast.MapLiteral: ExpressionChecker._map,
    ast.IndexExpr: ExpressionChecker._chain,
}

_OperandCheck = Callable[[ExpressionChecker, ast.BinaryExpr, ValueType | None, ValueType | None], None]

#: The operand types of the operators that give a Boolean; `==` and `!=` take anything.
_OPERAND_CHECKS: dict[str, _OperandCheck] = {
    **dict.fromkeys(("&&", "||"), ExpressionChecker._check_logic),
    **dict.fromkeys(("<", "<=", ">", ">="), ExpressionChecker._check_ordering),
    **dict.fromkeys(("in", "not in", "contains"), ExpressionChecker._check_containment),
    **dict.fromkeys(("startsWith", "endsWith"), ExpressionChecker._check_string_match),
}
