"""What a node does with the events that it takes: the port that commands keep, and who calls or runs functions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent


@runtime_checkable
class Command(Protocol):
    """What a node runs. `invoke` yields the data of each event to publish; yielding nothing publishes nothing.

    Data is a value of JSON; it is checked where it is published. A command may say of itself by `oi_span_type` which
    kind of span it is.
    """

    def invoke(self, context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> AsyncIterator[object]: ...


@runtime_checkable
class CallsFunctions(Protocol):
    """A command that asks a model which may call functions: the workflow tells it which there are."""

    def add_function_specs(self, specs: Sequence[Mapping[str, Any]]) -> None:
        """Take the specs of functions that nodes behind this one run. The same specs may come again."""


@runtime_checkable
class RunsFunctions(Protocol):
    """A command that runs functions for a model."""

    def function_specs(self) -> Sequence[Mapping[str, Any]]:
        """Return the specs of its functions: name, description, and the JSON Schema of the parameters."""
