"""Check a syntax tree against the rules of the language."""

from __future__ import annotations

from typing import NamedTuple

from afl.ast import Program
from afl.diagnostics import Diagnostic
from afl.validation.declarations import DeclarationChecker
from afl.validation.findings import Findings
from afl.validation.recursion import check_continuing, check_recursion
from afl.validation.rules import RULES, Rule
from afl.validation.statements import ScopeObserver
from afl.validation.strictness import judged
from afl.validation.symbols import Symbols

__all__ = ["RULES", "Examined", "Rule", "examine_program", "judged", "validate_program"]


class Examined(NamedTuple):
    """The findings of the rules in a program, and its symbols."""

    diagnostics: list[Diagnostic]
    symbols: Symbols


def validate_program(program: Program) -> list[Diagnostic]:
    """Return all errors and warnings of the rules, ordered by source and place."""
    return examine_program(program).diagnostics


def examine_program(program: Program, observer: ScopeObserver | None = None) -> Examined:
    """Validate a program and return the symbols too; `observer` gets each block with the scope that it sees."""
    findings = Findings()
    symbols = Symbols(program, findings)
    checker = DeclarationChecker(symbols, findings, observer)
    checker.check_implicits()
    for signature in symbols.all:
        checker.check(signature)
    check_recursion(symbols, findings)
    check_continuing(symbols, findings)
    # Texts keep their given order, as far as the tree still shows it.
    order: dict[str | None, int] = {}
    implicits = (implicit for implicit, _ in symbols.implicits)
    for node in [*program.namespaces, *(signature.node for signature in symbols.all), *implicits]:
        order.setdefault(node.location.source_id if node.location else None, len(order))
    ordered = sorted(findings.diagnostics, key=lambda item: (order.get(item.source_id, -1), *item.sort_key()))
    return Examined(ordered, symbols)


#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "characters",
    "findings",
    "scopes",
    "signatures",
    "value_types",
    "yields",
)
