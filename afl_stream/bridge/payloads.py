"""From an AFL event's payload to data of a topic, and from data to the result of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from afl.core.declared_returns import DeclaredReturns
from afl.core.handlers.calling import FACET_NAME_KEY, METADATA_KEY
from afl.core.handlers.context import HandlerContext
from afl_stream.bridge.errors import ParameterMissing, ParameterRefused, ResultRefused

Payload: TypeAlias = Mapping[str, Any]
#: Names a parameter of the facet, or makes a value of the payload.
FromPayload: TypeAlias = str | Callable[[Payload], object]
#: Names the return that the data is, or makes the returns of it. None: the data says it by its own keys, or it is the
#: one return that the facet requires.
Results: TypeAlias = str | Callable[[Any], Mapping[str, object]] | None

_ADDED = (FACET_NAME_KEY, METADATA_KEY)


def parameters(payload: Payload) -> dict[str, Any]:
    """Return the facet's parameters: the payload without the keys that an agent adds."""
    return {name: value for name, value in payload.items() if name not in _ADDED}


def data_of(facet: str, payload: Payload, chosen: FromPayload | None) -> object:
    """Return the data of the event to publish: a parameter, what a function makes, or all parameters.

    Raises ParameterMissing.
    """
    own = parameters(payload)
    if chosen is None:
        return own
    return chosen(own) if callable(chosen) else _parameter(facet, own, chosen)


def request_id_of(facet: str, payload: Payload, chosen: FromPayload | None, context: HandlerContext) -> str:
    """Return the id of the request that an event belongs to: by a parameter or a function, or the AFL workflow's id.

    Raises ParameterMissing and ParameterRefused.
    """
    if chosen is None:
        return context.workflow_id
    own = parameters(payload)
    found = chosen(own) if callable(chosen) else _parameter(facet, own, chosen)
    if type(found) is int:
        return str(found)
    if not isinstance(found, str) or not found:
        raise ParameterRefused(facet, f"parameter {chosen}" if isinstance(chosen, str) else "the request id", found)
    return found


def result_of(facet: str, data: object, results: Results, returns: DeclaredReturns | None) -> dict[str, object]:
    """Return the result of a step. Raises ResultRefused when the data does not say which returns it is."""
    if callable(results):
        return dict(results(data))
    if results is not None:
        return {results: data}
    if returns is None:
        if isinstance(data, Mapping):
            return dict(data)
        raise ResultRefused(facet, data, None)
    names = (*returns.required, *returns.optional)
    if isinstance(data, Mapping) and data and all(name in names for name in data):
        return dict(data)
    if len(only := returns.required or returns.optional) == 1:
        return {only[0]: data}
    if isinstance(data, Mapping):
        # Its names are not those of the returns: the agent says which.
        return dict(data)
    if data is None and not names:
        return {}
    raise ResultRefused(facet, data, names)


def _parameter(facet: str, own: Payload, name: str) -> object:
    if name not in own:
        raise ParameterMissing(facet, name, own)
    return own[name]
