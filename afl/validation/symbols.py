"""The declared names of a program, with their parameters, returns and fields typed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from afl import ast
from afl.compiled.names import CALLABLE, SCHEMAS, Kind, Names
from afl.compiled.runtime_mixins import RETRY, TIMEOUT
from afl.core.limits import MAX_TOPIC_NAME_CHARS
from afl.core.types import BUILTIN_TYPES
from afl.diagnostics import display_name
from afl.library.declarations import NAMESPACE, PREFIX, SOURCE_ID, library, reaches_library
from afl.validation.findings import Findings, listed, name_place, target_place
from afl.validation.other_languages import type_hint
from afl.validation.scripts import check_script
from afl.validation.signatures import BROKEN, UNKNOWN, Answer, Mixin, Part, Signature, Slot, mixin_extras
from afl.validation.value_types import BY_NAME, ValueType

_KINDS: dict[type, Kind] = {
    ast.FacetDecl: Kind.FACET,
    ast.EventFacetDecl: Kind.EVENT_FACET,
    ast.WorkflowDecl: Kind.WORKFLOW,
    ast.SchemaDecl: Kind.SCHEMA,
}

#: Kafka's limit for the name of a topic, less the default prefix `afl.events.` in front of the facet's name.
MAX_EVENT_NAME_LENGTH = MAX_TOPIC_NAME_CHARS - len("afl.events.")

_BUILTIN_SLOTS = {name: Slot(BY_NAME.get(name)) for name in BUILTIN_TYPES}


class _Answers:
    """The names that were looked up in one part of the program.

    Parts themselves do not hold them. Signatures know their part, and would hold each other and the whole tree beyond
    the end of the compilation, until the collector comes.
    """

    __slots__ = ("callees", "facets", "implicit_params", "types")

    def __init__(self) -> None:
        self.callees: dict[str, Answer] = {}
        self.facets: dict[str, Answer] = {}
        self.types: dict[str, tuple[Slot, Answer]] = {}
        #: Names of the parameters that implicits supply, by the callee's qualified name.
        self.implicit_params: dict[str, frozenset[str]] = {}


class Symbols:
    """All declarations of a program."""

    def __init__(self, program: ast.Program, findings: Findings) -> None:
        self._findings = findings
        self._names = Names()
        self._known_names: dict[frozenset[Kind], list[str]] = {}
        self._answers: dict[Part, _Answers] = defaultdict(_Answers)
        #: The signature of each qualified name, as callers see it.
        self.by_name: dict[str, Signature] = {}
        #: Every declaration, duplicates included.
        self.all: list[Signature] = []
        #: Every implicit, with the part of the program around it.
        self.implicits: list[tuple[ast.ImplicitDecl, Part]] = []
        self._has_library = False
        self._declare_all(program)
        for signature in self.all:
            self._type(signature)
        self._merge_duplicates()
        for signature in self.all:
            self._add_extras(signature)
        #: By the target's qualified name: the parameters that each of its implicits supplies, and its place.
        self._supplies: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for implicit, part in self.implicits:
            target = self.facet(part, implicit.call.name)
            if target is not None:
                names = frozenset(arg.name for arg in implicit.call.args)
                self._supplies.setdefault(target.qualified, []).append((part.namespace, names))
        self._check_event_names()

    # -- looking up ---------------------------------------------------------------------------------------------------

    def callee(self, part: Part, call: ast.CallExpr) -> Signature | None:
        """Return the facet or schema that a call calls; reports names that are unknown or ambiguous."""
        callees = self._answers[part].callees
        known = callees.get(call.name)
        if known is None:
            known = callees[call.name] = self._look_up_callee(part, call.name)
        if known.rule is not None:
            self._findings.report(known.rule, target_place(call), hint=known.hint, **known.facts)
        return known.signature

    def known_callees(self, part: Part) -> Mapping[str, Answer]:
        """Return what `callee` has found for each name that a part of the program calls."""
        return self._answers[part].callees

    def facet(self, part: Part, name: str) -> Signature | None:
        """Return the facet that a mixin or implicit means; reports nothing about unknown names."""
        return self._facet(part, name).signature

    def report_facet(self, part: Part, node: ast.MixinSig | ast.MixinCall | ast.CallExpr) -> None:
        """Report the target of a mixin or implicit if it is unknown or ambiguous."""
        known = self._facet(part, node.name)
        if known.rule is not None:
            self._findings.report(known.rule, target_place(node), hint=known.hint, **known.facts)

    def mixins(self, part: Part, nodes: Sequence[ast.MixinSig | ast.MixinCall]) -> list[Mixin]:
        return [Mixin(node, self.facet(part, node.name)) for node in nodes]

    def named(self, qualified: str) -> Signature | None:
        """Return the declaration that the type of a value names."""
        return self.by_name.get(qualified)

    def implicit_params(self, part: Part, callee: Signature) -> frozenset[str]:
        """Return the parameters that an implicit supplies to calls of a facet from a part of the program.

        One implicit counts: the first of the caller's namespace, the callee's, the imported ones, the top level, or
        else of all.
        """
        supplies = self._supplies.get(callee.qualified)
        if not supplies:
            return frozenset()
        implicit_params = self._answers[part].implicit_params
        found = implicit_params.get(callee.qualified)
        if found is None:
            order = {name: -number for number, name in enumerate(["", *reversed(part.uses), callee.part.namespace])}
            order[part.namespace] = -len(order) - 1
            found = min(supplies, key=lambda item: order.get(item[0], 1))[1]
            implicit_params[callee.qualified] = found
        return found

    def _facet(self, part: Part, name: str) -> Answer:
        facets = self._answers[part].facets
        known = facets.get(name)
        if known is None:
            known = self._look_up_facet(part, name)
            if known is None and name in (TIMEOUT, RETRY):
                # The runtime's, where the program declares none.
                self.declare_library()
                known = Answer(self.by_name[PREFIX + name])
            elif known is None:
                known = self._unknown(name, CALLABLE)
            facets[name] = known
        return known

    def _look_up_callee(self, part: Part, name: str) -> Answer:
        found = self._look_up_facet(part, name)
        if found is not None:
            return found
        schema = self._names.resolve(name, part.namespace, part.uses, SCHEMAS)
        if schema.candidates:
            return Answer(None, "REF_AMBIGUOUS_SCHEMA", None, {"name": name, "candidates": listed(schema.candidates)})
        if schema.found is not None:
            return Answer(self.by_name[schema.found])
        return self._unknown(name, CALLABLE | SCHEMAS)

    def _look_up_facet(self, part: Part, name: str) -> Answer | None:
        if reaches_library(name, part.namespace, part.uses):
            self.declare_library()
        found = self._names.resolve(name, part.namespace, part.uses, CALLABLE)
        if found.candidates:
            return Answer(None, "REF_AMBIGUOUS_FACET", None, {"name": name, "candidates": listed(found.candidates)})
        if found.found is None:
            return None
        if found.namesakes:
            facts = {"name": name, "found": found.found}
            return Answer(self.by_name[found.found], "REF_AMBIGUOUS_FACET namesakes", None, facts)
        return Answer(self.by_name[found.found])

    def _unknown(self, name: str, kinds: frozenset[Kind]) -> Answer:
        hint = self._findings.did_you_mean(name, self._known(kinds))
        if hint is None and name in library():
            hint = f"the library has one: write {PREFIX}{name}"
        return Answer(None, "REF_UNKNOWN_FACET" if "." in name else "REF_UNKNOWN_FACET short", hint, {"name": name})

    def _known(self, kinds: frozenset[Kind]) -> list[str]:
        """Return the declared names of some kinds, for suggestions; computed once for each set of kinds."""
        found = self._known_names.get(kinds)
        if found is None:
            found = self._known_names[kinds] = self._names.all(kinds)
        return found

    # -- declaring ----------------------------------------------------------------------------------------------------

    def _declare_all(self, program: ast.Program) -> None:
        namespaces = list(dict.fromkeys(namespace.name for namespace in program.namespaces))
        known = frozenset([*namespaces, NAMESPACE])
        top = Part("", ())
        self.implicits.extend((implicit, top) for implicit in program.implicits)
        for declaration in _declarations(program):
            self._declare(declaration, top)
        for namespace in program.namespaces:
            for use in namespace.uses:
                if use.name not in known:
                    hint = self._findings.did_you_mean(use.name, namespaces)
                    self._findings.report("USE_UNKNOWN_NAMESPACE", use.location, hint=hint, name=use.name)
            part = Part(namespace.name, tuple(use.name for use in namespace.uses))
            self.implicits.extend((implicit, part) for implicit in namespace.implicits)
            for declaration in _declarations(namespace):
                self._declare(declaration, part)

    def _declare(self, node: ast.Callable | ast.SchemaDecl, part: Part) -> None:
        kind = _KINDS[type(node)]
        name = node.name if isinstance(node, ast.SchemaDecl) else node.sig.name
        place = node.location if isinstance(node, ast.SchemaDecl) else name_place(node.sig.location, name)
        qualified = f"{part.namespace}.{name}" if part.namespace else name
        signature = Signature(qualified, name, kind, part, node)
        self.all.append(signature)
        if part.namespace == NAMESPACE:
            self.declare_library()
        first = self.by_name.setdefault(qualified, signature)
        if first.is_library:
            if node.location is None or node.location.source_id != SOURCE_ID:
                self._findings.report("LIBRARY_NAME", place, name=qualified)
        elif first is not signature:
            where = _where(first.node.location, place)
            self._findings.report("DUPLICATE_NAME", place, kind=kind, name=name, first=first.kind, where=where)
        else:
            self._names.add(part.namespace, name, kind)
        if not part.namespace and kind is Kind.SCHEMA:
            self._findings.report("SCHEMA_AT_TOP_LEVEL", place, name=name)
        if not part.namespace and kind is Kind.WORKFLOW:
            self._findings.report("WORKFLOW_AT_TOP_LEVEL", place, name=name)

    def declare_library(self) -> None:
        """Declare the names of the library, which are found in their namespace only: most programs use none of them."""
        if self._has_library:
            return
        self._has_library = True
        part = Part(NAMESPACE, ())
        for name, node in library().items():
            signature = Signature(PREFIX + name, name, _KINDS[type(node)], part, node, is_library=True)
            self.by_name[signature.qualified] = signature
            self._names.add(NAMESPACE, name, signature.kind, is_library=True)
            self._type(signature)

    def _type(self, signature: Signature) -> None:
        node, part = signature.node, signature.part
        if isinstance(node, ast.SchemaDecl):
            for item in node.fields:
                slot = _placed(self._slot(part, item.type), item)
                if item.name in signature.returns:
                    place = name_place(item.location, item.name)
                    self._findings.report("DUPLICATE_NAME field", place, name=item.name, schema=node.name)
                    slot = UNKNOWN
                signature.returns[item.name] = slot
            return
        self._slots(signature, node.sig.params, signature.params, "parameter")
        if node.sig.returns is not None:
            self._slots(signature, node.sig.returns.params, signature.returns, "return")

    def _slots(self, owner: Signature, items: Sequence[ast.Parameter], slots: dict[str, Slot], what: str) -> None:
        for item in items:
            slot = self._slot(owner.part, item.type)
            if item.name in slots:
                place = name_place(item.location, item.name)
                self._findings.report("DUPLICATE_PARAM", place, what=what, name=item.name)
                slots[item.name] = UNKNOWN
            else:
                slots[item.name] = _placed(slot, item)

    def _merge_duplicates(self) -> None:
        """Merge the declarations of a duplicate name, so that callers see the slots of both: either may be meant."""
        for signature in self.all:
            first = self.by_name[signature.qualified]
            if first is signature or first.is_library:
                continue
            merged = Signature(first.qualified, first.name, first.kind, first.part, first.node)
            if first.is_schema is not signature.is_schema:
                merged.kind = Kind.FACET
            merged.params = dict.fromkeys([*first.params, *signature.params], UNKNOWN)
            merged.returns = dict.fromkeys([*first.returns, *signature.returns], UNKNOWN)
            if not first.returns or not signature.returns or first.is_schema is not signature.is_schema:
                merged.params = merged.returns = {**merged.params, **merged.returns}
            self.by_name[signature.qualified] = merged

    def _add_extras(self, signature: Signature) -> None:
        node = signature.node
        if isinstance(node, ast.SchemaDecl):
            return
        if node.sig.mixins:
            signature.mixins = self.mixins(signature.part, node.sig.mixins)
            signature.extras = dict(mixin_extras(signature.mixins, signature.params))
        if node.pre_script is not None:
            names, signature.is_open = check_script(node.pre_script, self._findings)
            signature.scripted = dict.fromkeys(names, Slot(None, place=node.pre_script.location))
        seen = self.by_name[signature.qualified]
        if seen is not signature and not seen.is_library:
            seen.mixins.extend(signature.mixins)
            seen.extras.update(signature.extras)
            seen.scripted.update(signature.scripted)
            seen.is_open |= signature.is_open

    # -- types --------------------------------------------------------------------------------------------------------

    def _slot(self, part: Part, written: ast.Type) -> Slot:
        """Return a slot of a type as it is written; reports names that are unknown or ambiguous."""
        if isinstance(written, ast.ArrayType):
            element = self._slot(part, written.element_type)
            return Slot(ValueType("Array", element.type), is_broken=element.is_broken)
        builtin = _BUILTIN_SLOTS.get(written.name)
        if builtin is not None:
            return builtin
        types = self._answers[part].types
        known = types.get(written.name)
        if known is None:
            known = types[written.name] = self._look_up_type(part, written.name)
        slot, answer = known
        if answer.rule is not None:
            self._findings.report(answer.rule, written.location, hint=answer.hint, **answer.facts)
        return slot

    def _look_up_type(self, part: Part, name: str) -> tuple[Slot, Answer]:
        facet = self._look_up_facet(part, name)
        if facet is not None:
            found = facet.signature
            return (BROKEN if found is None else Slot(ValueType("step", facet=found.qualified))), facet
        schema = self._names.resolve(name, part.namespace, part.uses, SCHEMAS)
        if schema.found is not None:
            return Slot(ValueType("schema", schema=schema.found)), Answer(None)
        if schema.candidates:
            facts = {"name": name, "candidates": listed(schema.candidates)}
            return BROKEN, Answer(None, "REF_AMBIGUOUS_SCHEMA", None, facts)
        near = type_hint(name) or self._findings.did_you_mean(name, self._known(CALLABLE | SCHEMAS))
        rule = "REF_UNKNOWN_SCHEMA" if "." in name else "REF_UNKNOWN_TYPE"
        return BROKEN, Answer(None, rule, near, {"name": name})

    def _check_event_names(self) -> None:
        """Find event facets whose names are invalid as names of Kafka topics, or collide as such."""
        folded: dict[str, Signature] = {}
        for signature in self.by_name.values():
            if signature.kind is not Kind.EVENT_FACET or signature.is_library:
                continue
            assert not isinstance(signature.node, ast.SchemaDecl)
            place = name_place(signature.node.sig.location, signature.name)
            if len(signature.qualified) > MAX_EVENT_NAME_LENGTH:
                length = len(signature.qualified)
                self._findings.report("EVENT_NAME_TOO_LONG", place, length=length, limit=MAX_EVENT_NAME_LENGTH)
            other = folded.setdefault(signature.qualified.replace(".", "_"), signature)
            if other is not signature:
                self._findings.report("EVENT_NAME_CLASH", place, name=signature.qualified, other=other.qualified)


def _placed(slot: Slot, item: ast.Parameter | ast.SchemaField) -> Slot:
    """Return the slot of a type as that of one parameter, return or field."""
    has_default = isinstance(item, ast.Parameter) and item.default is not None
    return Slot(slot.type, has_default, slot.is_broken, item.location)


def _where(first: ast.SourceLocation | None, second: ast.SourceLocation | None) -> str:
    """Return where a name was declared first, for a message about the second declaration."""
    if first is None:
        return "elsewhere"
    if second is None or first.source_id == second.source_id:
        return f"on line {first.line}"
    return f"on line {first.line} of {display_name(first.source_id)}"


def _declarations(owner: ast.Program | ast.Namespace) -> Iterator[ast.Callable | ast.SchemaDecl]:
    """Return the declarations of a program's top level or of a namespace, in source order."""
    items: list[ast.Callable | ast.SchemaDecl] = [
        *owner.facets,
        *owner.event_facets,
        *owner.workflows,
        *owner.schemas,
    ]
    if isinstance(owner, ast.Namespace):
        # The tree keeps the kinds apart; the text decides which of two declarations of a name is first.
        items.sort(key=lambda item: item.location[:2] if item.location else (0, 0))
    return iter(items)
