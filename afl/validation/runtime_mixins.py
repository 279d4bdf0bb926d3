"""Check the mixins that the runtime itself acts on: they are on event facets, and their values are literals."""

from __future__ import annotations

from afl import ast
from afl.compiled.names import Kind
from afl.compiled.runtime_mixins import NO_LITERAL, RETRY, TIMEOUT, WrongRetry, retry_values, time_limit_ms
from afl.core.limits import MAX_TIMEOUT_MS
from afl.validation.findings import Findings, target_place
from afl.validation.signatures import Signature
from afl.validation.value_types import mismatch

#: What does on a facet of the library what a mixin does on one of an agent.
_LIBRARY_HINTS = {(TIMEOUT, "WaitForEvent"): "a wait for an event has a time-out of its own: timeout_ms = 60000"}


def check_runtime_mixin(
    node: ast.MixinSig | ast.MixinCall, target: Signature, owner: Signature | None, findings: Findings
) -> None:
    """Check a mixin of the library on a signature, or on a call, of `owner`; None where that is unknown."""
    if target.name not in (RETRY, TIMEOUT):
        return
    if owner is not None and (owner.kind is not Kind.EVENT_FACET or owner.is_library):
        hint = _LIBRARY_HINTS.get((target.name, owner.name), "leave it out") if owner.is_library else None
        findings.report("MIXIN_NOT_EVENT", target_place(node), hint=hint, name=node.name, facet=owner.name)
    given: dict[str, object] = {}
    places: dict[str, ast.SourceLocation | None] = {}
    for arg in node.args:
        slot = target.params.get(arg.name)
        if slot is None or mismatch(slot.type, arg.value) is not None:
            continue  # It has been reported.
        value = _literal(arg.value)
        if value is NO_LITERAL or (target.name == TIMEOUT and isinstance(value, int) and value < 0):
            rule = "MIXIN_NOT_LITERAL time" if target.name == TIMEOUT else "MIXIN_NOT_LITERAL"
            findings.report(rule, arg.value.location, name=arg.name, mixin=node.name)
            continue
        given[arg.name] = value
        places[arg.name] = arg.value.location
    if target.name == TIMEOUT:
        total_ms = time_limit_ms(given.items()) or 0
        if total_ms > MAX_TIMEOUT_MS:
            wanted = f"a hundred years at most, {MAX_TIMEOUT_MS} ms"
            _report_range(findings, node, target_place(node), "the time", wanted, f"{total_ms} ms")
        return
    try:
        retry_values(given)
    except WrongRetry as error:
        place = places.get(error.name) or target_place(node)
        _report_range(findings, node, place, f"'{error.name}'", error.wanted, repr(error.found))


def _report_range(
    findings: Findings,
    node: ast.MixinSig | ast.MixinCall,
    place: ast.SourceLocation | None,
    name: str,
    wanted: str,
    found: str,
) -> None:
    findings.report("MIXIN_OUT_OF_RANGE", place, name=name, mixin=node.name, wanted=wanted, found=found)


def _literal(value: ast.Expression) -> object:
    """Return the value of a literal: a number, a text, null, or a list of these; NO_LITERAL for anything else."""
    if isinstance(value, ast.Literal):
        return value.value
    if isinstance(value, ast.UnaryExpr) and value.operator == "-":
        number = _literal(value.operand)
        return -number if isinstance(number, int | float) and not isinstance(number, bool) else NO_LITERAL
    if isinstance(value, ast.ArrayLiteral):
        values = [_literal(item) for item in value.elements]
        return NO_LITERAL if any(item is NO_LITERAL for item in values) else values
    return NO_LITERAL
