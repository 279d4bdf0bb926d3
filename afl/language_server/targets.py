"""The thing that a name in a text stands for: a declaration, a slot of one, a step, a loop variable, a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from afl.ast import SourceLocation
from afl.validation.signatures import Signature
from afl.validation.value_types import ValueType


class TargetKind(StrEnum):
    """The kinds of things that a name stands for."""

    DECLARATION = "declaration"
    #: A parameter, return, field or alias of a mixin.
    SLOT = "slot"
    STEP = "step"
    VARIABLE = "variable"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A named thing; `places` are the places of its name in its declaration, several for a namespace.

    `signature` is the signature of the declaration, or for a step that of the called one, if known.
    """

    kind: TargetKind
    name: str
    places: tuple[SourceLocation, ...]
    signature: Signature | None = None
    type: ValueType | None = None

    def is_same(self, other: Target) -> bool:
        """Say whether both are the same thing, even in different versions of the program."""
        if self.kind is TargetKind.NAMESPACE or not self.places or not other.places:
            return self.kind is other.kind and self.name == other.name
        return (self.kind, self.name, self.places[0]) == (other.kind, other.name, other.places[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A name at a place, and the thing that it stands for."""

    place: SourceLocation
    target: Target
