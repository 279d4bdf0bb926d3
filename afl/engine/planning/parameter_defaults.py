"""The values for parameters that a call leaves out: mixins of the signature, implicits, defaults.

The source of a parameter's value is known when the program is planned. The values are evaluated in the callee's own
scope, each after those that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn

from afl.compiled.program import Node, ProgramError
from afl.engine.expressions.exact_doubles import exact
from afl.engine.expressions.expression import compile_default
from afl.engine.model.plan import Default, FacetPlan, ParameterDefault
from afl.engine.planning.references import CalleeReferences

#: Parameters and their defaults, in the order of evaluation.
ParameterDefaults = tuple[tuple[str, Default], ...]


class _Noting(CalleeReferences):
    """A compiler of references that notes which parameters are read."""

    def __init__(self, facet: str, *, reads_steps: bool) -> None:
        super().__init__(facet, reads_steps=reads_steps)
        self.read: set[str] = set()

    def input_reference(self, path: tuple[str, ...]) -> Default:
        self.read.update(path[:1])
        return super().input_reference(path)


class _Constants:
    """A compiler of references that accepts none."""

    def __init__(self, where: str) -> None:
        self._where = where

    def input_reference(self, path: tuple[str, ...]) -> NoReturn:
        raise ProgramError(f"{self._where}: an implicit gives constants, not $.{'.'.join(path)}")

    def step_reference(self, path: tuple[str, ...]) -> NoReturn:
        raise ProgramError(f"{self._where}: an implicit gives constants, not {'.'.join(path)}")


def compile_parameter_default(node: object, where: str, *, reads_steps: bool) -> ParameterDefault:
    """Compile an expression of a declaration's own scope: a default, or an argument of a mixin on its signature."""
    references = _Noting(where, reads_steps=reads_steps)
    value = compile_default(node, references)
    return ParameterDefault(value, frozenset(references.read))


def compile_constants(args: Iterable[Node], where: str) -> dict[str, ParameterDefault]:
    """Compile the arguments of an implicit. Raises ProgramError for a reference."""
    return {
        str(arg["name"]): ParameterDefault(compile_default(arg.get("value"), _Constants(where)), frozenset())
        for arg in args
    }


def compile_defaults(slots: Iterable[Node], where: str, *, reads_steps: bool) -> dict[str, ParameterDefault]:
    """Compile the defaults of a list of parameters."""
    return {
        str(slot["name"]): compile_parameter_default(slot["default"], where, reads_steps=reads_steps)
        for slot in slots
        if "default" in slot
    }


def exact_defaults(parameter_defaults: Mapping[str, ParameterDefault], facet: FacetPlan) -> dict[str, ParameterDefault]:
    """Return the defaults of a facet's parameters; those of Doubles get the check that they need."""
    looks = facet.param_looks
    return {
        name: ParameterDefault(exact(default.value, name, looks.get(name)), default.reads)
        for name, default in parameter_defaults.items()
    }


def defaults_in_order(given: Collection[str], *sources: Mapping[str, ParameterDefault]) -> ParameterDefaults:
    """Return the defaults of the parameters that are not given: for each, the first source that has it.

    They are ordered so that each comes after those that it reads. Parameters that read each other in a circle are left
    to the run, where they count as missing.
    """
    chosen: dict[str, ParameterDefault] = {}
    for source in sources:
        for name, default in source.items():
            if name not in given:
                chosen.setdefault(name, default)
    ordered: dict[str, None] = {}
    begun: set[str] = set()

    def place(name: str) -> None:
        if name in begun:
            return
        begun.add(name)
        for read in sorted(chosen[name].reads):
            if read in chosen:
                place(read)
        ordered[name] = None

    for name in chosen:
        place(name)
    return tuple((name, chosen[name].value) for name in ordered)
