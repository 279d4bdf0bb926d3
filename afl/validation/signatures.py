"""Declarations as their callers, readers and yields see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from afl import ast
from afl.compiled.names import Kind
from afl.compiled.runtime_mixins import TIMEOUT
from afl.validation.value_types import STRING, ValueType


class Slot(NamedTuple):
    """A parameter, return or field; type None for Json and for an unknown type."""

    type: ValueType | None
    has_default: bool = False
    #: The type could not be found, which has been reported: any value may be given.
    is_broken: bool = False
    #: The place of its declaration.
    place: ast.SourceLocation | None = None


#: Something that exists, or may exist, and is otherwise unknown.
UNKNOWN = Slot(None, has_default=True, is_broken=True)

#: A slot whose type could not be found.
BROKEN = Slot(None, is_broken=True)

#: The known attributes of a failure: of the step itself in its catch, and of `$.error` in the catch of a declaration.
FAILURE = {"error": Slot(STRING), "error_type": Slot(STRING)}


class Answer(NamedTuple):
    """The meaning of a name, and a rule with its facts if there is a finding."""

    signature: Signature | None
    rule: str | None = None
    hint: str | None = None
    facts: Mapping[str, object] = MappingProxyType({})


@dataclass(slots=True, eq=False, repr=False)
class Part:
    """One opening of a namespace, or the top level: it decides how names written there are looked up."""

    namespace: str
    uses: tuple[str, ...]


class Mixin(NamedTuple):
    """A mixin of a signature or call; target None where it is unknown."""

    node: ast.MixinSig | ast.MixinCall
    target: Signature | None

    @property
    def short_name(self) -> str:
        return self.node.name.rpartition(".")[2]

    @property
    def is_runtimes(self) -> bool:
        """Whether the runtime itself acts on it, as on `Timeout` and `Retry` of the library."""
        return self.target is not None and self.target.is_library

    @property
    def configures(self) -> bool:
        """Whether its arguments are values for parameters of the step: those for the runtime are not.

        `Timeout` without its namespace is an exception: its arguments are sent to agents, too.
        """
        return self.node.alias is None and (not self.is_runtimes or self.node.name == TIMEOUT)


@dataclass(slots=True, eq=False, repr=False)
class Signature:
    """A declaration; for a schema the fields are `returns`."""

    qualified: str
    name: str
    kind: Kind
    part: Part
    node: ast.Callable | ast.SchemaDecl
    params: dict[str, Slot] = field(default_factory=dict)
    returns: dict[str, Slot] = field(default_factory=dict)
    mixins: list[Mixin] = field(default_factory=list)
    #: Parameters of a step besides the declared ones: maps of aliased mixins, and values of other mixins.
    extras: dict[str, Slot] = field(default_factory=dict)
    #: The names that the script in front of the blocks sets, and whether it may set others.
    scripted: dict[str, Slot] = field(default_factory=dict)
    is_open: bool = False
    #: Whether it is declared by the library: the runtime answers its steps.
    is_library: bool = False

    @property
    def is_schema(self) -> bool:
        return self.kind is Kind.SCHEMA

    def param(self, name: str) -> Slot | None:
        """Return the slot of `$.name` in the body of this declaration; None if there is none."""
        found = self.scripted.get(name) or self.params.get(name) or self.extras.get(name)
        return UNKNOWN if found is None and self.is_open else found

    def param_names(self) -> list[str]:
        return list({**self.params, **self.extras, **self.scripted})

    def member(self, name: str) -> Slot | None:
        """Return the slot of `.name` for a reference to a step of this facet: a mixin's map, a return, a parameter."""
        return self.extras.get(name) or self.returns.get(name) or self.param(name)

    def member_names(self) -> list[str]:
        return list({**self.returns, **dict.fromkeys(self.param_names())})

    def satisfies(self, wanted: Signature) -> bool:
        """Say whether a step of this facet may stand for one of `wanted`: it is that facet, or mixes it in."""
        seen = {self.qualified}
        open_ends = [self]
        while open_ends:
            facet = open_ends.pop()
            if facet.qualified == wanted.qualified:
                return True
            for mixin in facet.mixins:
                # An unknown mixin, which is reported, may be or have the wanted one.
                if mixin.target is None and mixin.short_name == wanted.name:
                    return True
                if mixin.target is not None and mixin.target.qualified not in seen:
                    seen.add(mixin.target.qualified)
                    open_ends.append(mixin.target)
        return False


def alias_place(node: ast.MixinSig | ast.MixinCall) -> ast.SourceLocation | None:
    """Return the place of the alias, which ends a mixin."""
    place = node.location
    if place is None or place.end_column is None or node.alias is None:
        return place
    return place._replace(line=place.end_line or place.line, column=place.end_column - len(node.alias))


def mixin_extras(mixins: list[Mixin], declared: dict[str, Slot] | None) -> Iterator[tuple[str, Slot]]:
    """Return the names that mixins add to the parameters of a step: maps by their aliases, and undeclared arguments."""
    for mixin in mixins:
        if mixin.node.alias is not None:
            held = None if mixin.target is None else ValueType("Map", facet=mixin.target.qualified)
            yield mixin.node.alias, Slot(held, place=alias_place(mixin.node))
        elif mixin.configures:
            for arg in mixin.node.args:
                if declared is not None and arg.name not in declared:
                    yield arg.name, Slot(None, place=arg.location)
