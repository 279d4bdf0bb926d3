"""The form that starts a workflow, made from its signature, and the inputs that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from afl.compiled.program import CompiledProgram
from afl.core.errors import AFLError
from afl.core.json_objects import DuplicateKey, NotJson, input_value
from afl.core.types import type_name
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.programs import stored_program
from afl_stream.client.client import Client
from afl_stream.dashboard.deployment import Deployment
from afl_stream.visibility.programs import list_programs, show_programs
from afl_stream.web.parameters import BadParameter

#: How a field is shown by the type of its input; a value of any other type is written as JSON.
_KINDS: Final = {"String": "text", "Long": "whole", "Int": "whole", "Double": "number", "Boolean": "yes-or-no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    """The field of an input. `kind`: text, whole, number, yes-or-no, or json."""

    name: str
    type: str
    kind: str
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForm:
    """The form of a workflow."""

    workflow: str
    doc: str
    fields: tuple[InputField, ...]
    types: Mapping[str, object]


def workflow_names(deployment: Deployment) -> tuple[list[str], str]:
    """Return the workflows that can be started, and why it may not be all; "" where it is."""
    try:
        with deployment.transport() as transport, Client(deployment.config, transport) as client:
            if client.topology.definitions() in transport.admin().topic_names():
                return sorted(client.definitions.workflows()), ""
            return [], ""
    except AFLError as error:
        names = set()
        if deployment.has_store():
            names = {name for version in list_programs(deployment.store) for name in version.workflows}
        return sorted(names), f"which workflows are deployed is not known now, only which have run: {error}"


def start_form(deployment: Deployment, workflow: str) -> StartForm:
    """Return the form of a deployed workflow, or of one of the store's. Raises UnknownProgram, NoSuchProgram."""
    program, name = _program(deployment, workflow)
    plan = plan_workflow(program, name)
    given = {default for default, _ in plan.facet.parameter_defaults}
    fields = tuple(
        InputField(
            name=param,
            type=type_name(kind),
            kind=_KINDS.get(kind, "json") if isinstance(kind, str) else "json",
            is_required=param not in given,
        )
        for param, kind in plan.facet.param_types.items()
    )
    return StartForm(workflow=name, doc=doc_of(program, name), fields=fields, types=dict(plan.facet.param_types))


def doc_of(program: CompiledProgram, name: str) -> str:
    """Return the text of a declaration's doc comment; "" without one."""
    doc = program.declarations[name].node.get("doc") if name in program.declarations else None
    if isinstance(doc, Mapping):
        return str(doc.get("description") or "")
    return doc if isinstance(doc, str) else ""


def inputs_of_form(form: StartForm, given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the inputs that a filled form gives, and what is wrong, by field. An empty field is an input not given."""
    inputs: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in form.fields:
        text = given.get(f"input-{field.name}", "")
        if not text and not (field.kind == "text" and field.is_required):
            # Of a text that must be given, an empty field is the empty text.
            if field.is_required:
                wrong[field.name] = f"expected {field.type}, found nothing"
            continue
        try:
            inputs[field.name] = input_value(text, form.types[field.name])
        except (DuplicateKey, NotJson) as error:
            wrong[field.name] = str(error)
    return inputs, wrong


def inputs_of_document(found: object) -> dict[str, Any]:
    """Return the inputs in a JSON document. Raises BadParameter."""
    if not isinstance(found, dict):
        raise BadParameter("inputs", found, "a JSON object")
    return found


def _program(deployment: Deployment, workflow: str) -> tuple[CompiledProgram, str]:
    try:
        with deployment.transport() as transport, Client(deployment.config, transport) as client:
            return client.definitions.find(workflow)
    except AFLError:
        if not deployment.has_store():
            raise
        store = deployment.store
        newest = show_programs(store, workflow).versions[-1]
        program = stored_program(store, newest.fingerprint)
        names = [name for name in newest.workflows if name == workflow or name.endswith(f".{workflow}")]
        if program is None or not names:
            raise
        return program, names[0]
