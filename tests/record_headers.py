"""A record's headers by name, for tests that look at single ones."""

import json

from afl_stream.transport import Record

#: Headers of the long form that are not CloudEvents' own, by the members of the header `afl`.
_EXTENSIONS = {"attempt": "afl_attempt"}
_VERSIONS = ("afl_workflow_version", "afl_step_schema_version", "afl_runtime_version")


def headers_of(record: Record) -> dict[str, bytes]:
    """Return the last header of each name, as clients take it; a null value is left out.

    What the header `afl` holds has the names of the long form, too.
    """
    named = {name: value for name, value in record.headers if value is not None}
    try:
        members = json.loads(named["afl"])
        assert members.pop("afl") == 1
        versions = dict(zip(_VERSIONS, members.pop("versions").split("/"), strict=True))
    except (KeyError, ValueError):
        # It has none, or one that no reader takes.
        return named
    found = {_EXTENSIONS.get(name, f"ce_{name}"): str(value) for name, value in members.items()} | versions
    return {**{name: value.encode() for name, value in found.items()}, **named}
