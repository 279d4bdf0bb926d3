"""Propose what may be written at a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from lsprotocol import types as lsp

from afl import ast
from afl.compiled.program import Kind
from afl.core.types import BUILTIN_TYPES
from afl.language_server.analysis import Analysis, attributes, inputs, steps_above
from afl.language_server.cursor import Cursor, Wanted
from afl.language_server.hovers import declaration_text, declared
from afl.validation.scopes import Scope, Step
from afl.validation.signatures import Part, Signature, Slot
from afl.validation.yields import yield_targets

_KINDS: dict[Kind, lsp.CompletionItemKind] = {
    Kind.FACET: lsp.CompletionItemKind.Function,
    Kind.EVENT_FACET: lsp.CompletionItemKind.Event,
    Kind.WORKFLOW: lsp.CompletionItemKind.Module,
    Kind.SCHEMA: lsp.CompletionItemKind.Struct,
}

_WORDS: dict[Wanted, tuple[str, ...]] = {
    Wanted.DECLARATION: ("namespace", "use", "facet", "event facet", "workflow", "schema", "implicit"),
    Wanted.TAIL: ("with", "andThen", "andThen foreach", "andThen when", "script", "prompt", "catch"),
    Wanted.STATEMENT: ("yield", "andThen", "with", "catch", "sys.log", "sys.assert"),
    Wanted.CASE: ("case", "case _"),
    Wanted.DIRECTIVE: ("system", "template", "model"),
    Wanted.EXPRESSION: ("true", "false", "null"),
}


class Completer:
    """The source of proposals: names of a program, and from `namespaces` those that it does not use yet."""

    def __init__(self, analysis: Analysis, source_id: str, namespaces: Iterable[str]) -> None:
        self._analysis = analysis
        self._symbols = analysis.symbols
        self._source_id = source_id
        self._all_namespaces = sorted(namespaces)
        self._writers: dict[Wanted, Callable[[Cursor, tuple[int, int]], Iterator[lsp.CompletionItem]]] = {
            Wanted.CALLEE: self._callees,
            Wanted.MIXIN: self._mixins,
            Wanted.YIELD_TARGET: self._yield_targets,
            Wanted.NAMESPACE: self._namespaces,
            Wanted.TYPE: self._types,
            Wanted.ARGUMENT: self._arguments,
            Wanted.EXPRESSION: self._expressions,
            Wanted.INPUT: self._inputs,
            Wanted.ATTRIBUTE: self._attributes,
        }

    def propose(self, cursor: Cursor, place: tuple[int, int]) -> list[lsp.CompletionItem]:
        """Return what may be written at a place of the text; the editor filters by the typed part of the word."""
        writer = self._writers.get(cursor.wanted)
        found = [] if writer is None else list(writer(cursor, place))
        words = _WORDS.get(cursor.wanted, ())
        return found + [lsp.CompletionItem(label=word, kind=lsp.CompletionItemKind.Keyword) for word in words]

    # -- declarations -------------------------------------------------------------------------------------------------

    def _callees(self, cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        return self._declarations(cursor, place, frozenset(Kind), lambda part, name: self._called(part, name))

    def _mixins(self, cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        kinds = frozenset(Kind) - {Kind.SCHEMA}
        return self._declarations(cursor, place, kinds, self._symbols.facet)

    def _types(self, cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        if not cursor.path:
            for name in sorted(BUILTIN_TYPES):
                yield lsp.CompletionItem(label=name, kind=lsp.CompletionItemKind.TypeParameter)
        yield from self._callees(cursor, place)

    def _called(self, part: Part, name: str) -> Signature | None:
        return self._symbols.callee(part, ast.CallExpr(name))

    def _declarations(
        self,
        cursor: Cursor,
        place: tuple[int, int],
        kinds: frozenset[Kind],
        look_up: Callable[[Part, str], Signature | None],
    ) -> Iterator[lsp.CompletionItem]:
        """Return declarations by their shortest names that work here, or those of the namespace that is written."""
        part = self._analysis.part_at(self._source_id, *place)
        namespace = ".".join(cursor.path)
        self._symbols.declare_library()
        for signature in self._symbols.by_name.values():
            if signature.kind not in kinds or not _is_for(signature, cursor.wanted):
                continue
            if cursor.path:
                if signature.part.namespace == namespace:
                    yield self._declaration(signature, signature.name)
                continue
            meant = look_up(part, signature.name)
            is_short = meant is not None and meant.qualified == signature.qualified
            yield self._declaration(signature, signature.name if is_short else signature.qualified)
        if cursor.path:
            yield from self._namespaces(cursor, place)

    def _declaration(self, signature: Signature, written: str) -> lsp.CompletionItem:
        return lsp.CompletionItem(
            label=written,
            kind=_KINDS[signature.kind],
            label_details=lsp.CompletionItemLabelDetails(description=signature.part.namespace),
            # There may be hundreds: signature and documentation are written only for the selected one.
            data={"source": self._source_id, "name": signature.qualified},
        )

    def _yield_targets(self, cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        scope = self._scope(place)
        for target in () if scope is None or cursor.path else yield_targets(scope):
            kind = lsp.CompletionItemKind.Reference
            yield lsp.CompletionItem(label=target.names[0], kind=kind, detail=target.names[-1])

    def _namespaces(self, cursor: Cursor, _place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        """Return namespaces, or the next words behind the written ones."""
        prefix = "".join(f"{word}." for word in cursor.path)
        for name in self._all_namespaces:
            if name.startswith(prefix):
                kind = lsp.CompletionItemKind.Module
                yield lsp.CompletionItem(label=name.removeprefix(prefix), kind=kind, detail=f"namespace {name}")

    # -- values -------------------------------------------------------------------------------------------------------

    def _scope(self, place: tuple[int, int]) -> Scope | None:
        return self._analysis.scope_at(self._source_id, *place)

    def _steps(self, place: tuple[int, int]) -> dict[str, Step]:
        scope = self._scope(place)
        return {} if scope is None else steps_above(scope, *place)

    def _expressions(self, _cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        scope = self._scope(place)
        if scope is None:
            return
        for name, step in self._steps(place).items():
            detail = "step" if step.callee is None else f"step of {step.callee.qualified}"
            yield lsp.CompletionItem(label=name, kind=lsp.CompletionItemKind.Variable, detail=detail)
        for name, slot in inputs(scope).items():
            kind = lsp.CompletionItemKind.Field
            yield lsp.CompletionItem(label=f"$.{name}", kind=kind, detail=_type_name(slot))

    def _inputs(self, cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        scope = self._scope(place)
        if scope is not None:
            yield from self._behind(inputs(scope), cursor.path)

    def _attributes(self, cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        first, rest = cursor.path[0], cursor.path[1:]
        step = self._steps(place).get(first)
        scope = self._scope(place)
        if step is not None:
            yield from self._behind(attributes(step), rest)
        elif scope is not None and (variable := scope.foreach_variable(first)) is not None:
            yield from self._behind(self._analysis.members(variable.type), rest)

    def _behind(self, known: Mapping[str, Slot], path: tuple[str, ...]) -> Iterator[lsp.CompletionItem]:
        """Follow a path, and return the names that may follow its end."""
        for name in path:
            slot = known.get(name)
            known = {} if slot is None else self._analysis.members(slot.type)
        for name, slot in known.items():
            yield lsp.CompletionItem(label=name, kind=lsp.CompletionItemKind.Field, detail=_type_name(slot))

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _arguments(self, cursor: Cursor, place: tuple[int, int]) -> Iterator[lsp.CompletionItem]:
        call = cursor.call
        if call is None:
            return
        slots: Mapping[str, Slot] = {}
        scope = self._scope(place)
        if call.is_yield and scope is not None:
            target = next((item for item in yield_targets(scope) if call.name in item.names), None)
            slots = (target.fields() if target else None) or {}
        elif not call.is_yield:
            callee = self._called(self._analysis.part_at(self._source_id, *place), call.name)
            slots = {} if callee is None else callee.returns if callee.is_schema else callee.params
        for name, slot in slots.items():
            if name not in call.given:
                yield lsp.CompletionItem(
                    label=name,
                    kind=lsp.CompletionItemKind.Property,
                    insert_text=f"{name} = ",
                    detail=_type_name(slot),
                    # Required parameters come first.
                    sort_text=f"{int(slot.has_default)}{name}",
                )


def detailed(analysis: Analysis, item: lsp.CompletionItem, qualified: str) -> lsp.CompletionItem:
    """Return a proposal of a declaration with its signature and its documentation."""
    signature = analysis.symbols.named(qualified)
    if signature is not None:
        item.detail = declared(analysis, signature)
        item.documentation = _markdown(declaration_text(analysis, signature))
    return item


def _is_for(signature: Signature, wanted: Wanted) -> bool:
    """Say whether a declaration is meant for a place: the library has some to call, and others to mix in."""
    return not signature.is_library or (signature.kind is Kind.EVENT_FACET) is not (wanted is Wanted.MIXIN)


def _type_name(slot: Slot) -> str:
    return str(slot.type) if slot.type is not None else "Json"


def _markdown(text: str) -> lsp.MarkupContent:
    return lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=text)
