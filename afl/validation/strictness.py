"""The strictness of checks: what a library may leave open, a runnable program may not."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from afl.ast import Program
from afl.core.strictness import Strictness
from afl.diagnostics import Diagnostic, Severity
from afl.validation.rules import RULES

#: The codes of warnings about things that a library may leave open.
LEFT_OPEN: Final = frozenset(rule.code for rule in RULES.values() if rule.is_left_open)

_WAY_OUT: Final = "a library may leave this open; --lenient lets a program do so too"


def programs_of(tree: Program, libraries: Collection[str] = ()) -> frozenset[str | None]:
    """Return the sources outside these libraries that declare a workflow. A source without a workflow is a library."""
    workflows = [*tree.workflows, *(workflow for namespace in tree.namespaces for workflow in namespace.workflows)]
    sources = {None if item.location is None else item.location.source_id for item in workflows}
    return frozenset(source for source in sources if source is None or source not in libraries)


def judged(
    findings: Iterable[Diagnostic], tree: Program, strictness: Strictness, libraries: Collection[str] = ()
) -> list[Diagnostic]:
    """Return the findings with their severity here: each source is a program or a library by itself.

    Findings of library sources keep their severity.
    """
    found = list(findings)
    programs = programs_of(tree, libraries)
    if strictness is Strictness.LENIENT or (strictness is Strictness.PROGRAM and not programs):
        return found

    # A name that is missing because its namespace is missing is not a mistake of its own.
    lacking = {item.source_id for item in found if item.code == "USE_UNKNOWN_NAMESPACE"}

    def weighed(item: Diagnostic) -> Diagnostic:
        is_open = item.code in LEFT_OPEN and not (item.code == "REF_UNKNOWN_FACET" and item.source_id in lacking)
        counts = strictness is Strictness.STRICT or (is_open and (item.source_id is None or item.source_id in programs))
        if item.is_error or not counts or item.source_id in libraries:
            return item
        hint = item.hint or (_WAY_OUT if item.code in LEFT_OPEN and strictness is Strictness.PROGRAM else None)
        return replace(item, severity=Severity.ERROR, hint=hint)

    return [weighed(item) for item in found]
