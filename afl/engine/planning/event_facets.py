"""The plans of the event facets of a program, whether a workflow calls them or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from afl.compiled.program import CALLABLE, CompiledProgram
from afl.engine.model.plan import FacetPlan
from afl.engine.planning.planner import Planner


class EventFacets(NamedTuple):
    """The event facets that a program declares, and what explains their types: as in a WorkflowPlan."""

    facets: tuple[FacetPlan, ...]
    schemas: Mapping[str, FacetPlan]
    facet_names: frozenset[str]


def plan_event_facets(program: CompiledProgram) -> EventFacets:
    """Plan all event facets of a program, whether a workflow calls them or not; none of the library.

    Raises as `plan_workflow`.
    """
    planner = Planner(program)
    facets = [planner.facet(declaration) for declaration in program.event_facets() if not declaration.is_library]
    planner.finish()
    schemas = {name: planner.facet(declaration) for name, declaration in program.schemas().items()}
    planner.finish()
    return EventFacets(tuple(facets), schemas, frozenset(program.names.all(CALLABLE)))
