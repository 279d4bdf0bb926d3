"""One iteration over a stream: values are pulled through its stages, with what acknowledges them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from types import CoroutineType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from afl.core.text.exception_text import exception_class, exception_text
from afl_stream.pubsub.errors import StageFailed
from afl_stream.pubsub.subscriptions.acknowledgements import Acknowledgement, BatchAck, SharedAck


class Mark(Enum):
    """What a flow gives in place of a value."""

    #: No value is here now: wait for the next one.
    NOTHING = auto()
    #: No value will come any more.
    END = auto()
    #: A filter left the value out.
    LEFT_OUT = auto()


NOTHING: Final = Mark.NOTHING
END: Final = Mark.END
_LEFT_OUT: Final = Mark.LEFT_OUT

#: A function of a stage: plain, or one that is awaited.
Function: TypeAlias = Callable[[Any], object]


class Keeps(Enum):
    """What a stage makes of the values before it: the same values, lists of them, or others."""

    VALUES = auto()
    LISTS = auto()
    OTHERS = auto()


class Flow(Protocol):
    """Values that are pulled, one at a time."""

    @property
    def behind(self) -> Acknowledgement:
        """What stands behind the value that was pulled last."""

    def take(self) -> object:
        """Return the next value if that needs no wait, NOTHING if it does, END if none will come."""

    async def next(self, until_s: float | None = None) -> object:
        """Return the next value, NOTHING when the event loop's time has reached `until_s`, END if none will come."""


class Step(NamedTuple):
    """A function that each value goes through."""

    name: str
    function: Function
    is_filter: bool

    @property
    def keeps(self) -> Keeps:
        """What it makes of the values before it."""
        return Keeps.VALUES if self.is_filter else Keeps.OTHERS


class FunctionsFlow:
    """Filters and maps, one after the other. A value that a filter leaves out is acknowledged."""

    def __init__(self, before: Flow, steps: Sequence[Step]) -> None:
        self._before = before
        self._steps = tuple(steps)
        self.behind: Acknowledgement
        #: A value at a function that is to be awaited, and the function's number.
        self._started: tuple[CoroutineType[Any, Any, object], object, int] | None = None
        #: A value whose function was cancelled, and the function's number: it is called again.
        self._interrupted: tuple[object, int] | None = None

    def take(self) -> object:
        before = self._before
        while True:
            if self._interrupted is not None:
                value = self._apply_again()
            else:
                value = before.take()
                if value is NOTHING or value is END:
                    return value
                self.behind = before.behind
                value = self._apply(value, 0)
            if value is not _LEFT_OUT:
                return value

    async def next(self, until_s: float | None = None) -> object:
        while True:
            if self._started is not None:
                value = await self._finish()
            elif self._interrupted is not None:
                value = self._apply_again()
            else:
                value = await self._before.next(until_s)
                if value is NOTHING or value is END:
                    return value
                self.behind = self._before.behind
                value = self._apply(value, 0)
            if value is not _LEFT_OUT and value is not NOTHING:
                return value

    def _apply(self, value: object, first: int) -> object:
        """Return the value behind the steps from `first` on; NOTHING: it stands at one that is awaited."""
        at = first
        try:
            for _, function, is_filter in self._steps[first:] if first else self._steps:
                result = function(value)
                if result.__class__ is CoroutineType:
                    self._started = result, value, at
                    return NOTHING
                if not is_filter:
                    value = result
                elif not result:
                    self.behind.ack()
                    return _LEFT_OUT
                at += 1
        except Exception as error:
            raise failure(self._steps[at].name, self.behind, error) from error
        return value

    def _apply_again(self) -> object:
        assert self._interrupted is not None
        (value, at), self._interrupted = self._interrupted, None
        return self._apply(value, at)

    async def _finish(self) -> object:
        assert self._started is not None
        (awaited, value, at), self._started = self._started, None
        step = self._steps[at]
        try:
            result = await awaited
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled(error):
                # The program may ask again, after a time-out say.
                self._interrupted = value, at
                raise
            raise failure(step.name, self.behind, error) from error
        if step.is_filter and not result:
            self.behind.ack()
            return _LEFT_OUT
        return self._apply(value if step.is_filter else result, at + 1)


