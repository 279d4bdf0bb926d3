"""Declarations of generated programs, and the names that are visible at a place in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.fuzzing.expressions import ANY, OTHER, Reference, Tokens, references


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter, return or field: its type's tokens, and what is known of its values."""

    name: str
    type: Tokens
    kind: str


@dataclass(slots=True, kw_only=True, eq=False)
class Signature:
    """A declaration as its users see it."""

    kind: str
    namespace: tuple[str, ...]
    name: str
    params: list[Slot]
    returns: list[Slot] | None
    #: Aliases of mixins, and which signatures they stand for.
    aliases: dict[str, "Signature"] = field(default_factory=dict)
    #: Names that mixins without alias give, too.
    extras: set[str] = field(default_factory=set)
    mixin_tokens: Tokens = field(default_factory=list)
    is_written: bool = False

    def written(self, *, qualified: bool) -> Tokens:
        """Its name in a program."""
        tokens: Tokens = []
        for part in self.namespace if qualified else ():
            tokens += [part, "."]
        return [*tokens, self.name]

    def attributes(self) -> dict[str, str]:
        """Return what a reference to a step may read: returns where there are some, else params."""
        return {slot.name: slot.kind for slot in self.returns or self.params}

    def inputs(self) -> dict[str, str]:
        """Return what `$` has in the body of a step."""
        known = {slot.name: slot.kind for slot in [*self.params, *(self.returns or [])]}
        return dict.fromkeys([*self.extras, *self.aliases], OTHER) | known


@dataclass(frozen=True, slots=True)
class Scope:
    """What can be read at a place, and who may be yielded to."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, Signature] = field(default_factory=dict)
    loop_variables: tuple[str, ...] = ()
    targets: tuple[Signature, ...] = ()
    depth: int = 0
    extra: tuple[Reference, ...] = ()

    def readable(self) -> list[Reference]:
        found = references(["$"], self.inputs)
        for name, signature in self.steps.items():
            found += references([name], signature.attributes())
        for name in self.loop_variables:
            # A step of the same name comes first.
            if name not in self.steps:
                found.append(Reference((name,), ANY))
                found.append(Reference((name, ".", "deep"), ANY))
        return [*found, *self.extra]

    def with_inputs(self, names: Mapping[str, str]) -> "Scope":
        hidden = tuple(v for v in self.loop_variables if v not in names)
        return replace(self, inputs={**self.inputs, **names}, loop_variables=hidden)

    def with_step(self, name: str, signature: Signature) -> "Scope":
        return replace(self, steps={**self.steps, name: signature})

    def deeper(self, extra: Sequence[Reference] = ()) -> "Scope":
        return replace(self, depth=self.depth + 1, extra=(*self.extra, *extra))
