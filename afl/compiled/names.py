"""The kinds of declarations, and how written names resolve. The validator needs no more of a compiled program."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from afl.core.text.near_names import near_names


class Kind(StrEnum):
    """The kinds of declarations."""

    FACET = "facet"
    EVENT_FACET = "event facet"
    WORKFLOW = "workflow"
    SCHEMA = "schema"


CALLABLE = frozenset({Kind.FACET, Kind.EVENT_FACET, Kind.WORKFLOW})
SCHEMAS = frozenset({Kind.SCHEMA})


class Resolution(NamedTuple):
    """The result of resolving a name."""

    #: The qualified name, or None when nothing or several fit.
    found: str | None
    #: The candidates, when several fit.
    candidates: tuple[str, ...] = ()
    #: The name was found by an import while namespaces that are not imported declare the same short name.
    namesakes: bool = False


class Names:
    """The qualified names that written names mean (language reference, section 7).

    A dotted name is qualified already. A short name is looked up in the own namespace; then in the imports together
    with the top level, where two candidates are an ambiguity; then in the whole program, where it must be unique.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._by_short: dict[str, list[str]] = {}
        self._library: set[str] = set()

    def add(self, namespace: str, name: str, kind: Kind, *, is_library: bool = False) -> None:
        """Add a name. One of the library is found by its namespace only: it changes no meaning of a short name."""
        qualified = f"{namespace}.{name}" if namespace else name
        if is_library:
            self._library.add(qualified)
        elif qualified not in self._kinds:
            self._by_short.setdefault(name, []).append(qualified)
        self._kinds[qualified] = kind

    def __contains__(self, qualified: object) -> bool:
        return qualified in self._kinds

    def kind(self, qualified: str) -> Kind:
        return self._kinds[qualified]

    def all(self, kinds: frozenset[Kind] = CALLABLE | SCHEMAS) -> list[str]:
        return [name for name, kind in self._kinds.items() if kind in kinds]

    def has_any(self, kinds: frozenset[Kind]) -> bool:
        return any(kind in kinds for name, kind in self._kinds.items() if name not in self._library)

    def resolve(
        self, name: str, namespace: str = "", uses: Iterable[str] = (), kinds: frozenset[Kind] = CALLABLE
    ) -> Resolution:
        if "." in name:
            return Resolution(name if self._kinds.get(name) in kinds else None)
        known = self._kinds
        own = f"{namespace}.{name}" if namespace else name
        # Most names are found here. Searching all declarations of the name takes longer in larger programs.
        if known.get(own) in kinds:
            return Resolution(own)
        imported = [q for q in dict.fromkeys([*(f"{use}.{name}" for use in uses), name]) if known.get(q) in kinds]
        everywhere = (q for q in self._by_short.get(name, ()) if known[q] in kinds)
        if len(imported) == 1:
            return Resolution(imported[0], namesakes=any(q != imported[0] for q in everywhere))
        candidates = imported or list(everywhere)
        return Resolution(candidates[0]) if len(candidates) == 1 else Resolution(None, tuple(candidates))

    def near(self, name: str, kinds: frozenset[Kind] = CALLABLE) -> list[str]:
        """Return declared names that look like `name`, qualified, best first."""
        return near_names(name, self.all(kinds))
