"""Callbacks that a client of librdkafka is given."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod


def weakly(method: Callable[..., object]) -> Callable[..., None]:
    """Return a callback that calls a method and does not keep its object.

    A client keeps its callbacks, and the objects behind them keep the client: in such a circle it waits for the garbage
    collector, which a service runs rarely. Until it is freed it holds one of the 1,024 places that a process has for
    thread-local data; without one, no further client can be made.
    """
    reference = WeakMethod(method)

    def call(*arguments: object) -> None:
        if (alive := reference()) is not None:
            alive(*arguments)

    return call
