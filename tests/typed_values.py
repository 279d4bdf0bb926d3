"""The one check of AFL types, for tests that have schemas as compiled programs write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afl.core.types import check_typed
from afl.core.values import Refused, refused_in

Schemas = Mapping[str, Sequence[Mapping[str, Any]]]


def check_value(value: object, afl_type: object, schemas: Schemas | None = None, path: str = "value") -> object:
    """Return the value as the type accepts it; a name that no schema has is a facet's. Raises ValueRefused."""

    def fields_of(name: str) -> Mapping[str, object] | None:
        fields = (schemas or {}).get(name)
        return None if fields is None else {field["name"]: field["type"] for field in fields}

    try:
        return check_typed(value, afl_type, fields_of)
    except Refused as refused:
        raise refused_in(refused, value).at(path) from None
