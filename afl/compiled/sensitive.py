"""Which parameters and returns of a program are sensitive: those that are marked, and those that take their values.

A mark is `"sensitive": true` on a parameter, return or field of the compiled program (`@sensitive` in its doc comment),
or a pattern of the settings. It follows the value: what an argument or a yield passes on is sensitive where it arrives,
at every call. The walk is static and errs on the safe side. It ends at agents and scripts: what they return is
sensitive where it is marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from afl.compiled.names import CALLABLE, SCHEMAS, Kind
from afl.compiled.needs import yields
from afl.compiled.program import CompiledProgram, Declaration, Node, blocks_of
from afl.core.sensitive import NO_PATTERNS, SensitivePatterns
from afl.core.types import BUILTIN_TYPES

#: The mark as a canonical text spells it: a text without it has no marks.
_MARK: Final = b'"sensitive":true'
#: The owner of what `sys.log` writes.
STEP_LOG: Final = "sys.log"
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class SensitiveMarks:
    """The sensitive names of one program, by the qualified names of its declarations; fields of schemas are params."""

    params: dict[str, set[str]] = field(default_factory=dict)
    returns: dict[str, set[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.params or self.returns)

    def params_of(self, name: str) -> frozenset[str] | set[str]:
        return self.params.get(name, _NONE)

    def returns_of(self, name: str) -> frozenset[str] | set[str]:
        return self.returns.get(name, _NONE)


NO_MARKS: Final = SensitiveMarks()


def has_marks(program: CompiledProgram) -> bool:
    """Return whether a program marks anything itself."""
    return _MARK in program.text


def sensitive_marks(program: CompiledProgram, patterns: SensitivePatterns = NO_PATTERNS) -> SensitiveMarks:
    """Return what is sensitive in a program, by its marks and by patterns, wherever the values go."""
    if not patterns and not has_marks(program):
        return NO_MARKS
    return _Walk(program, patterns).marks()


class _Walk:
    """The walk over a program, which repeats until no mark is added."""

    def __init__(self, program: CompiledProgram, patterns: SensitivePatterns) -> None:
        self._program = program
        self._patterns = patterns
        self._marks = SensitiveMarks()
        self._grew = False

    def marks(self) -> SensitiveMarks:
        for declaration in self._program.declarations.values():
            self._declared(declaration)
        self._grew = bool(self._marks)
        while self._grew:
            self._grew = False
            for declaration in self._program.declarations.values():
                self._types(declaration)
                self._body(declaration)
        return self._marks

    def _add(self, kind: dict[str, set[str]], owner: str, name: str) -> None:
        names = kind.setdefault(owner, set())
        if name not in names:
            names.add(name)
            self._grew = True

    def _declared(self, declaration: Declaration) -> None:
        owner = declaration.qualified_name
        for slots, kind in self._slots(declaration):
            for slot in slots:
                name = str(slot.get("name"))
                if slot.get("sensitive") is True or self._patterns.takes(owner, name):
                    self._add(kind, owner, name)

    def _slots(self, declaration: Declaration) -> tuple[tuple[Sequence[Node], dict[str, set[str]]], ...]:
        params = declaration.fields if declaration.kind is Kind.SCHEMA else declaration.params
        return (params, self._marks.params), (declaration.returns, self._marks.returns)

    def _types(self, declaration: Declaration) -> None:
        """Mark what has a type with sensitive fields, and what has a default made of something sensitive."""
        for slots, kind in self._slots(declaration):
            for slot in slots:
                schema = self._schema_of(declaration, slot.get("type"))
                default = slot.get("default")
                if (schema is not None and self._marks.params_of(schema)) or (
                    default is not None and _Scope(self, declaration, {}).is_sensitive(default)
                ):
                    self._add(kind, declaration.qualified_name, str(slot.get("name")))

    def _schema_of(self, declaration: Declaration, written: object) -> str | None:
        found = self._named(declaration, written, SCHEMAS)
        return None if found is None else found.qualified_name

    def _named(self, declaration: Declaration, written: object, kinds: frozenset[Kind]) -> Declaration | None:
        while isinstance(written, Mapping):
            written = written.get("elementType")
        if not isinstance(written, str) or written in BUILTIN_TYPES:
            return None
        resolution = self._program.names.resolve(written, declaration.namespace, declaration.uses, kinds)
        return None if resolution.found is None else self._program.declarations[resolution.found]

    def callees(self, declaration: Declaration, target: object) -> list[Declaration]:
        """Return what a call may mean: a facet, or else a schema."""
        for kinds in (CALLABLE, SCHEMAS):
            found = self._named(declaration, target, kinds)
            if found is not None:
                return [found]
        return []

    # --- bodies -------------------------------------------------------------------------------------------------

    def _body(self, declaration: Declaration) -> None:
        scope = _Scope(self, declaration, _steps_of(self, declaration))
        for mixin in declaration.mixins:
            self._arguments(scope, mixin, [declaration], as_alias=True)
        for block in _blocks(declaration):
            clause = block.get("foreach")
            if clause and scope.is_sensitive(clause.get("iterable")):
                scope.variables.add(str(clause.get("variable")))
        for block in _blocks(declaration):
            inner = block["block"] if isinstance(block.get("block"), Mapping) else block
            for step in inner.get("steps") or ():
                if "call" in step:
                    self._call(scope, step["call"])
                for pair in step.get("args") or ():
                    if scope.is_sensitive(pair.get("value")):
                        self._add(self._marks.params, STEP_LOG, str(pair.get("name")))
            for one in yields(inner):
                self._yield(scope, one["call"])

    def _call(self, scope: _Scope, call: Node) -> None:
        callees = self.callees(scope.declaration, call.get("target"))
        self._arguments(scope, call, callees)
        for mixin in call.get("mixins") or ():
            self._arguments(scope, mixin, callees, as_alias=True)

    def _arguments(self, scope: _Scope, call: Node, owners: list[Declaration], *, as_alias: bool = False) -> None:
        alias = call.get("alias") if as_alias else None
        for argument in call.get("args") or ():
            if scope.is_sensitive(argument.get("value")):
                for owner in owners:
                    self._add(self._marks.params, owner.qualified_name, str(alias or argument.get("name")))
                if as_alias:
                    for mixed in self.callees(scope.declaration, call.get("target")):
                        self._add(self._marks.params, mixed.qualified_name, str(argument.get("name")))

    def _yield(self, scope: _Scope, call: Node) -> None:
        owners = [owner.qualified_name for owner in self.callees(scope.declaration, call.get("target"))]
        for argument in call.get("args") or ():
            if scope.is_sensitive(argument.get("value")):
                # A yield to a mixin gives values to the declaration around it, too.
                for owner in {*owners, scope.declaration.qualified_name}:
                    self._add(self._marks.returns, owner, str(argument.get("name")))

    def is_read_sensitive(self, owner: Declaration, path: Sequence[str]) -> bool:
        """Return whether what a path reads, from a step of this declaration, is sensitive."""
        marks, name = self._marks, owner.qualified_name
        if not path:
            return owner.kind is Kind.SCHEMA and bool(marks.params_of(name))
        if path[0] in marks.params_of(name) or path[0] in marks.returns_of(name):
            return True
        if len(path) < 2:
            return False
        # Through a step that the attribute refers to.
        for slot in (*owner.params, *owner.returns, *owner.fields):
            if slot.get("name") == path[0]:
                through = self._named(owner, slot.get("type"), CALLABLE)
                if through is not None and self.is_read_sensitive(through, path[1:]):
                    return True
        return False


class _Scope:
    """What the names in one declaration mean: its steps by name, of any depth, and its sensitive loop variables."""

    def __init__(self, walk: _Walk, declaration: Declaration, steps: Mapping[str, list[Declaration]]) -> None:
        self._walk = walk
        self.declaration = declaration
        self._steps = steps
        self.variables: set[str] = set()

    def is_sensitive(self, node: object) -> bool:
        """Return whether an expression reads anything sensitive."""
        return any(self._reads_sensitive(kind, path) for kind, path in _references(node))

    def _reads_sensitive(self, kind: str, path: Sequence[str]) -> bool:
        if path and path[0] in self.variables:
            return True
        if kind == "StepRef":
            named = self._steps.get(str(path[0]), []) if path else []
            return any(self._walk.is_read_sensitive(owner, path[1:]) for owner in named)
        # `$.x` is the declaration's, or an attribute of a step around this place.
        around = (self.declaration, *(owner for owners in self._steps.values() for owner in owners))
        return any(self._walk.is_read_sensitive(owner, path) for owner in around)


def _steps_of(walk: _Walk, declaration: Declaration) -> dict[str, list[Declaration]]:
    found: dict[str, list[Declaration]] = {}
    for block in _blocks(declaration):
        inner = block["block"] if isinstance(block.get("block"), Mapping) else block
        for step in inner.get("steps") or ():
            if "call" in step:
                callees = walk.callees(declaration, step["call"].get("target"))
                found.setdefault(str(step.get("name")), []).extend(callees)
    return found


def _blocks(declaration: Declaration) -> Iterator[Node]:
    """Yield every block of a declaration: its own, those of its steps, cases and catches."""
    pending: list[Node] = [*declaration.blocks]
    if isinstance(declaration.node.get("catch"), Mapping):
        pending.append(declaration.node["catch"])
    while pending:
        block = pending.pop()
        yield block
        inner = block["block"] if isinstance(block.get("block"), Mapping) else block
        pending += (block.get("when") or {}).get("cases") or ()
        for step in inner.get("steps") or ():
            pending += blocks_of(step.get("body"))
            if isinstance(step.get("catch"), Mapping):
                pending.append(step["catch"])


def _references(node: Any) -> Iterator[tuple[str, Sequence[str]]]:
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            kind = one.get("type")
            if kind in ("StepRef", "InputRef"):
                yield str(kind), [str(part) for part in one.get("path") or ()]
            else:
                pending += one.values()
        elif isinstance(one, list | tuple):
            pending += one
