"""Check yields: their targets, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from afl import ast
from afl.validation.calls import CallChecker
from afl.validation.findings import Findings, listed, name_place, target_place
from afl.validation.scopes import Scope
from afl.validation.signatures import Signature, Slot


class YieldTarget(NamedTuple):
    """A possible target of a yield, with all of its names; signature None where it is unknown."""

    names: tuple[str, ...]
    signature: Signature | None
    is_mixin: bool = False
    alias: str | None = None

    def fields(self) -> Mapping[str, Slot] | None:
        """Return the slots that a yield may set, None where they are unknown."""
        if self.signature is None:
            return None
        return {**self.signature.params, **self.signature.returns} if self.is_mixin else self.signature.returns


class YieldChecker:
    """Checker of the yields of blocks."""

    def __init__(self, findings: Findings, calls: CallChecker) -> None:
        self._findings = findings
        self._report = findings.report
        self._calls = calls

    def check(self, yields: Iterable[ast.YieldStmt], scope: Scope) -> None:
        """Check all yields of one block."""
        targets: list[YieldTarget] | None = None
        seen: set[int] = set()
        for give in yields:
            if targets is None:
                targets = yield_targets(scope)
            self._check(give.call, targets, seen, scope)

    def _check(self, call: ast.CallExpr, targets: list[YieldTarget], seen: set[int], scope: Scope) -> None:
        number = self._target(call, targets)
        if number is None:
            self._calls.check_values(call.args, None, scope)
            return
        if number in seen:
            self._report("YIELD_DUPLICATE_TARGET", target_place(call), name=call.name)
        seen.add(number)
        target = targets[number]
        fields = target.fields()
        self._calls.check_values(call.args, fields, scope)
        if fields is None or target.signature is None:
            return
        for arg in call.args:
            if arg.name not in fields:
                known = target.signature.returns
                self._report(
                    "YIELD_UNKNOWN_FIELD",
                    name_place(arg.location, arg.name),
                    hint=self._findings.did_you_mean(arg.name, fields),
                    name=arg.name,
                    facet=target.signature.name,
                    known=listed(known),
                )

    def _target(self, call: ast.CallExpr, targets: list[YieldTarget]) -> int | None:
        """Return the number of the one target that a yield means; reports when there is none, or several."""
        found = [number for number, target in enumerate(targets) if call.name in target.names]
        if not found:
            allowed = list(dict.fromkeys(target.names[0] for target in targets))
            hint = self._findings.did_you_mean(call.name, allowed)
            place = target_place(call)
            self._report("YIELD_INVALID_TARGET", place, hint=hint, name=call.name, allowed=listed(allowed))
            return None
        # The innermost one wins; only mixins, which are on the same level, may be ambiguous.
        if targets[found[0]].is_mixin and len(found) > 1:
            by_alias = [number for number in found if targets[number].alias == call.name]
            if by_alias:
                return by_alias[0]
            aliases = [alias for number in found if (alias := targets[number].alias)]
            self._report(
                "YIELD_TARGET_AMBIGUOUS",
                target_place(call),
                name=call.name,
                count=len(found),
                aliases=listed(aliases) if aliases else "give them some",
            )
            return None
        return found[0]


def yield_targets(scope: Scope) -> list[YieldTarget]:
    """Return the possible targets of a yield in this block: enclosing steps inside out, the declaration, its mixins."""
    targets: list[YieldTarget] = []
    for level in scope.outwards():
        if level.owner is None:
            continue
        callee = level.owner.callee
        if callee is None:
            targets.append(YieldTarget((level.owner.written, level.owner.written.rpartition(".")[2]), None))
        elif not callee.is_schema:
            targets.append(YieldTarget((callee.name, callee.qualified), callee))
    declaration = scope.declaration
    targets.append(YieldTarget((declaration.name, declaration.qualified), declaration))
    for mixin in declaration.mixins:
        full = mixin.node.name if mixin.target is None else mixin.target.qualified
        alias = mixin.node.alias
        names = (mixin.short_name, full) if alias is None else (alias, mixin.short_name, full)
        targets.append(YieldTarget(names, mixin.target, True, alias))
    return targets
