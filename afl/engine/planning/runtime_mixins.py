"""The mixins that the runtime itself acts on: `Timeout`, the time that an agent has, and `Retry`, further attempts.

Their values are literals. Where the program declares a facet of that name, the short name means that facet;
`afl.Timeout` and `afl.Retry` always mean the runtime's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from afl.compiled.program import Declaration, Kind, Node, ProgramError, Resolution
from afl.compiled.runtime_mixins import NO_LITERAL, RETRY, TIMEOUT, WrongRetry, retry_values
from afl.compiled.runtime_mixins import time_limit_ms as literals_ms
from afl.engine.limits import MAX_TIMEOUT_MS
from afl.engine.model.plan import FacetPlan
from afl.engine.model.waiting import LibraryFacet, RetryPlan

_NAMESPACE: Final = "afl."

#: A function that returns what a written name means.
Resolve = Callable[[str], Resolution]
#: A function that returns the declaration of a qualified name.
Declared = Callable[[str], Declaration]


def library_facet(declaration: Declaration) -> LibraryFacet | None:
    """Return the event facet of the library that this is, None for another. Raises ProgramError for an unknown one."""
    if not declaration.is_library or declaration.kind is not Kind.EVENT_FACET:
        return None
    try:
        return LibraryFacet(declaration.qualified_name)
    except ValueError:
        known = ", ".join(facet.value for facet in LibraryFacet)
        raise ProgramError(
            f"{declaration.qualified_name}: this release of the runtime answers no such facet; it answers {known}"
        ) from None


class RuntimeMixins:
    """The knowledge which mixins of one declaration, or of the calls inside it, are the runtime's."""

    def __init__(self, resolve: Resolve, declared: Declared) -> None:
        self._resolve = resolve
        self._declared = declared

    def retry(self, mixins: Iterable[Node], where: str) -> RetryPlan | None:
        """Return what the `Retry` among these mixins says, None without one; of several the first counts.

        Raises ProgramError for a value that is not a literal, or not one that it can be.
        """
        for node in mixins:
            if self._is_retry(node):
                return _retry_plan(node, where)
        return None

    def configures(self, node: Node, callee: FacetPlan | None = None) -> bool:
        """Say whether the arguments of a mixin become parameters of a step: those for the runtime do not.

        `Timeout` without its namespace is an exception, because earlier releases sent its arguments to the agents. To
        a facet of the library, whose parameters have the same names, they are not given.
        """
        target = str(node["target"])
        if target == TIMEOUT and self._is_unknown(target):
            return callee is None or callee.library is None
        return not (self._is_retry(node) or self._means(target, TIMEOUT))

    def _is_retry(self, node: Node) -> bool:
        target = str(node["target"])
        return (target == RETRY and self._is_unknown(target)) or self._means(target, RETRY)

    def _is_unknown(self, target: str) -> bool:
        resolution = self._resolve(target)
        return resolution.found is None and not resolution.candidates

    def _means(self, target: str, name: str) -> bool:
        """Say whether a written name is that of the library."""
        if target.rpartition(".")[2] != name:
            return False
        found = self._resolve(target).found
        # A program that was written by hand may leave the declaration out.
        return target == _NAMESPACE + name if found is None else self._declared(found).is_library


def time_limit_ms(mixins: Iterable[Node], where: str) -> int | None:
    """Return the time that `Timeout(hours, minutes, seconds, ms)` gives, None without one.

    Only literals count: without any there is no limit. Raises ProgramError for more than MAX_TIMEOUT_MS.
    """
    limits = [node for node in mixins if str(node["target"]).rpartition(".")[2] == TIMEOUT]
    args = [arg for node in limits for arg in node.get("args") or ()]
    total_ms = literals_ms((str(arg.get("name")), _literal(arg.get("value"))) for arg in args)
    if total_ms is None:
        return None
    if total_ms > MAX_TIMEOUT_MS:
        raise ProgramError(
            f"{where}: Timeout gives {total_ms} ms, more than {MAX_TIMEOUT_MS} ms, which are a hundred years "
            "(MAX_TIMEOUT_MS, which no setting raises)"
        )
    return total_ms


def _retry_plan(node: Node, where: str) -> RetryPlan:
    given = {str(arg["name"]): _literal(arg.get("value")) for arg in node.get("args") or ()}
    try:
        return RetryPlan(*retry_values(given))
    except WrongRetry as error:
        raise ProgramError(f"{where}: {error}") from error


def _literal(node: object) -> object:
    """Return the value of a literal: a number, a text, null, or a list of these; NO_LITERAL for anything else."""
    if not isinstance(node, Mapping):
        # A program that was written by hand may have the plain value.
        return node
    match node.get("type"):
        case "Int" | "Double" | "String" | "Boolean":
            return node.get("value")
        case "Null":
            return None
        case "UnaryExpr" if node.get("operator") == "-":
            number = _literal(node.get("operand"))
            return -number if isinstance(number, int | float) and not isinstance(number, bool) else NO_LITERAL
        case "ArrayLiteral":
            values = [_literal(item) for item in node.get("elements") or ()]
            return NO_LITERAL if any(value is NO_LITERAL for value in values) else values
    return NO_LITERAL