class FlatMapFlow:
    """The items that a function makes of each value: an iterable, or one that is iterated asynchronously.

    The message behind them is acknowledged when all of its items are. When the program stops waiting for an item, and
    asks again later, all items of the message are made again: a generator does not outlive that.
    """

    def __init__(self, before: Flow, name: str, function: Function) -> None:
        self._before = before
        self._name, self._function = name, function
        self.behind: Acknowledgement
        self._shared: SharedAck | None = None
        self._value: object = None
        self._items: Iterator[object] | AsyncIterator[object] | None = None

    def take(self) -> object:
        # Making the items may have to be awaited.
        return NOTHING

    async def next(self, until_s: float | None = None) -> object:
        while True:
            if self._shared is None:
                value = await self._before.next(until_s)
                if value is NOTHING or value is END:
                    return value
                self._shared, self._value = SharedAck(self._before.behind), value
            shared = self._shared
            try:
                if self._items is None:
                    self._items = await _iterator_of(self._function(self._value))
                item = await _next_of(self._items)
            except (Exception, asyncio.CancelledError) as error:
                self._items = None
                if is_cancelled(error):
                    raise
                self._shared = self._value = None
                raise failure(self._name, shared.whole, error) from error
            if item is END:
                self._shared = self._value = self._items = None
                shared.release()
                continue
            self.behind = shared.part()
            return item


class BatchFlow:
    """Lists of up to `size` values: complete, or as many as came within a time after the first."""

    def __init__(self, before: Flow, size: int, within_s: float) -> None:
        self._before = before
        self._size, self._within_s = size, within_s
        self.behind: Acknowledgement
        self._values: list[object] = []
        self._behind: list[Acknowledgement] = []
        self._until_s = 0.0
        self._has_ended = False

    def take(self) -> object:
        before, values = self._before, self._values
        while len(values) < self._size:
            value = before.take()
            if value is NOTHING:
                return NOTHING
            if value is END:
                self._has_ended = True
                break
            self._add(value)
        return self._batch()

    async def next(self, until_s: float | None = None) -> object:
        while not self._has_ended and len(self._values) < self._size:
            limit_s = until_s if not self._values else _earlier(until_s, self._until_s)
            value = await self._before.next(limit_s)
            if value is END:
                self._has_ended = True
            elif value is not NOTHING:
                self._add(value)
            elif self._values and asyncio.get_running_loop().time() >= self._until_s:
                break
            else:
                return NOTHING
        return self._batch()

    def _add(self, value: object) -> None:
        if not self._values:
            self._until_s = asyncio.get_running_loop().time() + self._within_s
        self._values.append(value)
        self._behind.append(self._before.behind)

    def _batch(self) -> object:
        if not self._values:
            return END
        self.behind = BatchAck(self._behind)
        values, self._values, self._behind = self._values, [], []
        return values


class TakeFlow:
    """The first values, and no more."""

    def __init__(self, before: Flow, count: int) -> None:
        self._before = before
        self._left = count

    @property
    def behind(self) -> Acknowledgement:
        return self._before.behind

    def take(self) -> object:
        return self._counted(self._before.take()) if self._left > 0 else END

    async def next(self, until_s: float | None = None) -> object:
        return self._counted(await self._before.next(until_s)) if self._left > 0 else END

    def _counted(self, value: object) -> object:
        if value is not NOTHING and value is not END:
            self._left -= 1
        return value


def is_cancelled(error: BaseException) -> bool:
    """Return whether the task that runs was cancelled: a function may as well await what another one has cancelled."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def failure(name: str, behind: Acknowledgement, error: BaseException) -> StageFailed:
    """Return the error of a stage that raised."""
    return StageFailed(name, behind.where, f"{exception_class(error)}: {exception_text(error)}")


def _earlier(one_s: float | None, other_s: float) -> float:
    return other_s if one_s is None else min(one_s, other_s)


async def _iterator_of(made: object) -> Iterator[object] | AsyncIterator[object]:
    if made.__class__ is CoroutineType:
        made = await made
    if isinstance(made, AsyncIterable):
        return aiter(made)
    if isinstance(made, Iterable):
        return iter(made)
    raise TypeError(f"flat_map needs a function that returns an iterable, found {type(made).__name__}")


async def _next_of(items: Iterator[object] | AsyncIterator[object]) -> object:
    if isinstance(items, AsyncIterator):
        return await anext(items, END)
    return next(items, END)
