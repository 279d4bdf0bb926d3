"""Streams: the messages of a subscription, filtered, mapped and gathered. Each stage makes a new stream."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

from afl_stream.pubsub.errors import SubscriptionInvalid
from afl_stream.pubsub.subscriptions.acknowledgements import Acknowledgement
from afl_stream.pubsub.subscriptions.flows import (
    END,
    NOTHING,
    BatchFlow,
    FlatMapFlow,
    Flow,
    Function,
    FunctionsFlow,
    Keeps,
    Step,
    TakeFlow,
)
from afl_stream.pubsub.subscriptions.keyed_handlers import KeyedHandlers
from afl_stream.transport import Headers

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


class Origin(Protocol):
    """A subscription, as its streams see it."""

    name: str

    @property
    def auto_ack(self) -> bool:
        """Return whether a value is acknowledged when the next one is asked for."""

    @property
    def max_pending(self) -> int:
        """Return how many values concurrent handlers may have taken."""

    def messages(self) -> Flow:
        """Return the subscription's messages. Raises SubscriptionClosed."""


class Gathering(NamedTuple):
    """A stage that is not one function for each value. `keeps`: whether its values are those before it, or lists."""

    flow: Callable[[Flow], Flow]
    keeps: Keeps


class Item(Generic[T]):
    """A value of a stream, with the acknowledgement of what stands behind it."""

    __slots__ = ("_behind", "value")

    def __init__(self, value: T, behind: Acknowledgement) -> None:
        self.value = value
        self._behind = behind

    def ack(self) -> None:
        """Say that nothing is left to do for this value; see Message.ack."""
        self._behind.ack()

    @property
    def key(self) -> bytes | None:
        """The key of the message behind it; of a batch, that of its first."""
        return self._behind.key

    @property
    def headers(self) -> Headers:
        """The headers of the message behind it; of a batch, those of its first."""
        return self._behind.headers

    @property
    def where(self) -> str:
        """Topic, partition and offset of what stands behind it, in words."""
        return self._behind.where


