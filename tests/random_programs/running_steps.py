"""The interpreter's steps: their attributes, and what becomes of the yields that they receive."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.random_programs.declarations import Declaration
from tests.random_programs.expressions import REFERENCE, UNKNOWN, Failure, Names, Undecided, Value, failure


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """A step: its attributes, its mixin sub-steps, and the yields that it will capture, in merge order."""

    declaration: Declaration
    params: dict[str, Value] = field(default_factory=dict)
    returns: dict[str, Value] = field(default_factory=dict)
    #: By alias of the signature.
    mixins: dict[str, "Step"] = field(default_factory=dict)
    mixin_arguments: dict[str, dict[str, Value]] = field(default_factory=dict)
    #: What mixins of the call give under aliases of the signature.
    given_by_call: dict[str, dict[str, Value]] = field(default_factory=dict)
    #: What the script in front of the blocks gave.
    script_entries: dict[str, Value] = field(default_factory=dict)
    #: Values, each with the alias of the mixin that they are for; "" is the step itself.
    captured: list[tuple[str, Mapping[str, Value]]] = field(default_factory=list)
    #: Values came from inside of something that failed: whether they count is not settled.
    is_unsettled: bool = False

    @property
    def is_schema(self) -> bool:
        return bool(self.declaration.node["type"] == "SchemaDecl")

    def attributes(self) -> dict[str, Value]:
        """Return what readers of the step see: returns over params."""
        return self.params | self.returns

    def member(self, name: str) -> Value:
        """Return what a reference to the step reads: first its mixins, which are steps in turn."""
        if name in self.mixins:
            mixin: Any = self.mixins[name]
            return mixin  # type: ignore[no-any-return]  # a step is a value here
        if name in self.attributes():
            return self.attributes()[name]
        raise failure(REFERENCE, f"no {name}")

    def place_for(self, target: str) -> str | None:
        """For whom the values of a yield to `target` are: "" for the step, an alias, or None when not for it at all."""
        if target == self.declaration.name:
            return ""
        called = [m for m in self.declaration.mixins if m["target"].rpartition(".")[2] == target]
        if any(m.get("alias") == target for m in self.declaration.mixins):
            return target
        return str(called[0].get("alias", "")) if len(called) == 1 else None

    def receive(self, target: str, values: Mapping[str, Value]) -> None:
        """Keep a yield's values until the capture. A plain mixin's count where they are returns of the step."""
        place = self.place_for(target)
        assert place is not None
        if not place and target != self.declaration.name:
            declared = {slot["name"] for slot in self.declaration.returns}
            values = {name: value for name, value in values.items() if name in declared}
        self.captured.append((place, values))

    def capture(self) -> None:
        """Merge the yields: the first value sets its field, arrays are joined, anything else is replaced."""
        if self.is_unsettled:
            raise Undecided
        merged: dict[str, dict[str, Value]] = {}
        for place, values in self.captured:
            fields = merged.setdefault(place, {})
            for name, value in values.items():
                before = fields.get(name)
                fields[name] = before + value if isinstance(before, list) and isinstance(value, list) else value
        for place, fields in merged.items():
            if not place:
                self.returns.update(fields)
            elif place in self.mixins:
                self.mixins[place].returns.update(fields)
                self.params[place] = dict(self.mixins[place].attributes())
            else:
                raise Undecided

    def forget(self, *, also_params: bool) -> None:
        """Note a failure half way: it is unknown which of its params, and mixins, have got their values."""
        names = [str(mixin["alias"]) for mixin in self.declaration.mixins if "alias" in mixin]
        if also_params:
            names += [slot["name"] for slot in self.declaration.params]
            self.params = {}
        self.params.update(dict.fromkeys(names, UNKNOWN))


class FailedStep:
    """A step as its own catch sees it."""

    is_schema = False

    def __init__(self, step: Step, error: Failure) -> None:
        self._step = step
        self._error = error_attributes(error)

    def attributes(self) -> dict[str, Value]:
        return self._step.attributes() | self._error

    def member(self, name: str) -> Value:
        raise Undecided


def error_attributes(error: Failure) -> dict[str, Value]:
    """`error`, whose text is the engine's own and not empty, and `error_type`, where only one is possible."""
    types = list(error.types)
    return {"error": "?", "error_type": types[0] if len(types) == 1 else UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a block runs: what its names mean, and the steps around it, innermost first."""

    declaration: Declaration
    names: Names
    enclosing: tuple[Step, ...]

    def inside(
        self, scopes: tuple[Mapping[str, Value], ...] = (), steps: Mapping[str, Any] | None = None, *around: Step
    ) -> "Place":
        """Return a place further in: with more scopes of `$`, more steps that can be named, and more steps around."""
        names = Names([*scopes, *self.names.scopes], {**self.names.steps, **(steps or {})})
        return Place(declaration=self.declaration, names=names, enclosing=(*around, *self.enclosing))
