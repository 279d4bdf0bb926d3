"""What a changed program would mean for the runs that are under way: they keep the program that they began with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from afl.compiled.program import CompiledProgram
from afl.engine.model.plan import FacetPlan
from afl.engine.model.store import PAUSED, RUNNING, WorkflowRow
from afl.engine.planning.planner import plan_workflow
from afl.errors import AFLError
from afl.stores.public.persistence import EngineStore
from afl_stream.commands.programs import program_of
from afl_stream.commands.schemas.event_schemas import ProgramSchemas
from afl_stream.topics.declared import Topology
from afl_stream.wire.avro.compatibility import incompatibilities

#: Runs that are looked at; more are counted as not looked at.
MOST_RUNS = 10_000
#: Types of a return whose values also fit the wider one.
_WIDER = {("Int", "Long")}


@dataclass(slots=True, kw_only=True)
class RunFinding:
    """What agents of a changed facet and runs of an earlier program expect of each other, and do not get."""

    workflow: str
    program: str
    facet: str
    topic: str
    why: str
    runs: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {
            "workflow": self.workflow,
            "program": self.program,
            "facet": self.facet,
            "topic": self.topic,
            "why": self.why,
            "runs": self.runs,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsLookedAt:
    """The findings, and how many runs there are: of other programs, and of programs that cannot be read."""

    findings: list[RunFinding]
    runs: int
    unreadable: list[str]
    is_cut: bool


def looked_at_runs(store: EngineStore, new: ProgramSchemas, fingerprint: str, topology: Topology) -> RunsLookedAt:
    """Compare the programs of all runs that have not ended with a changed program."""
    rows = _open_runs(store)
    is_cut = len(rows) > MOST_RUNS
    by_program: dict[tuple[str, str], list[WorkflowRow]] = {}
    for row in rows[:MOST_RUNS]:
        by_program.setdefault((row.program, row.name), []).append(row)
    findings: list[RunFinding] = []
    unreadable: list[str] = []
    earlier: dict[str, tuple[CompiledProgram, ProgramSchemas] | None] = {}
    for (program, name), runs in sorted(by_program.items()):
        if program == fingerprint:
            continue
        if program not in earlier:
            earlier[program] = _earlier(store, runs[0])
        known = earlier[program]
        if known is None:
            unreadable += [run.id for run in runs]
            continue
        for finding in _of_workflow(known, name, new, topology):
            finding.program = program
            finding.runs = sorted(run.id for run in runs)
            findings.append(finding)
    return RunsLookedAt(findings=findings, runs=len(rows), unreadable=sorted(unreadable), is_cut=is_cut)


def _open_runs(store: EngineStore) -> list[WorkflowRow]:
    return [row for status in (RUNNING, PAUSED) for row in store.list_workflows(status=status, limit=MOST_RUNS + 1)]


def _earlier(store: EngineStore, row: WorkflowRow) -> tuple[CompiledProgram, ProgramSchemas] | None:
    program = program_of(store, row)
    if program is None:
        return None
    try:
        return program, ProgramSchemas(program)
    except AFLError:
        return None


def _of_workflow(
    known: tuple[CompiledProgram, ProgramSchemas], name: str, new: ProgramSchemas, topology: Topology
) -> Iterator[RunFinding]:
    program, old = known
    try:
        plan = plan_workflow(program, name)
    except AFLError:
        return
    for facet in sorted(facet.name for facet in plan.facets):
        if facet not in old.facets or not topology.carries(facet):
            continue
        for why in _differences(facet, old, new):
            yield RunFinding(workflow=name, program="", facet=facet, topic=topology.facet(facet), why=why)


def _differences(facet: str, old: ProgramSchemas, new: ProgramSchemas) -> Iterator[str]:
    if facet not in new.facets:
        yield "the changed program does not declare it, so that agents for it may be gone: its events are not answered"
        return
    earlier, changed = old.facets[facet], new.facets[facet]
    for path, why in incompatibilities(new.schemas[facet].text, old.schemas[facet].text):
        yield f"{path.removeprefix('payload.')}: agents of the changed facet cannot read the runs' events: {why}"
    for name in changed.param_types:
        if name not in earlier.param_types:
            yield f"parameter {name}: the runs' events do not have it, and agents of the changed facet expect it"
    yield from _differences_of_returns(earlier, changed)


def _differences_of_returns(earlier: FacetPlan, changed: FacetPlan) -> Iterator[str]:
    if not earlier.return_types:
        return  # Any result is taken.
    for name in earlier.always_required:
        if name not in changed.return_types:
            yield f"return {name}: the runs wait for it, and agents of the changed facet do not give it"
    for name, afl_type in changed.return_types.items():
        if name not in earlier.return_types:
            yield f"return {name}: the runs do not know it, and refuse a result that has it"
        elif afl_type != (wanted := earlier.return_types[name]) and (afl_type, wanted) not in _WIDER:
            given, wanted = _shown(afl_type), _shown(wanted)
            yield f"return {name}: the runs expect {wanted}, and agents of the changed facet give {given}"


def _shown(afl_type: object) -> str:
    if isinstance(afl_type, dict):
        return f"[{_shown(afl_type.get('elementType'))}]"
    return str(afl_type)
