"""The OpenAPI document, made from the operations and the actions."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from afl_stream.dashboard.actions.table import ACTIONS, Action, Field
from afl_stream.dashboard.api.operations import READINGS, Parameter
from afl_stream.web.documents import FAULTS, api_document, body_of, parameters_in_path, responses_of
from afl_stream.wire.headers import IfExists

_ABOUT: Final = {
    "run": "The id of a run; where it is read, the beginning of one will do.",
    "step": "The id of a step.",
    "place": "The place of a dead letter: TOPIC[PARTITION]@OFFSET.",
}
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "text": {"type": "string", "maxLength": 1_000},
    "afl": {"type": "string"},
    "json": {},
    "object": {"type": "object"},
}
#: The schema of the body that starts a run.
_START: Final = {
    "type": "object",
    "required": ["workflow"],
    "additionalProperties": False,
    "properties": {
        "workflow": {"type": "string", "minLength": 1, "description": "Its name; a unique last part will do."},
        "inputs": {"type": "object", "description": "Checked against the workflow's signature."},
        "id": {"type": "string", "description": "The same id, workflow and inputs again start nothing new."},
        "if_exists": {
            "type": "string",
            "enum": [*IfExists],
            "description": "If a run has the id: use it, whatever version and inputs it was started with; or refuse "
            "the start. Without it, use it if it was started in the same way, else refuse.",
        },
    },
}
_OUTCOME: Final = {
    "type": "object",
    "required": ["done", "answered"],
    "properties": {
        "done": {"type": "string", "description": "What came of it, in words."},
        "answered": {"type": "boolean", "description": "Whether an evaluator has answered."},
    },
}


@cache
def openapi_document() -> dict[str, Any]:
    """Return the document of all operations."""
    paths: dict[str, dict[str, Any]] = {}
    for reading in READINGS:
        paths.setdefault(f"/api{reading.path}", {})["get"] = {
            "operationId": reading.name,
            "summary": reading.summary,
            "tags": [reading.tag],
            "parameters": [*parameters_in_path(reading.path, _ABOUT), *map(_in_query, reading.parameters)],
            "responses": responses_of(dict(reading.answer), ("400", "401", "403", "404", "429", "503")),
        }
    for action in ACTIONS.values():
        paths.setdefault(f"/api{action.path}", {})["post"] = _action(action)
    paths["/api/runs"]["post"] = {
        "operationId": "startRun",
        "summary": "Start a run.",
        "tags": ["actions"],
        "requestBody": body_of(_START),
        "responses": responses_of(_OUTCOME, tuple(FAULTS), status="202"),
    }
    return api_document(
        "AFL Stream",
        "Runs, programs, topics and servers of a deployment, and what an operator does with them. "
        "The pages of the dashboard show the same.",
        paths,
    )


def _action(action: Action) -> dict[str, Any]:
    properties = {field.name: _property(field) for field in action.fields}
    required = [field.name for field in action.fields if field.is_required]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return {
        "operationId": "".join(part.capitalize() if n else part for n, part in enumerate(action.name.split("-"))),
        "summary": f"{action.title}.",
        "description": action.explains,
        "tags": ["actions"],
        "parameters": parameters_in_path(action.path, _ABOUT),
        "requestBody": body_of(schema, is_required=bool(required)),
        "responses": responses_of(_OUTCOME, tuple(FAULTS), status="202"),
    }


def _property(field: Field) -> dict[str, Any]:
    described = {**_KINDS[field.kind], "description": field.help or field.title}
    if field.is_required and field.kind in ("text", "afl"):
        described["minLength"] = 1
    return described


def _in_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }
