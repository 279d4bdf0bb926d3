"""Find the names of a text that stand for something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from afl import ast
from afl.language_server.analysis import Analysis, attributes
from afl.language_server.targets import Occurrence, Target, TargetKind
from afl.language_server.texts import Text, holds
from afl.sources.needed_names import nodes
from afl.validation.findings import name_place
from afl.validation.scopes import Scope
from afl.validation.signatures import Part, Signature, Slot
from afl.validation.yields import yield_targets


def occurrence_at(found: Iterable[Occurrence], line: int, column: int) -> Occurrence | None:
    """Return the name that a place is in or just behind."""
    return next((item for item in found if holds(item.place, line, column)), None)


def occurrences(analysis: Analysis, source_id: str) -> list[Occurrence]:
    """Return the names of one text of a program, the names in declarations included."""
    text = analysis.text(source_id)
    return [] if text is None else _Collector(analysis, source_id, text).collect()


class _Collector:
    """Collector that walks the declarations of a text with the scopes that the compiler has found."""

    def __init__(self, analysis: Analysis, source_id: str, text: Text) -> None:
        self._analysis = analysis
        self._symbols = analysis.symbols
        self._source_id = source_id
        self._text = text
        self._found: list[Occurrence] = []

    def collect(self) -> list[Occurrence]:
        for namespace in self._analysis.program.namespaces:
            if self._is_here(namespace):
                self._namespace(namespace.location, namespace.name, skip=1)
                for use in namespace.uses:
                    self._namespace(use.location, use.name, skip=1)
        for implicit, part in self._symbols.implicits:
            if self._is_here(implicit):
                facet = self._symbols.facet(part, implicit.call.name)
                slots = {} if facet is None else facet.params
                self._call(implicit.call, facet, slots, part, None)
        for signature in self._analysis.declarations(self._source_id):
            self._declaration(signature)
        return self._found

    def _is_here(self, node: ast.ASTNode) -> bool:
        return node.location is not None and node.location.source_id == self._source_id

    # -- declarations -------------------------------------------------------------------------------------------------

    def _declaration(self, signature: Signature) -> None:
        node = signature.node
        place = self._analysis.name_place(signature)
        if place is not None:
            self._add(place, self._declared(signature))
        if isinstance(node, ast.SchemaDecl):
            self._slots(node.fields, signature.returns, None)
            return
        binding = Scope(declaration=signature, is_binding=True)
        self._slots(node.sig.params, signature.params, binding)
        self._slots(node.sig.returns.params if node.sig.returns else (), signature.returns, binding)
        self._mixins(node.sig.mixins, signature.part, binding)
        self._clauses(node.body)
        self._catch(node.catch)

    def _slots(
        self,
        items: Iterable[ast.Parameter | ast.SchemaField],
        slots: Mapping[str, Slot],
        scope: Scope | None,
    ) -> None:
        for item in items:
            slot = slots.get(item.name)
            self._add_slot(name_place(item.location, item.name), item.name, slot)
            self._type(item.type, slot)
            if isinstance(item, ast.Parameter) and item.default is not None and scope is not None:
                self._expression(item.default, scope)

    def _type(self, written: ast.Type, slot: Slot | None) -> None:
        kind = slot.type if slot else None
        while isinstance(written, ast.ArrayType):
            written, kind = written.element_type, kind.element if kind else None
        if kind is not None and (kind.schema or kind.facet):
            named = self._symbols.named(kind.schema or kind.facet)
            self._dotted(written.location, written.name, None if named is None else self._declared(named))

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _clauses(self, body: ast.Body | None) -> None:
        for clause in ast.clauses(body):
            if clause.when is not None:
                self._when(clause.when)
            elif clause.script is None:
                scope = self._analysis.scopes[id(clause.block)]
                if clause.foreach is not None:
                    # The source of a foreach does not see the steps of its block, and they do not see it.
                    self._expression(clause.foreach.iterable, replace(scope, variable=None, steps={}))
                    self._variable(clause.foreach, scope)
                self._block(clause.block, scope)

    def _variable(self, clause: ast.ForeachClause, scope: Scope) -> None:
        place = self._variable_place(clause.location)
        variable = scope.variable
        if place is not None and variable is not None:
            target = Target(kind=TargetKind.VARIABLE, name=clause.variable, places=(place,), type=variable.type)
            self._add(place, target)

    def _variable_place(self, clause: ast.SourceLocation | None) -> ast.SourceLocation | None:
        """Return the place of the word behind `foreach`."""
        words = [] if clause is None else self._text.words(clause, 1, skip=1)
        return words[0] if words else None

    def _when(self, when: ast.WhenBlock) -> None:
        scope = self._analysis.scopes[id(when)]
        for case in when.cases:
            if case.condition is not None:
                self._expression(case.condition, scope)
            self._block(case.block, self._analysis.scopes[id(case.block)])

    def _catch(self, clause: ast.CatchClause | None) -> None:
        if clause is None:
            return
        if clause.when is not None:
            self._when(clause.when)
        else:
            self._block(clause.block, self._analysis.scopes[id(clause.block)])

    def _block(self, block: ast.Block, scope: Scope) -> None:
        part = scope.declaration.part
        for statement in block.steps:
            if isinstance(statement, ast.SysAssertStmt):
                self._expression(statement.condition, scope)
            elif isinstance(statement, ast.SysLogStmt):
                self._args(statement.args, {}, scope)
            else:
                callee = self._symbols.callee(part, statement.call)
                place = name_place(statement.location, statement.name)
                self._add(place, self._step(statement.name, statement.location, callee))
                slots = {} if callee is None else callee.returns if callee.is_schema else callee.params
                self._call(statement.call, callee, slots, part, scope)
                self._clauses(statement.body)
                self._catch(statement.catch)
        for give in block.yield_stmts:
            target = next((item for item in yield_targets(scope) if give.call.name in item.names), None)
            signature = None if target is None else target.signature
            fields = (target.fields() if target else None) or {}
            self._call(give.call, signature, fields, part, scope)

    # -- calls and expressions ----------------------------------------------------------------------------------------

    def _call(
        self,
        call: ast.CallExpr | ast.MixinSig | ast.MixinCall,
        callee: Signature | None,
        slots: Mapping[str, Slot],
        part: Part,
        scope: Scope | None,
    ) -> None:
        self._dotted(call.location, call.name, None if callee is None else self._declared(callee))
        self._args(call.args, slots, scope)
        if isinstance(call, ast.CallExpr):
            self._mixins(call.mixins, part, scope)

    def _mixins(self, mixins: Iterable[ast.MixinSig | ast.MixinCall], part: Part, scope: Scope | None) -> None:
        for mixin in mixins:
            target = self._symbols.facet(part, mixin.name)
            self._call(mixin, target, {} if target is None else target.params, part, scope)

    def _args(self, args: Iterable[ast.NamedArg], slots: Mapping[str, Slot], scope: Scope | None) -> None:
        for arg in args:
            slot = slots.get(arg.name)
            if slot is not None:
                self._add_slot(name_place(arg.location, arg.name), arg.name, slot)
            if scope is not None:
                self._expression(arg.value, scope)

    def _expression(self, expression: ast.Expression, scope: Scope) -> None:
        for node in nodes(expression):
            if isinstance(node, ast.Reference) and node.location is not None:
                places = self._text.words(node.location, len(node.path))
                if len(places) == len(node.path):
                    self._reference(node, places, scope)

    def _reference(self, node: ast.Reference, places: list[ast.SourceLocation], scope: Scope) -> None:
        name = node.path[0]
        step = None if node.is_input else scope.step(name)
        slot = scope.input(name) if node.is_input else None
        variable = scope.foreach_variable(name)
        if step is not None:
            self._add(places[0], self._step(name, step.place, step.callee))
            known = attributes(step)
        elif variable is not None and (slot is None or slot.place == variable.place):
            place = self._variable_place(variable.place)
            found = () if place is None else (place,)
            self._add(places[0], Target(kind=TargetKind.VARIABLE, name=name, places=found, type=variable.type))
            known = self._analysis.members(variable.type)
        else:
            if slot is None:
                return
            self._add_slot(places[0], name, slot)
            known = self._analysis.members(slot.type)
        for name, place in zip(node.path[1:], places[1:], strict=True):
            slot = known.get(name)
            if slot is None:
                return
            self._add_slot(place, name, slot)
            known = self._analysis.members(slot.type)

    # -- names --------------------------------------------------------------------------------------------------------

    def _dotted(self, place: ast.SourceLocation | None, name: str, target: Target | None) -> None:
        """Add a dotted name: its last word is the target, the words before it are the namespace."""
        words = [] if place is None else self._text.words(place, name.count(".") + 1)
        if not words:
            return
        if target is not None:
            self._add(words[-1], target)
        if len(words) > 1:
            self._namespace(words[0], name.rpartition(".")[0])

    def _namespace(self, place: ast.SourceLocation | None, name: str, skip: int = 0) -> None:
        words = [] if place is None else self._text.words(place, name.count(".") + 1, skip)
        openings = [item.location for item in self._analysis.namespaces(name) if item.location is not None]
        if words and openings:
            whole = words[0]._replace(end_line=words[-1].end_line, end_column=words[-1].end_column)
            self._add(whole, Target(kind=TargetKind.NAMESPACE, name=name, places=tuple(openings)))

    def _declared(self, signature: Signature) -> Target:
        place = self._analysis.name_place(signature)
        places = () if place is None else (place,)
        return Target(kind=TargetKind.DECLARATION, name=signature.name, places=places, signature=signature)

    def _step(self, name: str, place: ast.SourceLocation | None, callee: Signature | None) -> Target:
        at = name_place(place, name)
        return Target(kind=TargetKind.STEP, name=name, places=() if at is None else (at,), signature=callee)

    def _add_slot(self, place: ast.SourceLocation | None, name: str, slot: Slot | None) -> None:
        at = name_place(slot.place, name) if slot is not None and slot.place is not None else None
        kind = slot.type if slot is not None else None
        self._add(place, Target(kind=TargetKind.SLOT, name=name, places=() if at is None else (at,), type=kind))

    def _add(self, place: ast.SourceLocation | None, target: Target) -> None:
        if place is not None:
            self._found.append(Occurrence(place=place, target=target))
