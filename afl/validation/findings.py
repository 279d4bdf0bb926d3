"""Collects what the rules find."""

from __future__ import annotations

from afl.ast import SourceLocation
from afl.diagnostics import Diagnostic
from afl.validation.rules import RULES


class Findings:
    """The diagnostics of one validation."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def report(self, rule_key: str, place: SourceLocation | None, **facts: object) -> None:
        """Add what a rule says; `facts` fill the blanks of its message."""
        rule = RULES[rule_key]
        line, column, end_line, end_column, source_id = place or (None, None, None, None, None)
        self.diagnostics.append(
            Diagnostic(
                code=rule.code,
                severity=rule.severity,
                message=rule.message.format_map(facts),
                line=line,
                column=column,
                end_line=end_line,
                end_column=end_column,
                source_id=source_id,
                hint=rule.hint,
            )
        )


def name_place(place: SourceLocation | None, name: str) -> SourceLocation | None:
    """Return the place of the name that a node begins with."""
    if place is None:
        return None
    return place._replace(end_line=place.line, end_column=place.column + len(name))


def listed(names: object) -> str:
    """Return names for a message, at most a dozen of them."""
    known = [str(name) for name in names] if isinstance(names, (list, tuple, set, dict)) else [str(names)]
    return ", ".join(known[:12]) + (", ..." if len(known) > 12 else "") if known else "nothing"
