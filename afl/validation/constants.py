"""Check values that may not depend on a run: defaults, and the values of implicits."""

from __future__ import annotations

from collections.abc import Container

from afl import ast
from afl.compiled.names import Kind
from afl.validation.expressions import ExpressionChecker
from afl.validation.findings import Findings
from afl.validation.other_languages import value_hint
from afl.validation.references import references_in
from afl.validation.scopes import Scope
from afl.validation.signatures import Part, Signature, Slot

#: The scope of constants, which contains no names.
_NOWHERE = Scope(declaration=Signature("", "", Kind.FACET, Part("", ()), ast.FacetDecl(ast.FacetSig(""))))


class ConstantChecker:
    """Checker of constant values."""

    def __init__(self, findings: Findings, expressions: ExpressionChecker) -> None:
        self._report = findings.report
        self._expressions = expressions

    def check(
        self,
        value: ast.Expression,
        slot: Slot | None,
        name: str,
        rule: str,
        scope: Scope = _NOWHERE,
        earlier: Container[str] = (),
    ) -> None:
        """Check the value for `name`: it may only use those inputs of the scope that are in `earlier`."""
        outside = [
            reference
            for reference in references_in(value)
            if not reference.is_input or not reference.path or reference.path[0] not in earlier
        ]
        for reference in outside:
            written = ("$." if reference.is_input else "") + ".".join(reference.path)
            hint = None if reference.is_input else value_hint(written)
            self._report(rule, reference.location, hint=hint, name=name, written=written)
        if outside:
            self._expressions.check_constant(value, slot, name)
        else:
            self._expressions.check_against(value, slot, name, scope)
