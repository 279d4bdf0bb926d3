"""Parts of an OpenAPI document that every API here has: faults, bodies, parameters in paths, and the use of tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from afl.core.release import VERSION

_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
#: What each status of a request that was not done means.
FAULTS: Final = {
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


def api_document(title: str, description: str, paths: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of an API with these paths."""
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": VERSION, "description": description},
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


def body_of(schema: Mapping[str, Any], *, is_required: bool = True) -> dict[str, Any]:
    """Return the description of a body."""
    return {"required": is_required, "content": {"application/json": {"schema": schema}}}


def parameters_in_path(path: str, about: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the parameters in a path, with what `about` says of each."""
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": about.get(name, f"The name of a {name}."),
            "schema": {"type": "string", "minLength": 1, "maxLength": 1_000},
        }
        for name in _PATH_PARAMETER.findall(path)
    ]


def responses_of(answer: Mapping[str, Any], faults: Sequence[str], status: str = "200") -> dict[str, Any]:
    """Return the responses of an operation: its answer, and what may be wrong."""
    found: dict[str, Any] = {
        status: {
            "description": "Done." if status != "200" else "Found.",
            "content": {"application/json": {"schema": answer}},
        }
    }
    for fault in faults:
        found[fault] = {"description": FAULTS[fault], "content": {"application/json": {"schema": _ERROR}}}
    return found
