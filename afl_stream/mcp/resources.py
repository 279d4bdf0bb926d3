"""Resources: runs, steps, logs, values, programs with their source, servers, tasks, handlers, dead letters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import unquote

from afl.compiled.program import CompiledProgram, source_of
from afl.compiler import compile_files
from afl.core.clock import epoch_ms
from afl.core.errors import AFLError
from afl.diagnostics import display_name
from afl.engine.model.entities import ServerDefinition
from afl.engine.planning.programs import stored_program
from afl.parser import read_source
from afl.source import FILE_SUFFIXES
from afl.workers.heartbeat import is_stale
from afl_stream.commands.invocation import NothingThere
from afl_stream.commands.monitoring.present import present_members, with_members
from afl_stream.mcp.bounds import bounded_text, json_text, listed
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.states import known_run, state_of
from afl_stream.mcp.tools.letters import LetterArguments, find_letters
from afl_stream.visibility.programs import NoSuchProgram, full_fingerprints, list_programs, signature
from afl_stream.visibility.runs import RunDetail, show_workflow
from afl_stream.visibility.timeline import NOT_KEPT, timeline_of
from afl_stream.visibility.workflows import list_workflows

#: Entries of a list in one resource; the tools have pages of them.
MOST_ENTRIES: Final = 200
_JSON: Final = "application/json"


class NoSuchResource(AFLError):
    """An address names nothing that this server has."""

    def __init__(self, uri: str, why: str = "") -> None:
        told = why or f"it has {listed([template.uri for template in RESOURCES])}"
        super().__init__(f"there is no resource {bounded_text(uri, 200)}; {told}")
        self.uri = uri


@dataclass(frozen=True, slots=True)
class Text:
    """The whole text of a resource."""

    mime_type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource, or all those of a template: `{name}` in its address is one part of a path."""

    uri: str
    name: str
    description: str
    read: Callable[[Deployment, Mapping[str, str]], object]
    mime_type: str = _JSON

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def parts_of(self, uri: str) -> Mapping[str, str] | None:
        """Return the parts that an address gives for the names; None where it is another resource's."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.uri))
        found = re.fullmatch(pattern, uri)
        return None if found is None else {name: unquote(part) for name, part in found.groupdict().items()}


def read_resource(deployment: Deployment, uri: str) -> Text:
    """Return the text of a resource. Raises NoSuchResource, and what reading raises."""
    for resource in RESOURCES:
        parts = resource.parts_of(uri)
        if parts is not None:
            found = resource.read(deployment, parts)
            is_json = resource.mime_type == _JSON
            text = json.dumps(json.loads(json_text(found)), indent=1, ensure_ascii=False) if is_json else str(found)
            return Text(resource.mime_type, deployment.masked(text))
    raise NoSuchResource(uri)


def _runs(deployment: Deployment, _parts: Mapping[str, str]) -> object:
    with deployment.store() as store:
        return list_workflows(store, limit=MOST_ENTRIES).to_dict()


def _run(deployment: Deployment, parts: Mapping[str, str]) -> object:
    return state_of(deployment, known_run(deployment, parts["run_id"])).model_dump(mode="json")


def _shown(deployment: Deployment, run_id: str) -> RunDetail:
    with deployment.store() as store:
        return show_workflow(store, run_id)


def _steps(deployment: Deployment, parts: Mapping[str, str]) -> object:
    run = _shown(deployment, parts["run_id"])
    return {"run_id": run.row.id, "root": None if run.root is None else run.root.to_dict()}


def _step(deployment: Deployment, parts: Mapping[str, str]) -> object:
    run = _shown(deployment, parts["run_id"])
    for _, step in run.steps():
        if step.step_id == parts["step_id"]:
            return {**step.to_dict(), "children": [child.step_id for child in step.children]}
    raise NoSuchResource(parts["step_id"], f"afl://runs/{run.row.id}/steps has the steps of that run")


def _logs(deployment: Deployment, parts: Mapping[str, str]) -> object:
    with deployment.store() as store:
        run = show_workflow(store, parts["run_id"])
        found = timeline_of(store, run)
    return {"run_id": run.row.id, "entries": [entry.to_dict() for entry in found], "not_kept": list(NOT_KEPT)}


def _value(deployment: Deployment, parts: Mapping[str, str]) -> object:
    run = _shown(deployment, parts["run_id"])
    step_id, kind, name = parts["step_id"], parts["kind"], parts["name"]
    values: Mapping[str, Any] | None = None
    if step_id == "-":
        values = {"inputs": run.inputs, "outputs": run.outputs or {}}.get(kind)
    else:
        for _, step in run.steps():
            if step.step_id == step_id:
                values = {"inputs": step.inputs, "results": step.results}.get(kind)
    if values is None or name not in values:
        raise NoSuchResource(f"{step_id}/{kind}/{name}", "afl_show has the names of a run's values")
    return values[name]


def _programs(deployment: Deployment, _parts: Mapping[str, str]) -> object:
    with deployment.store() as store:
        return [version.to_dict() for version in list_programs(store)[:MOST_ENTRIES]]


def _program_of(deployment: Deployment, start: str) -> CompiledProgram:
    with deployment.store() as store:
        found = full_fingerprints(store, start)
        if len(found) > 1:
            raise NoSuchProgram(start, found[:3])
        program = stored_program(store, found[0])
    if program is None:
        raise NoSuchProgram(start)
    return program


def _program(deployment: Deployment, parts: Mapping[str, str]) -> object:
    program = _program_of(deployment, parts["program"])
    declared = [found for found in program.declarations.values() if not found.is_library]
    return {
        "program": program.fingerprint,
        "files": [display_name(source_id) for source_id in _source_ids(program)],
        "declarations": [signature(found) for found in declared],
        "compiled": json.loads(program.text),
    }


def _source_ids(program: CompiledProgram) -> list[str]:
    found = [source_of(one.node) for one in program.declarations.values() if not one.is_library]
    return [one for one in dict.fromkeys(found) if one.startswith("file://") and one.endswith(FILE_SUFFIXES)]


def _source(deployment: Deployment, parts: Mapping[str, str]) -> str:
    """Return the AFL text of a program, from its files where they still say the same; else what is known of it."""
    program = _program_of(deployment, parts["program"])
    paths = [display_name(source_id) for source_id in _source_ids(program)]
    try:
        is_same = bool(paths) and CompiledProgram(compile_files(paths).program_json).behaviour == program.behaviour
        if is_same:
            return "\n".join(f"// {path}\n{read_source(path)}" for path in paths)
    except AFLError:
        pass
    declared = [signature(found) for found in program.declarations.values() if not found.is_library]
    where = f"its files are not here, or have changed since: {listed(paths)}" if paths else "it names no files"
    return f"// The text of this program is not at hand ({where}). Its declarations:\n" + "\n".join(declared) + "\n"


def _servers(deployment: Deployment, _parts: Mapping[str, str]) -> object:
    remarks: list[str] = []
    members = present_members(deployment.config, remarks.append)
    stored: list[ServerDefinition] = []
    try:
        with deployment.store() as store:
            stored = list(store.get_all_servers())
    except NothingThere:
        if not members:
            raise
    found, _ = with_members(stored, members)
    now_ms = epoch_ms()
    return {
        "servers": [{**asdict(server), "stale": is_stale(server, now_ms)} for server in found[:MOST_ENTRIES]],
        "remarks": remarks,
    }


def _tasks(deployment: Deployment, _parts: Mapping[str, str]) -> object:
    """Return tasks without their data, which may hold sensitive values: the steps show those."""
    with deployment.store() as store:
        found = [*store.get_pending_tasks("default"), *store.leased_tasks()]
    tasks = [{name: value for name, value in asdict(task).items() if name != "data"} for task in found[:MOST_ENTRIES]]
    return {"tasks": tasks, "total": len(found)}


def _handlers(deployment: Deployment, _parts: Mapping[str, str]) -> object:
    with deployment.store() as store:
        found = store.list_handler_registrations()
    return [asdict(registration) for registration in found[:MOST_ENTRIES]]


def _handler(deployment: Deployment, parts: Mapping[str, str]) -> object:
    with deployment.store() as store:
        found = store.get_handler_registration(parts["facet"])
    if found is None:
        raise NoSuchResource(parts["facet"], "afl://handlers lists the registrations")
    return asdict(found)


def _letters(deployment: Deployment, _parts: Mapping[str, str]) -> object:
    return find_letters(deployment, LetterArguments(limit=MOST_ENTRIES)).model_dump(mode="json")


RESOURCES: Final = (
    Resource(uri="afl://runs", name="runs", description=f"The {MOST_ENTRIES} newest runs.", read=_runs),
    Resource(uri="afl://programs", name="programs", description="Programs that were started.", read=_programs),
    Resource(uri="afl://servers", name="servers", description="Evaluators, agents, audits and runners.", read=_servers),
    Resource(uri="afl://tasks", name="tasks", description="Tasks that wait or are claimed.", read=_tasks),
    Resource(uri="afl://handlers", name="handlers", description="Registered handlers.", read=_handlers),
    Resource(uri="afl://dead-letters", name="dead letters", description="Open dead letters.", read=_letters),
    Resource(uri="afl://runs/{run_id}", name="run", description="Where a run stands.", read=_run),
    Resource(uri="afl://runs/{run_id}/steps", name="steps", description="The steps of a run as a tree.", read=_steps),
    Resource(
        uri="afl://runs/{run_id}/steps/{step_id}", name="step", description="One step with its values.", read=_step
    ),
    Resource(
        uri="afl://runs/{run_id}/logs",
        name="logs",
        description="What happened to a run, in order of time, with its log entries.",
        read=_logs,
    ),
    Resource(
        uri="afl://runs/{run_id}/values/{step_id}/{kind}/{name}",
        name="value",
        description="One value: kind is inputs, results or outputs; step_id - is the run itself.",
        read=_value,
    ),
    Resource(
        uri="afl://programs/{program}", name="program", description="A program as it was compiled.", read=_program
    ),
    Resource(
        uri="afl://programs/{program}/source",
        name="source",
        description="A program's AFL text.",
        read=_source,
        mime_type="text/plain",
    ),
    Resource(uri="afl://handlers/{facet}", name="handler", description="The handler of a facet.", read=_handler),
)
