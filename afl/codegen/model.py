"""What code is made of: the event facets and schemas of a program, with types, comments and marks, for any language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, TypeAlias

from afl.compiled.program import CompiledProgram, Declaration, Node
from afl.compiled.sensitive import sensitive_marks
from afl.core.frozen import frozen
from afl.core.limits import EXACT_IN_DOUBLE
from afl.core.types import BUILTIN_TYPES


@frozen
class Builtin:
    """String, Int, Long, Double, Boolean or Json."""

    name: str


@frozen
class ListOf:
    """An array."""

    element: Type


@frozen
class SchemaType:
    """A schema, by its qualified name."""

    name: str


@dataclass(frozen=True, slots=True)
class MapType:
    """A map of any values: what a step reference, and a mixin with an alias, are in a payload."""


Type: TypeAlias = "Builtin | ListOf | SchemaType | MapType"


@frozen
class Constant:
    """The value of a default that is a constant: a scalar, or null."""

    value: str | int | float | bool | None


@frozen
class Slot:
    """A parameter, a return or a field."""

    _: KW_ONLY
    name: str
    type: Type
    doc: str = ""
    is_sensitive: bool = False
    #: Whether code has to expect null here.
    may_be_null: bool = False
    #: Whether it may be left out: of a result, because something else gives it; of a payload, because it is a mixin's.
    is_optional: bool = False
    default: Constant | None = None


@frozen
class SchemaModel:
    """A schema."""

    _: KW_ONLY
    name: str
    doc: str
    fields: tuple[Slot, ...]


@frozen
class FacetModel:
    """An event facet."""

    _: KW_ONLY
    name: str
    doc: str
    params: tuple[Slot, ...]
    #: None: it declares none, and takes any result.
    returns: tuple[Slot, ...] | None


@frozen
class Model:
    """The declarations of a program that code is made of, in the order of the sources."""

    _: KW_ONLY
    schemas: tuple[SchemaModel, ...]
    facets: tuple[FacetModel, ...]
    #: The names of the files, without their folders.
    sources: tuple[str, ...]


def model_of(program: CompiledProgram, sources: Sequence[str] = (), *, nullable: bool = False) -> Model:
    """Return what code is made of. With `nullable` every value may be null, which is what AFL itself says."""
    return _Reader(program, nullable).model(sources)


_DOUBLE: Final = Builtin("Double")


class _Reader:
    """Reads the declarations of one program."""

    def __init__(self, program: CompiledProgram, nullable: bool) -> None:
        self._program = program
        self._nullable = nullable
        self._marks = sensitive_marks(program)

    def model(self, sources: Sequence[str]) -> Model:
        schemas = [self._schema(found) for found in self._program.schemas().values() if not found.is_library]
        facets = [self._facet(found) for found in self._program.event_facets()]
        return Model(schemas=tuple(schemas), facets=tuple(facets), sources=tuple(sources))

    def _schema(self, found: Declaration) -> SchemaModel:
        doc, marked = _doc(found), self._marks.params_of(found.qualified_name)
        said = {**doc.get("returns", {}), **doc.get("params", {})}
        fields = [self._slot(found, node, said, node["name"] in marked) for node in found.fields]
        return SchemaModel(name=found.qualified_name, doc=doc["description"], fields=tuple(fields))

    def _facet(self, found: Declaration) -> FacetModel:
        doc, name = _doc(found), found.qualified_name
        taken, given = self._marks.params_of(name), self._marks.returns_of(name)
        params = [self._slot(found, node, doc["params"], node["name"] in taken) for node in found.params]
        params += [
            Slot(name=str(mixin["alias"]), type=MapType(), may_be_null=True, is_optional=True)
            for mixin in found.mixins
            if mixin.get("alias")
        ]
        elsewhere = _given_elsewhere(found)
        returns = [
            self._slot(
                found,
                node,
                doc["returns"],
                node["name"] in given,
                is_optional="default" in node or elsewhere is None or node["name"] in elsewhere,
            )
            for node in found.returns
        ]
        return FacetModel(
            name=name, doc=doc["description"], params=tuple(params), returns=tuple(returns) if returns else None
        )

    def _slot(
        self, found: Declaration, node: Node, said: Mapping[str, str], is_sensitive: bool, *, is_optional: bool = False
    ) -> Slot:
        name, of = str(node["name"]), self._type(found, node.get("type"))
        default = _constant(node["default"], of) if "default" in node else None
        is_null = default is not None and default.value is None
        return Slot(
            name=name,
            type=of,
            doc=said.get(name, ""),
            is_sensitive=is_sensitive,
            may_be_null=self._nullable or is_null or is_optional,
            is_optional=is_optional,
            default=default,
        )

    def _type(self, found: Declaration, written: object) -> Type:
        if isinstance(written, Mapping):
            return ListOf(self._type(found, written.get("elementType")))
        if written in BUILTIN_TYPES:
            return Builtin(str(written))
        qualified = str(self._program.qualified_type(found, written))
        return SchemaType(qualified) if qualified in self._program.schemas() else MapType()


def _doc(found: Declaration) -> dict[str, Any]:
    """Return the doc comment of a declaration: its description, and what its tags say by name."""
    doc = found.node.get("doc") or {}
    said = {kind: {one["name"]: one["description"] for one in doc.get(kind) or ()} for kind in ("params", "returns")}
    return {"description": doc.get("description") or "", **said}


def _given_elsewhere(found: Declaration) -> set[str] | None:
    """Return the returns that yields in a facet's body may give; None where a script may give any."""
    if found.pre_script is not None:
        return None
    names: set[str] = set()
    for node in _nodes([*found.blocks, found.node.get("catch")]):
        if node.get("type") == "ScriptBlock":
            return None
        if node.get("type") == "YieldStmt":
            names.update(str(argument.get("name")) for argument in node["call"].get("args") or ())
    return names


def _nodes(tree: object) -> Iterator[Node]:
    pending = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            yield one
            pending += one.values()
        elif isinstance(one, list | tuple):
            pending += one


def _constant(node: Node, of: Type) -> Constant | None:
    """Return a default that is a constant of its type; None for any other, which the runtime computes."""
    if node.get("type") == "Null":
        return Constant(None)
    if node.get("type") == "UnaryExpr" and node.get("operator") == "-":
        inner = _constant(node["operand"], of)
        if inner is None or isinstance(inner.value, str | bool | None):
            return None
        return Constant(-inner.value)
    value = node.get("value")
    kinds: dict[str, type] = {"String": str, "Int": int, "Long": int, "Double": float, "Boolean": bool}
    if not isinstance(of, Builtin) or of.name not in kinds:
        return None
    if of == _DOUBLE and type(value) is int and abs(value) <= EXACT_IN_DOUBLE:
        return Constant(float(value))
    return Constant(value) if type(value) is kinds[of.name] else None  # type: ignore[arg-type]  # one of them, as said
