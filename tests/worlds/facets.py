"""The facets of some programs that are asked by event."""

from collections.abc import Iterable

from afl.compiled.program import CompiledProgram


def facets_with_events(programs: Iterable[CompiledProgram]) -> list[str]:
    return sorted({facet.qualified_name for program in programs for facet in program.event_facets()})
