"""The planning of mixins: those of a signature, which become steps or fill in parameters, and those of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from afl.compiled.program import Node, ProgramError, line_of
from afl.engine.expressions.expression import compile_expression
from afl.engine.limits import MAX_TIMEOUT_MS
from afl.engine.model.plan import Expression, FacetPlan, MixinPlan, ParameterDefault
from afl.engine.model.records import Frame
from afl.engine.planning.parameter_defaults import compile_parameter_default
from afl.engine.planning.references import StatementReferences
from afl.engine.types import Value

#: The mixin that the engine itself knows, and its parameters in milliseconds.
TIMEOUT: Final = "Timeout"
_UNITS_MS: Final = {"hours": 3_600_000, "minutes": 60_000, "seconds": 1_000, "ms": 1}

#: A function that returns the facet of a mixin's name, None when the program does not declare it.
FindFacet = Callable[[str], FacetPlan | None]


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


def plan_configured(mixins: Iterable[Node], where: str, *, reads_steps: bool) -> dict[str, ParameterDefault]:
    """Return the values that a signature's mixins without alias give; the first mixin that gives a parameter wins."""
    given: dict[str, ParameterDefault] = {}
    for node in mixins:
        if not node.get("alias"):
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


def call_arguments(call: Node, references: StatementReferences) -> tuple[tuple[str, Expression], ...]:
    """Return the arguments of a call, those that its mixins add, and for each of their aliases a map of arguments."""
    arguments = _compiled(call, references)
    mixins = call.get("mixins")
    if not mixins:
        return tuple(arguments.items())
    maps: dict[str, dict[str, Expression]] = {}
    for mixin in mixins:
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


def time_limit_ms(mixins: Iterable[Node], where: str) -> int | None:
    """Return the time that `Timeout(hours, minutes, seconds, ms)` gives, None without one.

    Only literals count: without any there is no limit. Raises ProgramError for more than MAX_TIMEOUT_MS.
    """
    limits = [node for node in mixins if str(node["target"]).rpartition(".")[2] == TIMEOUT]
    durations_ms = [_duration_ms(arg) for node in limits for arg in node.get("args") or ()]
    known_ms = [duration_ms for duration_ms in durations_ms if duration_ms is not None]
    if not known_ms:
        return None
    total_ms = sum(known_ms)
    if total_ms > MAX_TIMEOUT_MS:
        raise ProgramError(
            f"{where}: Timeout gives {total_ms} ms, more than {MAX_TIMEOUT_MS} ms, which are a hundred years "
            "(MAX_TIMEOUT_MS, which no setting raises)"
        )
    return total_ms


def _duration_ms(arg: Mapping[str, object]) -> int | None:
    """Return the milliseconds of an argument, None for one that is not a unit of time or not a literal integer."""
    value, unit_ms = arg.get("value"), _UNITS_MS.get(str(arg.get("name")))
    number = value.get("value") if isinstance(value, Mapping) and value.get("type") == "Int" else value
    return unit_ms * number if unit_ms is not None and type(number) is int else None
