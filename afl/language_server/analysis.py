"""The compiler's knowledge of a program: findings, declarations, and the names in scope at each place."""

from __future__ import annotations

from collections.abc import Iterable

from afl import ast
from afl.compiler import collector_paused
from afl.core.strictness import Strictness
from afl.diagnostics import Diagnostic
from afl.language_server.documents import Parsed
from afl.language_server.texts import Text, holds
from afl.library.declarations import SOURCE_ID
from afl.validation import examine_program, judged
from afl.validation.scopes import Scope, Step
from afl.validation.signatures import Part, Signature, Slot
from afl.validation.value_types import ValueType


class Analysis:
    """The analysis of one program, done once."""

    def __init__(self, parts: Iterable[tuple[str, Parsed]], library: Parsed) -> None:
        """`parts` are the texts of the program with their source ids; every program knows the library."""
        self._parts = dict(parts)
        self._library = library
        self.program = ast.Program.merge(parsed.tree for parsed in self._parts.values())
        #: The scopes of blocks and `when`s, by the identity of the node.
        self.scopes: dict[int, Scope] = {}
        self._blocks: list[ast.Block | ast.WhenBlock] = []
        with collector_paused():
            found = examine_program(self.program, self._observe)
        self.symbols = found.symbols
        # The same strictness as `afl check`.
        self._diagnostics = judged(found.diagnostics, self.program, Strictness.PROGRAM)

    def _observe(self, node: ast.Block | ast.WhenBlock, scope: Scope) -> None:
        self.scopes[id(node)] = scope
        self._blocks.append(node)

    def is_of(self, parts: Iterable[tuple[str, Parsed]]) -> bool:
        """Say whether the analysis is still about these texts."""
        parts = list(parts)
        return len(parts) == len(self._parts) and all(self._parts.get(name) is part for name, part in parts)

    def text(self, source_id: str | None) -> Text | None:
        """Return the text that this source id stands for."""
        part = self._parts.get(source_id or "")
        if part is None and source_id == SOURCE_ID:
            part = self._library
        return part.text if part else None

    def findings(self, source_id: str) -> list[Diagnostic]:
        return [item for item in self._diagnostics if item.source_id == source_id]

    # -- declarations -------------------------------------------------------------------------------------------------

    def declarations(self, source_id: str) -> list[Signature]:
        """Return the declarations of one text."""
        declared = [*self.symbols.all, *(item for item in self.symbols.by_name.values() if item.is_library)]
        return [item for item in declared if item.node.location and item.node.location.source_id == source_id]

    def namespaces(self, name: str) -> list[ast.Namespace]:
        """Return every opening of a namespace, that of the library included."""
        openings = [*self.program.namespaces, *self._library.tree.namespaces]
        return [item for item in openings if item.name == name]

    def name_place(self, signature: Signature) -> ast.SourceLocation | None:
        """Return the place of a declaration's name; None for built-in names."""
        node = signature.node
        if not isinstance(node, ast.SchemaDecl):
            place = node.sig.location
            return place and self._words(place, 1)
        return node.location and self._words(node.location, 1, skip=1)

    def _words(self, place: ast.SourceLocation, count: int, skip: int = 0) -> ast.SourceLocation | None:
        text = self.text(place.source_id)
        found = text.words(place, count, skip) if text else []
        return found[0] if found else None

    def owner(self, place: ast.SourceLocation) -> Signature | None:
        """Return the declaration around a place."""
        line, column = place[:2]
        return next((item for item in self.declarations(place.source_id or "") if _is_in(item, line, column)), None)

    # -- scopes -------------------------------------------------------------------------------------------------------

    def scope_at(self, source_id: str, line: int, column: int) -> Scope | None:
        """Return the scope at a place inside a declaration, with the steps further down."""
        inner: ast.Block | ast.WhenBlock | None = None
        for node in self._blocks:
            place = node.location
            if place is None or place.source_id != source_id or not holds(place, line, column):
                continue
            # Just behind the closing brace is outside.
            if (line, column) != (place.end_line, place.end_column) and _is_later(place, inner):
                inner = node
        if inner is not None:
            return self.scopes[id(inner)]
        owner = next((item for item in self.declarations(source_id) if _is_in(item, line, column)), None)
        return None if owner is None else Scope(declaration=owner, is_binding=True)

    def part_at(self, source_id: str, line: int, column: int) -> Part:
        """Return the part of the program that resolves names at a place, inside or between declarations."""
        scope = self.scope_at(source_id, line, column)
        if scope is not None:
            return scope.declaration.part
        inside: ast.Namespace | None = None
        for item in self.program.namespaces:
            place = item.location
            if place is None or place.source_id != source_id or place[:2] > (line, column):
                continue
            text = self.text(source_id)
            is_header = text is not None and not text.cut(place).endswith("}")
            if is_header or holds(place, line, column):
                inside = item
        return Part("", ()) if inside is None else Part(inside.name, tuple(use.name for use in inside.uses))

    # -- values -------------------------------------------------------------------------------------------------------

    def members(self, of: ValueType | None) -> dict[str, Slot]:
        """Return the names that may follow a dot behind a value of this type, as far as they are known."""
        owner = None if of is None else self.symbols.named(of.facet or of.schema)
        if owner is None or of is None:
            return {}
        if of.schema:
            return dict(owner.returns)
        return {name: slot for name in owner.member_names() if (slot := owner.member(name)) is not None}


def steps_above(scope: Scope, line: int, column: int) -> dict[str, Step]:
    """Return the steps that a reference at a place may name: those above it, and those whose bodies contain it."""
    owners = {level.owner.name for level in scope.outwards() if level.owner is not None}
    found: dict[str, Step] = {}
    for name in scope.visible_steps():
        step = scope.step(name)
        if step is None:
            continue
        place = step.place
        if name in owners or place is None or (place.end_line or 0, place.end_column or 0) <= (line, column):
            found[name] = step
    return found


def inputs(scope: Scope) -> dict[str, Slot]:
    """Return the names that may follow `$.`."""
    return {name: slot for name in scope.input_names() if (slot := scope.input(name)) is not None}


def attributes(step: Step) -> dict[str, Slot]:
    """Return the names that may follow `step.`."""
    return {name: slot for name in step.attribute_names() if (slot := step.attribute(name)) is not None}


def _is_in(signature: Signature, line: int, column: int) -> bool:
    return holds(signature.node.location, line, column)


def _is_later(place: ast.SourceLocation, than: ast.Block | ast.WhenBlock | None) -> bool:
    return than is None or than.location is None or place[:2] > than.location[:2]
