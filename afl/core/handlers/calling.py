"""The ways in which a handler is called, and what it may return besides a result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from afl.core.errors import AFLError

#: Takes the payload, or the payload and its context; returns a dict, None, `Deferred`, or an awaitable of one of them.
Handler: TypeAlias = Callable[..., Any]

#: Keys of a payload for the name of its facet, and for the metadata that was registered with the handler.
FACET_NAME_KEY: Final = "_facet_name"
METADATA_KEY: Final = "_handler_metadata"

#: The `error.type` of a step of a facet that has no handler here.
NO_HANDLER: Final = "NoHandler"

_CONTEXT_NAMES: Final = frozenset({"context", "ctx"})


def short_name(facet_name: str) -> str:
    """Return the part of a facet's name after its namespace."""
    return facet_name.rpartition(".")[2]


class Deferred:
    """The return value of a handler whose answer comes later, from any process: the event counts as handled.

    The answer needs the event's step id, and its event id and answer token where they exist: the handler's context has
    all of them. On a store the task stays claimed until the answer, without a lease.
    """

    #: The mark of such a value: any class may set it. See `afl.core.handlers.returned.answers_later`.
    answers_later: Final = True


class HandlerOver(AFLError):
    """A handler acted for its step after its answer was given or its time was up."""

    def __init__(self, step_id: str) -> None:
        super().__init__(f"step {step_id} has its answer already; a handler may send updates only while it runs")
        self.step_id = step_id


@dataclass(frozen=True, slots=True)
class CallShape:
    """The way in which a handler is called: with the payload and maybe the context, and maybe giving a coroutine."""

    takes_context: bool
    is_async: bool


def call_shape(handler: Handler) -> CallShape:
    """Inspect a handler's parameters, once for each handler that can be cached. Never raises an Exception."""
    try:
        return _known_shape(handler)
    except Exception:  # noqa: BLE001 - an object that cannot be hashed, or compared, may still be called
        return _shape(handler)


def _shape(handler: Handler) -> CallShape:
    return CallShape(takes_context(handler), is_async(handler))


_known_shape = functools.lru_cache(maxsize=1_000)(_shape)


def takes_context(handler: Handler) -> bool:
    """Say whether the handler wants `(payload, context)`: a second parameter that is required, or called `context`."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except Exception:  # noqa: BLE001 - built-in callables have no signature, and an object's own may be anything
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    return positional[1].default is inspect.Parameter.empty or positional[1].name in _CONTEXT_NAMES


def is_async(handler: Handler) -> bool:
    """Say whether calling the handler gives a coroutine."""
    try:
        return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - an object whose __call__ is async
    except Exception:  # noqa: BLE001 - an object of the handler's making: it is called as it is
        return False
