"""The declared names of a program, with their parameters, returns and fields typed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from afl import ast
from afl.compiled import CALLABLE, SCHEMAS, Kind, Names, Resolution
from afl.validation.findings import Findings, listed, name_place
from afl.validation.value_types import BUILTINS, BY_NAME, ValueType

_KINDS: dict[type, Kind] = {
    ast.FacetDecl: Kind.FACET,
    ast.EventFacetDecl: Kind.EVENT_FACET,
    ast.WorkflowDecl: Kind.WORKFLOW,
    ast.SchemaDecl: Kind.SCHEMA,
}

#: Kafka's limit for the name of a topic, less the default prefix `afl.events.` in front of the facet's name.
MAX_EVENT_NAME_LENGTH = 249 - len("afl.events.")


class Slot(NamedTuple):
    """A parameter, return or field."""

    type: ValueType | None
    has_default: bool = False


@dataclass(slots=True)
class Part:
    """One opening of a namespace, or the top level: how names written there are looked up."""

    namespace: str
    uses: tuple[str, ...]
    callees: dict[str, tuple[Signature | None, str | None, dict[str, object]]] = field(default_factory=dict)


@dataclass(slots=True)
class Signature:
    """A declaration as its callers see it; for a schema the fields are `returns`."""

    qualified: str
    name: str
    kind: Kind
    part: Part
    node: ast.Callable | ast.SchemaDecl
    params: dict[str, Slot] = field(default_factory=dict)
    returns: dict[str, Slot] = field(default_factory=dict)

    @property
    def is_schema(self) -> bool:
        return self.kind is Kind.SCHEMA

    def readable(self) -> dict[str, Slot]:
        """Return what `step.x` may read: the returns if there are any, else the parameters."""
        return self.returns or self.params

    def attributes(self) -> dict[str, Slot]:
        """Return what `$.x` may read in the body of a step that calls this: parameters, and returns over them."""
        return {**self.params, **self.returns}


class Symbols:
    """All declarations of a program."""

    def __init__(self, program: ast.Program, findings: Findings) -> None:
        self._findings = findings
        self._names = Names()
        #: First declaration of each qualified name.
        self.by_name: dict[str, Signature] = {}
        #: Every declaration, duplicates included, in source order.
        self.all: list[Signature] = []
        namespaces = {namespace.name for namespace in program.namespaces}
        top = Part("", ())
        for declaration in _declarations(program):
            self._declare(declaration, top)
        for namespace in program.namespaces:
            for use in namespace.uses:
                if use.name not in namespaces:
                    findings.report("USE_UNKNOWN_NAMESPACE", use.location, name=use.name)
            part = Part(namespace.name, tuple(use.name for use in namespace.uses))
            for declaration in _declarations(namespace):
                self._declare(declaration, part)
        for signature in self.all:
            self._type(signature)
        self._check_event_names()

    def callee(self, part: Part, call: ast.CallExpr) -> Signature | None:
        """Return what a call calls; reports names that are unknown or ambiguous."""
        known = part.callees.get(call.name)
        if known is None:
            known = part.callees[call.name] = self._look_up_callee(part, call.name)
        signature, rule, facts = known
        if rule is not None:
            self._findings.report(rule, name_place(call.location, call.name), **facts)
        return signature

    def field_type(self, schema: ValueType, name: str) -> Slot | None:
        """Return the field of a schema-typed value, or None."""
        return self.by_name[schema.schema].returns.get(name)

    def _look_up_callee(self, part: Part, name: str) -> tuple[Signature | None, str | None, dict[str, object]]:
        found = self._resolve(part, name, CALLABLE)
        facts: dict[str, object] = {"name": name, "candidates": listed(found.candidates)}
        if found.candidates:
            return None, "REF_AMBIGUOUS_FACET", facts
        if found.found is not None:
            if not found.namesakes:
                return self.by_name[found.found], None, {}
            facts["found"] = found.found
            return self.by_name[found.found], "REF_AMBIGUOUS_FACET namesakes", facts
        found = self._resolve(part, name, SCHEMAS)
        if found.candidates:
            return None, "REF_AMBIGUOUS_SCHEMA", {"name": name, "candidates": listed(found.candidates)}
        if found.found is not None:
            return self.by_name[found.found], None, {}
        near = self._names.near(name, CALLABLE | SCHEMAS)
        facts["near"] = f"; did you mean {' or '.join(near)}?" if near else ""
        return None, "REF_UNKNOWN_FACET" if "." in name else "REF_UNKNOWN_FACET short", facts

    def _resolve(self, part: Part, name: str, kinds: frozenset[Kind]) -> Resolution:
        return self._names.resolve(name, part.namespace, part.uses, kinds)

    # -- declaring ----------------------------------------------------------------------------------------------------

    def _declare(self, node: ast.Callable | ast.SchemaDecl, part: Part) -> None:
        kind = _KINDS[type(node)]
        name = node.name if isinstance(node, ast.SchemaDecl) else node.sig.name
        place = node.location if isinstance(node, ast.SchemaDecl) else name_place(node.sig.location, name)
        qualified = f"{part.namespace}.{name}" if part.namespace else name
        signature = Signature(qualified, name, kind, part, node)
        self.all.append(signature)
        first = self.by_name.setdefault(qualified, signature)
        if first is not signature:
            known = first.node.location
            line = known.line if known else 0
            self._findings.report("DUPLICATE_NAME", place, kind=kind, name=name, first=first.kind, line=line)
        else:
            self._names.add(part.namespace, name, kind)
        if not part.namespace and kind is Kind.SCHEMA:
            self._findings.report("SCHEMA_AT_TOP_LEVEL", place, name=name)
        if not part.namespace and kind is Kind.WORKFLOW:
            self._findings.report("WORKFLOW_AT_TOP_LEVEL", place, name=name)

    def _type(self, signature: Signature) -> None:
        node, part = signature.node, signature.part
        if isinstance(node, ast.SchemaDecl):
            for item in node.fields:
                if item.name in signature.returns:
                    place = name_place(item.location, item.name)
                    self._findings.report("DUPLICATE_NAME field", place, name=item.name, schema=node.name)
                signature.returns[item.name] = Slot(self._value_type(part, item.type))
            return
        self._slots(signature, node.sig.params, signature.params, "parameter")
        if node.sig.returns is not None:
            self._slots(signature, node.sig.returns.params, signature.returns, "return")

    def _slots(self, owner: Signature, items: Sequence[ast.Parameter], slots: dict[str, Slot], what: str) -> None:
        for item in items:
            if item.name in slots:
                place = name_place(item.location, item.name)
                self._findings.report("DUPLICATE_PARAM", place, what=what, name=item.name)
            slots[item.name] = Slot(self._value_type(owner.part, item.type), item.default is not None)

    def _value_type(self, part: Part, written: ast.Type) -> ValueType | None:
        if isinstance(written, ast.ArrayType):
            return ValueType("Array", self._value_type(part, written.element_type))
        name = written.name
        if name in BUILTINS:
            return BY_NAME.get(name)
        facet = self._resolve(part, name, CALLABLE)
        if facet.found is not None or facet.candidates:
            self._findings.report("NOT_AVAILABLE step type", written.location, name=name)
            return None
        found = self._resolve(part, name, SCHEMAS)
        if found.found is not None:
            return ValueType("schema", schema=found.found)
        if found.candidates:
            candidates = listed(found.candidates)
            self._findings.report("REF_AMBIGUOUS_SCHEMA", written.location, name=name, candidates=candidates)
        else:
            near = self._names.near(name, SCHEMAS)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            rule = "REF_UNKNOWN_SCHEMA" if "." in name else "REF_UNKNOWN_TYPE"
            self._findings.report(rule, written.location, name=name, near=hint)
        return None

    def _check_event_names(self) -> None:
        """Find event facets whose names cannot be, or are not told apart as, names of Kafka topics."""
        folded: dict[str, Signature] = {}
        for signature in self.by_name.values():
            if signature.kind is not Kind.EVENT_FACET:
                continue
            assert not isinstance(signature.node, ast.SchemaDecl)
            place = name_place(signature.node.sig.location, signature.name)
            if len(signature.qualified) > MAX_EVENT_NAME_LENGTH:
                length = len(signature.qualified)
                self._findings.report("EVENT_NAME_TOO_LONG", place, length=length, limit=MAX_EVENT_NAME_LENGTH)
            other = folded.setdefault(signature.qualified.replace(".", "_"), signature)
            if other is not signature:
                self._findings.report("EVENT_NAME_CLASH", place, name=signature.qualified, other=other.qualified)


def _declarations(owner: ast.Program | ast.Namespace) -> Iterator[ast.Callable | ast.SchemaDecl]:
    """Return the declarations of a program's top level or of a namespace, in source order."""
    items: list[ast.Callable | ast.SchemaDecl] = [
        *owner.facets,
        *owner.event_facets,
        *owner.workflows,
        *owner.schemas,
    ]
    if isinstance(owner, ast.Namespace):
        # The kinds are kept apart in the tree; which of two namesakes came first is a matter of the text.
        items.sort(key=lambda item: item.location[:2] if item.location else (0, 0))
    return iter(items)
