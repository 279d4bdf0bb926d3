"""One function for several facets, told apart by their names: the keys of `_DISPATCH` are what it handles."""

from collections.abc import Callable
from typing import Any

_DISPATCH: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "cache.Put": lambda payload: {"kept": payload["key"].upper()},
    "cache.Drop": lambda payload: {"dropped": payload["key"]},
}


def handle(payload: dict[str, Any]) -> dict[str, Any]:
    return _DISPATCH[payload["_facet_name"]](payload)