class Stream(Generic[T]):
    """The values of a subscription behind some stages.

    Iterating gives the values; each is acknowledged when the next one is asked for, if the subscription has `auto_ack`.
    `items` gives them with an acknowledgement of their own. A value that is left out by a filter is acknowledged, a
    mapped one stands for its message, a batch for all of its messages. A stage that raises ends the iteration with
    StageFailed, and its message is not acknowledged. Functions may be coroutine functions.
    """

    def __init__(self, origin: Origin, stages: tuple[Step | Gathering, ...] = ()) -> None:
        self._origin = origin
        self._stages = stages

    def filter(self, predicate: Callable[[T], bool | Awaitable[bool]]) -> Stream[T]:
        """Keep the values for which this holds."""
        return Stream(self._origin, (*self._stages, self._step("filter", predicate, is_filter=True)))

    @overload
    def map(self, function: Callable[[T], Coroutine[Any, Any, U]]) -> Stream[U]: ...
    @overload
    def map(self, function: Callable[[T], U]) -> Stream[U]: ...
    def map(self, function: Callable[[T], Any]) -> Stream[Any]:
        """Put the function's result in the place of each value."""
        return Stream(self._origin, (*self._stages, self._step("map", function, is_filter=False)))

    @overload
    def flat_map(self, function: Callable[[T], Coroutine[Any, Any, Iterable[U]]]) -> Stream[U]: ...
    @overload
    def flat_map(self, function: Callable[[T], AsyncIterable[U] | Iterable[U]]) -> Stream[U]: ...
    def flat_map(self, function: Callable[[T], Any]) -> Stream[Any]:
        """Put the items that the function makes in the place of each value; none leave it out."""
        name = self._name("flat_map", function)
        gathering = Gathering(partial(FlatMapFlow, name=name, function=function), Keeps.OTHERS)
        return Stream(self._origin, (*self._stages, gathering))

    def batch(self, size: int, within_s: float = 1.0) -> Stream[list[T]]:
        """Gather lists of `size` values, or of those that came within a time after the first."""
        if size < 1 or within_s < 0:
            raise SubscriptionInvalid(self._origin.name, f"batch({size}, {within_s}): at least 1, within 0 s or more")
        gathering = Gathering(partial(BatchFlow, size=size, within_s=within_s), Keeps.LISTS)
        return Stream(self._origin, (*self._stages, gathering))

    def take(self, count: int) -> Stream[T]:
        """End after so many values."""
        return Stream(self._origin, (*self._stages, Gathering(partial(TakeFlow, count=count), Keeps.VALUES)))

    def items(self) -> Items[T]:
        """Return an iterator of the values with their acknowledgements, which are given by `item.ack()` alone."""
        return Items(self._flow())

    def __aiter__(self) -> Values[T]:
        """Iterate. Raises SubscriptionInvalid for mapped values without auto_ack: they have no acknowledgement."""
        if not self._origin.auto_ack and self._keeps(Keeps.OTHERS):
            raise SubscriptionInvalid(
                self._origin.name, "auto_ack is off and mapped values have no ack: iterate over items() of the stream"
            )
        return Values(self._flow(), auto_ack=self._origin.auto_ack)

    async def run(
        self, handler: Callable[[T], Awaitable[object]] | Callable[[T], object], *, concurrency: int = 1
    ) -> None:
        """Call the handler for each value until the stream ends; a value is acknowledged when its handler returns.

        With `concurrency`, so many handlers run at once: those of one key one after the other, in the order of their
        partition; messages without a key have no order. A handler that raises ends it with StageFailed: the others are
        cancelled, and what is not finished is not acknowledged.
        """
        if concurrency > 1 and self._keeps(Keeps.LISTS):
            raise SubscriptionInvalid(self._origin.name, "batches have no key: run them with a concurrency of 1")
        name = self._name("handler", handler)
        await KeyedHandlers(self._flow(), name, handler, concurrency, self._origin.max_pending).run()

    def _keeps(self, keeps: Keeps) -> bool:
        return any(stage.keeps is keeps for stage in self._stages)

    def _flow(self) -> Flow:
        flow = self._origin.messages()
        steps: list[Step] = []
        for stage in self._stages:
            if isinstance(stage, Step):
                steps.append(stage)
                continue
            flow = FunctionsFlow(flow, steps) if steps else flow
            flow, steps = stage.flow(flow), []
        return FunctionsFlow(flow, steps) if steps else flow

    def _step(self, kind: str, function: Function, *, is_filter: bool) -> Step:
        return Step(self._name(kind, function), function, is_filter)

    def _name(self, kind: str, function: Function | None = None) -> str:
        """Return a stage's name for messages: the subscription's, its number, its kind, and the function's name."""
        of_function = "" if function is None else f" {getattr(function, '__name__', type(function).__name__)}"
        return f"subscription {self._origin.name}, stage {len(self._stages) + 1}, {kind}{of_function}"


class Values(Generic[T]):
    """An iteration over the values of a stream."""

    def __init__(self, flow: Flow, *, auto_ack: bool) -> None:
        self._flow = flow
        self._auto_ack = auto_ack
        self._last: Acknowledgement | None = None

    def __aiter__(self) -> Values[T]:
        return self

    async def __anext__(self) -> T:
        last = self._last
        if last is not None:
            self._last = None
            last.ack()
        flow = self._flow
        value = flow.take()
        if value is NOTHING:
            value = await flow.next()
        if value is END:
            raise StopAsyncIteration
        if self._auto_ack:
            self._last = flow.behind
        return value  # type: ignore[return-value]  # the stages' types say which it is


class Items(Generic[T]):
    """An iteration over the values of a stream, with their acknowledgements."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def __aiter__(self) -> Items[T]:
        return self

    async def __anext__(self) -> Item[T]:
        flow = self._flow
        value = flow.take()
        if value is NOTHING:
            value = await flow.next()
        if value is END:
            raise StopAsyncIteration
        return Item(value, flow.behind)  # type: ignore[arg-type]  # the stages' types say which it is
