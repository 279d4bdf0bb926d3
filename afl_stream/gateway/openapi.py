"""The gateway's OpenAPI document, made from the operations."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from afl_stream.gateway.operations import OPERATIONS, Operation
from afl_stream.web.access import GATEWAY_ROLES, Role
from afl_stream.web.documents import FAULTS, api_document, body_of, parameters_in_path, responses_of

_ABOUT: Final = {
    "run": "The id of a run.",
    "step": "The id of a step.",
    "name": "The name of the event.",
    "facet": "The qualified name of a facet.",
}
_READ_FAULTS: Final = ("400", "401", "403", "404", "409", "429", "503")


@cache
def openapi_document() -> dict[str, Any]:
    """Return the document of all operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return api_document(
        "AFL Stream gateway",
        "Runs, and the work of facets, for programs that do not speak Kafka. An event is taken with a lease, and is "
        "offered again when the lease runs out: at least once. Whether an answer counts is decided by its attempt.",
        paths,
    )


def _who_may(role: Role) -> str:
    """Return whose tokens do: each role may do all that the roles before it may."""
    *most, last = GATEWAY_ROLES[GATEWAY_ROLES.index(role) :]
    return f"For tokens of the role {', '.join(most)}{' or ' if most else ''}{last}."


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": _who_may(operation.role),
        "tags": [operation.tag],
        "parameters": [
            *parameters_in_path(operation.path, _ABOUT),
            *(
                {
                    "name": name,
                    "in": "query",
                    "required": False,
                    "description": schema.get("description", ""),
                    "schema": {key: value for key, value in schema.items() if key != "description"},
                }
                for name, schema in operation.query.items()
            ),
        ],
    }
    if operation.method == "POST":
        schema: dict[str, Any] = {
            "type": "object",
            "properties": dict(operation.members),
            "additionalProperties": False,
        }
        if operation.required:
            schema["required"] = list(operation.required)
        described["requestBody"] = body_of(schema, is_required=bool(operation.required))
        described["responses"] = responses_of(operation.answer, tuple(FAULTS), status=str(operation.status))
    else:
        described["responses"] = responses_of(operation.answer, _READ_FAULTS)
    return described
