"""The planning of mixins: those of a signature, which become steps or fill in parameters, and those of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from afl.compiled.program import Node, line_of
from afl.engine.expressions.expression import compile_expression
from afl.engine.model.plan import Expression, FacetPlan, MixinPlan, ParameterDefault
from afl.engine.model.records import Frame
from afl.engine.planning.parameter_defaults import compile_parameter_default
from afl.engine.planning.references import StatementReferences
from afl.engine.types import Value

#: A function that returns the facet of a mixin's name, None when the program does not declare it.
FindFacet = Callable[[str], FacetPlan | None]
#: A function that says whether the arguments of a mixin are values for parameters.
Configures = Callable[[Node], bool]


def yield_targets(mixins: Iterable[Node], resolve: Callable[[str], str | None]) -> dict[str, str | None]:
    """Return the names under which yields may address the mixins of a signature, with the alias of each.

    Aliases come first; of mixins with the same name, which the compiler refuses, the first counts.
    """
    nodes = list(mixins)
    targets: dict[str, str | None] = {str(node["alias"]): str(node["alias"]) for node in nodes if node.get("alias")}
    for node in nodes:
        written = str(node["target"])
        alias = str(node["alias"]) if node.get("alias") else None
        for name in (written, written.rpartition(".")[2], resolve(written)):
            if name is not None:
                targets.setdefault(name, alias)
    return targets


def plan_configured(
    mixins: Iterable[Node], where: str, configures: Configures, *, reads_steps: bool
) -> dict[str, ParameterDefault]:
    """Return the values that a signature's mixins without alias give; the first mixin that gives a parameter wins."""
    given: dict[str, ParameterDefault] = {}
    for node in mixins:
        if not node.get("alias") and configures(node):
            for arg in node.get("args") or ():
                given.setdefault(
                    str(arg["name"]), compile_parameter_default(arg.get("value"), where, reads_steps=reads_steps)
                )
    return given


def plan_mixins(mixins: Iterable[Node], where: str, find: FindFacet, *, reads_steps: bool) -> tuple[MixinPlan, ...]:
    """Return plans for the mixins of a signature that have an alias. Their defaults follow when all plans are there."""
    plans: list[MixinPlan] = []
    for node in mixins:
        if node.get("alias"):
            facet = find(str(node["target"]))
            plan = MixinPlan(str(node["alias"]), facet.name if facet is not None else str(node["target"]), facet)
            plan.args = tuple(
                (str(arg["name"]), compile_parameter_default(arg.get("value"), where, reads_steps=reads_steps).value)
                for arg in node.get("args") or ()
            )
            plan.line = line_of(node)
            plans.append(plan)
    return tuple(plans)


def call_arguments(
    call: Node, references: StatementReferences, configures: Configures
) -> tuple[tuple[str, Expression], ...]:
    """Return the arguments of a call, those that its mixins add, and for each of their aliases a map of arguments."""
    arguments = _compiled(call, references)
    mixins = call.get("mixins")
    if not mixins:
        return tuple(arguments.items())
    maps: dict[str, dict[str, Expression]] = {}
    for mixin in mixins:
        if not (mixin.get("alias") or configures(mixin)):
            continue
        given = _compiled(mixin, references)
        if mixin.get("alias"):
            maps.setdefault(str(mixin["alias"]), {}).update(given)
        else:
            arguments = {**arguments, **{name: value for name, value in given.items() if name not in arguments}}
    for alias, entries in maps.items():
        arguments.setdefault(alias, _map_of(tuple(entries.items())))
    return tuple(arguments.items())


def _compiled(call: Node, references: StatementReferences) -> dict[str, Expression]:
    return {str(arg["name"]): compile_expression(arg.get("value"), references) for arg in call.get("args") or ()}


def _map_of(entries: Sequence[tuple[str, Expression]]) -> Expression:
    def make(frame: Frame) -> Value:
        return {name: value(frame) for name, value in entries}

    return make
