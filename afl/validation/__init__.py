"""Checks a syntax tree against the rules of the language."""

from __future__ import annotations

from afl.ast import Program
from afl.diagnostics import Diagnostic
from afl.validation.findings import Findings
from afl.validation.recursion import check_recursion
from afl.validation.rules import RULES, Rule
from afl.validation.statements import StatementChecker
from afl.validation.symbols import Symbols

__all__ = ["RULES", "Rule", "validate_program"]


def validate_program(program: Program) -> list[Diagnostic]:
    """Return everything that the rules find, all errors and warnings, ordered by source and place."""
    findings = Findings()
    symbols = Symbols(program, findings)
    checker = StatementChecker(symbols, findings)
    for signature in symbols.all:
        checker.check(signature)
    check_recursion(symbols, findings)
    # Texts keep the order in which they were given, as far as the tree still shows it.
    order: dict[str | None, int] = {}
    for node in [*program.namespaces, *(signature.node for signature in symbols.all)]:
        order.setdefault(node.location.source_id if node.location else None, len(order))
    return sorted(findings.diagnostics, key=lambda item: (order.get(item.source_id, -1), *item.sort_key()))
