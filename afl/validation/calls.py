"""Check calls: their arguments, their mixins, and parameters left without a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afl import ast
from afl.validation.constants import ConstantChecker
from afl.validation.expressions import ExpressionChecker
from afl.validation.findings import Findings, listed, name_place, target_place
from afl.validation.runtime_mixins import check_runtime_mixin
from afl.validation.scopes import Scope
from afl.validation.signatures import Mixin, Part, Signature, Slot
from afl.validation.symbols import Symbols


class CallChecker:
    """Checker of calls, in the scope in which their arguments are evaluated."""

    def __init__(self, symbols: Symbols, findings: Findings, expressions: ExpressionChecker) -> None:
        self._symbols = symbols
        self._findings = findings
        self._report = findings.report
        self._expressions = expressions
        self._constants = ConstantChecker(findings, expressions)

    def check(self, call: ast.CallExpr, callee: Signature | None, mixins: Sequence[Mixin], scope: Scope) -> None:
        """Check the arguments and mixins of a step's call."""
        slots = None if callee is None else callee.returns if callee.is_schema else callee.params
        given = self.check_values(call.args, slots, scope)
        for mixin in mixins:
            self.check_mixin(mixin, scope, callee)
        if callee is None or slots is None:
            return
        if callee.is_schema:
            self._check_fields(call, callee)
            return
        if self._check_names(call.args, callee):
            self._check_missing(call, callee, given, mixins, scope.declaration.part)

    def check_mixin(self, mixin: Mixin, scope: Scope, owner: Signature | None) -> None:
        """Check one mixin of a call, or of a signature, of `owner`."""
        self._symbols.report_facet(scope.declaration.part, mixin.node)
        target = mixin.target
        self.check_values(mixin.node.args, None if target is None else target.params, scope)
        if target is not None:
            self._check_names(mixin.node.args, target)
            if target.is_library:
                check_runtime_mixin(mixin.node, target, owner, self._findings)

    def check_sub_step(self, mixin: Mixin, part: Part) -> None:
        """Warn about parameters without a value in an aliased mixin, which runs as a step of its own."""
        if mixin.target is not None and all(arg.name in mixin.target.params for arg in mixin.node.args):
            self._check_missing(mixin.node, mixin.target, {arg.name for arg in mixin.node.args}, (), part)

    def check_values(self, args: Sequence[ast.NamedArg], slots: Mapping[str, Slot] | None, scope: Scope) -> set[str]:
        """Check values given by name, and return the names; `slots` is None if the parameters are unknown."""
        given: set[str] = set()
        for arg in args:
            if arg.name in given:
                self._report("ARG_DUPLICATE", name_place(arg.location, arg.name), name=arg.name)
            given.add(arg.name)
            slot = slots.get(arg.name) if slots is not None else None
            self._expressions.check_against(arg.value, slot, arg.name, scope)
        return given

    def _check_names(self, args: Sequence[ast.NamedArg], callee: Signature, rule: str = "ARG_UNKNOWN") -> bool:
        """Report arguments that match no parameter of the facet; say whether all match."""
        unknown = [arg for arg in args if arg.name not in callee.params]
        for arg in unknown:
            hint = self._findings.did_you_mean(arg.name, callee.params)
            place = name_place(arg.location, arg.name)
            known = listed(callee.params)
            self._report(rule, place, hint=hint, name=arg.name, facet=callee.name, known=known)
        return not unknown

    def _check_fields(self, call: ast.CallExpr, schema: Signature) -> None:
        for arg in call.args:
            if arg.name not in schema.returns:
                hint = self._findings.did_you_mean(arg.name, schema.returns)
                place = name_place(arg.location, arg.name)
                known = listed(schema.returns)
                self._report("SCHEMA_UNKNOWN_FIELD", place, hint=hint, name=arg.name, schema=schema.name, known=known)
        if call.mixins:
            self._report("SCHEMA_INSTANTIATION_NO_MIXINS", target_place(call.mixins[0]), name=schema.name)

    def _check_missing(
        self,
        call: ast.CallExpr | ast.MixinSig | ast.MixinCall,
        callee: Signature,
        given: set[str],
        mixins: Sequence[Mixin],
        part: Part,
    ) -> None:
        """Warn about parameters that get no value.

        Values come from arguments, from mixins without alias of the call and of the signature, from an implicit, and
        from defaults.
        """
        missing = [name for name, slot in callee.params.items() if not slot.has_default and name not in given]
        if not missing:
            return
        supplied = set(self._symbols.implicit_params(part, callee))
        for mixin in (*mixins, *callee.mixins):
            if mixin.configures:
                supplied.update(arg.name for arg in mixin.node.args)
        missing = [name for name in missing if name not in supplied]
        if missing:
            self._report("ARG_MISSING", target_place(call), facet=callee.name, names=listed(missing))

    def check_implicit(self, implicit: ast.ImplicitDecl, part: Part) -> None:
        """Check an implicit: its target exists and has the parameters, and the values are constants."""
        call = implicit.call
        self._symbols.report_facet(part, call)
        target = self._symbols.facet(part, call.name)
        self._check_constants(call.args, target)
        if target is not None:
            self._check_names(call.args, target, "IMPLICIT_UNKNOWN_PARAM")
        for mixin in self._symbols.mixins(part, call.mixins):
            self._symbols.report_facet(part, mixin.node)
            self._check_constants(mixin.node.args, mixin.target)
            if mixin.target is not None:
                self._check_names(mixin.node.args, mixin.target)

    def _check_constants(self, args: Sequence[ast.NamedArg], target: Signature | None) -> None:
        given: set[str] = set()
        for arg in args:
            if arg.name in given:
                self._report("ARG_DUPLICATE", name_place(arg.location, arg.name), name=arg.name)
            given.add(arg.name)
            slot = None if target is None else target.params.get(arg.name)
            self._constants.check(arg.value, slot, arg.name, "IMPLICIT_NOT_CONSTANT")
