"""The OpenAPI document, made from the operations and the actions."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from afl.core.release import VERSION
from afl_stream.dashboard.actions.table import ACTIONS, Action, Field
from afl_stream.dashboard.api.operations import READINGS, Parameter

_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_FAULTS: Final = {
    "400": "A parameter or the body has no meaning; `error` says which.",
    "401": "Who asks is not known.",
    "403": "Who asks may not do this, or the request comes from another site.",
    "404": "There is no such thing.",
    "409": "It cannot be done now.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "429": "Too many requests.",
    "503": "The store or the broker cannot be reached now.",
}
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
            "parameters": [*_in_path(reading.path), *map(_in_query, reading.parameters)],
            "responses": _responses(dict(reading.answer), ("400", "401", "403", "404", "429", "503")),
        }
    for action in ACTIONS.values():
        paths.setdefault(f"/api{action.path}", {})["post"] = _action(action)
    paths["/api/runs"]["post"] = {
        "operationId": "startRun",
        "summary": "Start a run.",
        "tags": ["actions"],
        "requestBody": _body(_START),
        "responses": _responses(_OUTCOME, tuple(_FAULTS), status="202"),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AFL Stream",
            "version": VERSION,
            "description": "Runs, programs, topics and servers of a deployment, and what an operator does with them. "
            "The pages of the dashboard show the same.",
        },
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {"type": "string"}, "type": {"type": "string"}},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


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
        "parameters": _in_path(action.path),
        "requestBody": _body(schema, is_required=bool(required)),
        "responses": _responses(_OUTCOME, tuple(_FAULTS), status="202"),
    }


def _property(field: Field) -> dict[str, Any]:
    described = {**_KINDS[field.kind], "description": field.help or field.title}
    if field.is_required and field.kind in ("text", "afl"):
        described["minLength"] = 1
    return described


def _body(schema: dict[str, Any], *, is_required: bool = True) -> dict[str, Any]:
    return {"required": is_required, "content": {"application/json": {"schema": schema}}}


def _in_path(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _ABOUT.get(name, f"The name of a {name}."),
            "schema": {"type": "string", "minLength": 1, "maxLength": 1_000},
        }
        for name in _PATH_PARAMETER.findall(path)
    ]


def _in_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }


def _responses(answer: dict[str, Any], faults: tuple[str, ...], status: str = "200") -> dict[str, Any]:
    found: dict[str, Any] = {
        status: {
            "description": "Done." if status != "200" else "Found.",
            "content": {"application/json": {"schema": answer}},
        }
    }
    for fault in faults:
        found[fault] = {"description": _FAULTS[fault], "content": {"application/json": {"schema": _ERROR}}}
    return found
