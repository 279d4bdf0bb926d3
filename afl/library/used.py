"""The declarations of the library that a program uses, found by the names that are written in it."""

from __future__ import annotations

from afl import ast
from afl.library.declarations import NAMESPACE, PREFIX, library, reaches_library


class LibraryUse:
    """The use that one program makes of the library. Tell it of each name of a facet, in the namespace it stands in."""

    def __init__(self) -> None:
        self._program = ast.Program()
        #: The names of the library that a short name in the current namespace may mean.
        self._reached: frozenset[str] = frozenset()
        self._used: set[str] = set()

    def enter(self, program: ast.Program, namespace: ast.Namespace | None) -> None:
        """Take the namespace, or the top level, that the names which follow stand in."""
        self._program, self._reached = program, frozenset()
        if namespace is not None and reaches_library("", namespace.name, [item.name for item in namespace.uses]):
            self._reached = frozenset(library()) - _callables_of(program, namespace.name)

    def note(self, name: str) -> str:
        """Note a name, and return it."""
        if name in self._reached or name.startswith(PREFIX):
            self._used.add(name.removeprefix(PREFIX))
        return name

    def declarations(self) -> list[ast.Callable]:
        """Return the declarations that are used, and that the program does not declare itself, in the library's order.

        A program that does the latter is invalid.
        """
        if not self._used:
            return []
        wanted = self._used - _callables_of(self._program, NAMESPACE)
        return [item for name, item in library().items() if name in wanted]


def _callables_of(program: ast.Program, namespace: str) -> frozenset[str]:
    """Return the names of what a program declares in a namespace, in all its openings, schemas left out."""
    openings = [item for item in program.namespaces if item.name == namespace]
    declared: list[ast.Callable] = []
    for opening in openings:
        declared += [*opening.facets, *opening.event_facets, *opening.workflows]
    return frozenset(item.sig.name for item in declared)
