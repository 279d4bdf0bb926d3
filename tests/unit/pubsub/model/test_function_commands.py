"""Functions as commands: what each kind of function yields, where it runs, and how it ends."""

import asyncio
import contextvars
import functools
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from afl_stream.pubsub import InvokeContext
from afl_stream.pubsub.model.commands import Command
from afl_stream.pubsub.model.function_command import FunctionCommand, command_of
from tests.eventually import eventually

T = TypeVar("T")
CONTEXT = InvokeContext(assistant_request_id="r1")
TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("TENANT", default="nobody's")
THREADS_NAME = "node-function"


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, within a time that no test needs."""

    async def bounded() -> T:
        async with asyncio.timeout(30):
            return await main

    return asyncio.run(bounded())


async def all_of(function: Callable[..., object]) -> list[object]:
    return [data async for data in FunctionCommand(function).invoke(CONTEXT, ())]


def yielded_by(function: Callable[..., object]) -> list[object]:
    return run(all_of(function))


def threads_of_generators() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREADS_NAME)]


# --- each kind of function ----------------------------------------------------------------------------------------


def plain(context: object, events: object) -> object:
    return [1, 2]


async def coroutine(context: object, events: object) -> object:
    await asyncio.sleep(0)
    return [1, 2]


def generator(context: object, events: object) -> Iterator[int]:
    yield 1
    yield 2


async def async_generator(context: object, events: object) -> AsyncGenerator[int, None]:
    yield 1
    yield 2


class Plain:
    def __call__(self, context: object, events: object) -> object:
        return [1, 2]

    def method(self, context: object, events: object) -> Iterator[int]:
        yield from (1, 2)


class Asynchronous:
    async def __call__(self, context: object, events: object) -> object:
        return [1, 2]

    async def method(self, context: object, events: object) -> AsyncGenerator[int, None]:
        yield 1
        yield 2


class Numbers:
    """An asynchronous iterator that is no generator."""

    def __init__(self) -> None:
        self._left = [2, 1]

    def __aiter__(self) -> "Numbers":
        return self

    async def __anext__(self) -> int:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


def with_more(more: object, context: object, events: object) -> object:
    return [1, 2]


async def later(more: object, context: object, events: object) -> object:
    return [1, 2]


@pytest.mark.parametrize(
    "function",
    [
        plain,
        coroutine,
        Plain(),
        Asynchronous(),
        functools.partial(with_more, None),
        functools.partial(later, None),
        functools.partial(Asynchronous()),
        lambda context, events: coroutine(context, events),
    ],
)
def test_what_a_function_returns_is_one_item(function: Callable[..., object]) -> None:
    assert yielded_by(function) == [[1, 2]]


@pytest.mark.parametrize(
    "function",
    [
        generator,
        async_generator,
        Plain().method,
        Asynchronous().method,
        functools.partial(generator),
        lambda context, events: generator(context, events),
        lambda context, events: async_generator(context, events),
        lambda context, events: iter([1, 2]),
        lambda context, events: Numbers(),
    ],
)
def test_what_a_generator_yields_are_items_of_their_own(function: Callable[..., object]) -> None:
    assert yielded_by(function) == [1, 2]


def test_none_is_no_item_when_it_is_returned_and_one_when_it_is_yielded() -> None:
    assert yielded_by(lambda context, events: None) == []
    assert yielded_by(lambda context, events: iter([None])) == [None]


def test_a_coroutine_may_return_a_generator() -> None:
    async def chosen(context: object, events: object) -> object:
        return async_generator(context, events)

    assert yielded_by(chosen) == [1, 2]


def test_commands_stay_and_functions_become_commands() -> None:
    command = FunctionCommand(plain)

    assert command_of(command) is command
    assert isinstance(command_of(plain), FunctionCommand)
    assert isinstance(command, Command)
    assert command_of("plain") is None
    assert command_of(FunctionCommand) is None


# --- threads and context ------------------------------------------------------------------------------------------


def test_coroutines_and_asynchronous_generators_run_on_the_event_loop() -> None:
    async def returns(context: object, events: object) -> object:
        return threading.get_ident()

    async def yields(context: object, events: object) -> AsyncGenerator[int, None]:
        yield threading.get_ident()

    assert yielded_by(returns) == yielded_by(yields) == [threading.get_ident()]


def test_a_plain_function_may_block_while_the_event_loop_goes_on() -> None:
    is_told = threading.Event()

    def waits(context: object, events: object) -> object:
        return is_told.wait(30)

    async def main() -> list[object]:
        waiting = asyncio.create_task(all_of(waits))
        await asyncio.sleep(0)
        is_told.set()
        return await waiting

    assert run(main()) == [True]


def test_a_generator_runs_in_one_thread_from_its_first_item_to_its_last() -> None:
    def threads(context: object, events: object) -> Iterator[int]:
        for _ in range(5):
            yield threading.get_ident()

    found = set(yielded_by(threads))
    assert len(found) == 1
    assert threading.get_ident() not in found
    eventually(lambda: not threads_of_generators())


@pytest.mark.parametrize("kind", ["plain", "generator"])
def test_functions_in_threads_see_the_callers_context(kind: str) -> None:
    def plain(context: object, events: object) -> object:
        return TENANT.get()

    def generator(context: object, events: object) -> Iterator[str]:
        yield TENANT.get()
        TENANT.set("mine")
        yield TENANT.get()

    async def main() -> list[object]:
        TENANT.set("a tenant's")
        items = await all_of({"plain": plain, "generator": generator}[kind])
        return [*items, TENANT.get()]

    own = ["mine"] if kind == "generator" else []
    assert run(main()) == ["a tenant's", *own, "a tenant's"]


def test_a_generator_makes_no_item_before_it_is_wanted() -> None:
    made: list[int] = []

    def counts(context: object, events: object) -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    async def main() -> None:
        async with aclosing(FunctionCommand(counts).invoke(CONTEXT, ())) as items:
            assert [await anext(items) for _ in range(3)] == [0, 1, 2]
            assert made == [0, 1, 2]

    run(main())


# --- failures and cancellation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k"), CancelledError(), TimeoutError(), SystemExit(3)])
@pytest.mark.parametrize("kind", ["plain", "generator", "coroutine"])
def test_an_exception_arrives_as_it_was_raised(error: BaseException, kind: str) -> None:
    def plain(context: object, events: object) -> object:
        raise error

    def generator(context: object, events: object) -> Iterator[int]:
        yield 1
        raise error

    async def coroutine(context: object, events: object) -> object:
        raise error

    async def main() -> BaseException:
        with pytest.raises(type(error)) as raised:
            await all_of({"plain": plain, "generator": generator, "coroutine": coroutine}[kind])
        return raised.value

    assert run(main()) is error


def test_a_function_that_raises_stop_iteration_does_not_hang() -> None:
    def empty(context: object, events: object) -> object:
        return next(iter(()))

    async def main() -> BaseException | None:
        with pytest.raises(RuntimeError) as raised:
            await all_of(empty)
        return raised.value.__cause__

    assert isinstance(run(main()), StopIteration)


def test_a_generator_is_closed_in_its_thread_when_its_consumer_leaves() -> None:
    threads: list[int] = []

    def counts(context: object, events: object) -> Iterator[int]:
        try:
            for number in range(1_000_000):
                threads.append(threading.get_ident())
                yield number
        finally:
            threads.append(threading.get_ident())

    async def main() -> None:
        async with aclosing(FunctionCommand(counts).invoke(CONTEXT, ())) as items:
            assert await anext(items) == 0

    run(main())
    eventually(lambda: len(threads) == 2 and not threads_of_generators())
    assert threads[0] == threads[1] != threading.get_ident()


def test_no_thread_iterates_on_after_a_cancellation() -> None:
    is_at_second, may_go_on, is_closed = threading.Event(), threading.Event(), threading.Event()
    made: list[int] = []

    def counts(context: object, events: object) -> Iterator[int]:
        try:
            for number in range(1_000_000):
                if number == 1:
                    is_at_second.set()
                    may_go_on.wait(30)
                made.append(number)
                yield number
        finally:
            is_closed.set()

    async def main() -> None:
        task = asyncio.create_task(all_of(counts))
        await asyncio.to_thread(is_at_second.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not is_closed.is_set()

    run(main())
    may_go_on.set()
    eventually(lambda: is_closed.is_set() and not threads_of_generators())
    assert made == [0, 1]


def test_a_generator_that_fails_when_it_is_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def stubborn(context: object, events: object) -> Iterator[int]:
        try:
            yield 1
        finally:
            raise OSError("the file is gone")

    async def main() -> None:
        async with aclosing(FunctionCommand(stubborn).invoke(CONTEXT, ())) as items:
            await anext(items)

    run(main())
    eventually(lambda: "the file is gone" in caplog.text)


def test_an_asynchronous_generator_is_closed_with_its_invocation() -> None:
    closed: list[str] = []

    async def counts(context: object, events: object) -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    async def main() -> None:
        async with aclosing(FunctionCommand(counts).invoke(CONTEXT, ())) as items:
            await anext(items)
        assert closed == ["closed"]

    run(main())


def test_an_ended_generator_is_not_kept() -> None:
    class Data(list[int]):
        pass

    kept: list[weakref.ref[Data]] = []

    def makes(context: object, events: object) -> Iterator[object]:
        data = Data([1])
        kept.append(weakref.ref(data))
        yield data

    async def main() -> None:
        async for _ in FunctionCommand(makes).invoke(CONTEXT, ()):
            pass

    run(main())
    eventually(lambda: kept[0]() is None)
