"""The findings of the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from afl.ast import CallExpr, MixinCall, MixinSig, SourceLocation
from afl.core.text.near_names import did_you_mean, names_alike
from afl.diagnostics import Diagnostic
from afl.validation.rules import RULES

#: The most names that all suggestions together are chosen from. A text full of unknown names must not take minutes.
MAX_COMPARED = 50_000

#: The most names that a message lists.
MAX_LISTED = 12


class Findings:
    """The diagnostics of one validation."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._compared = 0

    def report(self, rule_key: str, place: SourceLocation | None, *, hint: str | None = None, **facts: object) -> None:
        """Add a finding of a rule; `facts` fill the blanks of its message, and a hint replaces the rule's own."""
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
                hint=hint or rule.hint,
            )
        )

    def did_you_mean(self, wanted: str, known: Collection[str]) -> str | None:
        """Return a hint with names that resemble the wanted one; None without such names."""
        self._compared += len(known)
        if self._compared > MAX_COMPARED:
            return None
        return did_you_mean(names_alike(wanted, known)) or None


def name_place(place: SourceLocation | None, name: str) -> SourceLocation | None:
    """Return the place of the first word of a node."""
    if place is None:
        return None
    return place._replace(end_line=place.line, end_column=place.column + len(name))


def target_place(node: CallExpr | MixinSig | MixinCall) -> SourceLocation | None:
    """Return the place of the name that a call or mixin calls."""
    return name_place(node.location, node.name)


def listed(names: Iterable[object]) -> str:
    """Return names for a message, at most a dozen of them."""
    known = [str(name) for name in names]
    return ", ".join(known[:MAX_LISTED]) + (", ..." if len(known) > MAX_LISTED else "") if known else "nothing"
