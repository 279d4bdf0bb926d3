"""Check steps that are passed on as values: by their bare names, or from a parameter that holds one."""

from __future__ import annotations

from afl import ast
from afl.validation.findings import Findings
from afl.validation.scopes import Step
from afl.validation.signatures import Slot
from afl.validation.symbols import Symbols
from afl.validation.value_types import ValueType


class BareSteps:
    """Checker of the steps that are given to parameters.

    A parameter of a facet's type accepts steps of that facet; any other parameter accepts a step only as an object.
    """

    def __init__(self, symbols: Symbols, findings: Findings) -> None:
        self._symbols = symbols
        self._report = findings.report

    def check(self, node: ast.Reference, step: Step, slot: Slot | None, name: str) -> None:
        """Check a bare step that is given to the parameter, return or field `name`."""
        callee = step.callee
        if slot is None or slot.is_broken or callee is None:
            return
        wanted = slot.type
        if wanted is not None and wanted.name == "step":
            target = self._symbols.named(wanted.facet)
            if target is not None and not callee.satisfies(target):
                self._mismatch(node, name, wanted, f"{step.name} is a {callee.name} step")
        elif not callee.is_schema or (wanted is not None and not wanted.schema):
            self._report("REF_INVALID_STEP_FORMAT", node.location, name=step.name)
        elif wanted is not None and wanted.schema != callee.qualified:
            found = ValueType("schema", schema=callee.qualified)
            self._report("TYPE_ARG_MISMATCH", node.location, name=name, wanted=wanted, found=found)

    def check_passed_on(self, node: ast.Expression, found: ValueType, slot: Slot, name: str) -> None:
        """Check a value that is known to be a step and is given to a parameter of a facet's type."""
        wanted = slot.type
        if wanted is None or wanted.name != "step":
            return
        target, facet = self._symbols.named(wanted.facet), self._symbols.named(found.facet)
        if target is not None and facet is not None and not facet.satisfies(target):
            self._mismatch(node, name, wanted, f"this is a {facet.name} step")

    def _mismatch(self, node: ast.Expression, name: str, wanted: ValueType, found: str) -> None:
        facet = self._symbols.named(wanted.facet)
        short = facet.name if facet is not None else wanted.facet
        self._report("STEP_REF_FACET_MISMATCH", node.location, name=name, wanted=short, found=found)
