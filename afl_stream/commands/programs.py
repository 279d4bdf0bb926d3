"""The AFL files of a command: compiled, or refused with an excerpt of each mistake."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_files
from afl.core.strictness import Strictness
from afl.diagnostics import Diagnostic, error_count, render
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import WorkflowRow
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.programs import stored_program
from afl.engine.planning.value_checks import check_inputs
from afl.engine.types import Value
from afl.errors import AFLError, CompileError
from afl.parser import read_source
from afl.stores.public.persistence import EngineStore
from afl_stream.acls import not_listed
from afl_stream.client.client import Client
from afl_stream.commands.inputs import given_inputs
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.terminal import Terminal
from afl_stream.transport import Transport


def compile_program(files: Sequence[str], terminal: Terminal, strictness: Strictness) -> CompiledProgram:
    """Compile the files together. Warnings go to stderr; raises CommandRefused with every error, rendered."""
    try:
        compiled = compile_files(files, strictness=strictness, include_sources=True)
    except CompileError as error:
        raise CommandRefused(_rendered(error.diagnostics), is_rendered=True) from None
    if compiled.diagnostics:
        terminal.rendered(_rendered(compiled.diagnostics))
    return CompiledProgram(compiled.program_json)


def deployed_program(client: Client, transport: Transport, workflow: str) -> tuple[CompiledProgram, str]:
    """Return the current program of a workflow's name, and its qualified name. Raises TopicMissing, UnknownProgram."""
    topic = client.topology.definitions()
    if topic not in transport.admin().topic_names():
        raise not_listed(transport.admin(), topic, "programs", "--role starter")
    return client.definitions.find(workflow)


def checked_inputs(
    program: CompiledProgram, workflow: str, pairs: Sequence[str], document: str | None
) -> tuple[WorkflowPlan, Mapping[str, Value]]:
    """Plan a workflow and read the inputs given for it.

    Raises UnknownName, AmbiguousName, InputError, CommandRefused, and what is wrong with the program itself.
    """
    plan = plan_workflow(program, workflow)
    inputs = given_inputs(pairs, document, plan.facet.param_types)
    check_inputs(plan.facet, plan.schemas, inputs)
    return plan, inputs


def program_of(store: EngineStore, row: WorkflowRow) -> CompiledProgram | None:
    """Return a run's program; None when it is missing or unreadable: most can be shown without it."""
    try:
        return stored_program(store, row.program)
    except AFLError:
        return None


def stored_plan(program: CompiledProgram | None, row: WorkflowRow) -> WorkflowPlan | None:
    """Return the plan of a run's program; None when there is none, or it cannot be planned."""
    try:
        return None if program is None else plan_workflow(program, row.name)
    except AFLError:
        return None


def _rendered(diagnostics: Sequence[Diagnostic]) -> str:
    texts: dict[str, str] = {}
    colour = sys.stderr.isatty() and not _no_colour()
    for source_id in {d.source_id for d in diagnostics if d.source_id}:
        texts[source_id] = read_source(source_id.removeprefix("file://"))
    lines = [render(d, texts.get(d.source_id or ""), colour=colour) for d in diagnostics]
    count = error_count(diagnostics)
    return "\n".join(lines if count is None else [*lines, count])


def _no_colour() -> bool:
    import os

    return bool(os.environ.get("NO_COLOR"))
