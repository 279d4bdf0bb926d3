"""Calls of handlers: their time, their threads, their loops, and what is left of them afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from afl.engine.model.entities import TaskDefinition
from afl.workers.call_threads import CallsHere, CallThreads, HandlerTimeout
from afl.workers.task_context import TaskContext
from tests.eventually import eventually

TASK = TaskDefinition(
    uuid="run:1#1", name="a.B", runner_id="", workflow_id="run", flow_id="", step_id="run:1", state="running"
)


def context() -> TaskContext:
    return TaskContext(TASK, lambda partial: None, lambda: False, lambda: False)


@pytest.fixture
def threads() -> Iterator[CallThreads]:
    made = CallThreads()
    yield made
    made.close()


@pytest.fixture
def ours() -> Callable[[], list[str]]:
    """Return the names of the threads of this test; others may have left handlers behind."""
    others = set(threading.enumerate())
    return lambda: sorted(t.name for t in threading.enumerate() if t.name.startswith("afl-task") and t not in others)


def test_a_call_that_was_given_up_before_it_began_is_not_made(threads: CallThreads) -> None:
    # With no time at all some begin and others do not; none of them may end its thread with an error.
    for _ in range(200):
        with pytest.raises(HandlerTimeout):
            threads.call(lambda payload: threading.Event().wait(0.2), {}, context(), 0.0)

    assert threads.call(lambda payload: payload, {"a": 1}, context(), 5.0) == {"a": 1}


def test_threads_are_used_again_and_go_when_all_is_closed(threads: CallThreads, ours: Callable[[], list[str]]) -> None:
    for _ in range(20):
        threads.call(lambda payload: payload, {}, context(), 5.0)
    assert len(ours()) == 1

    threads.close()

    eventually(lambda: ours() == [])


def test_a_handler_out_of_time_keeps_nobody_and_its_thread_is_used_again(
    threads: CallThreads, ours: Callable[[], list[str]]
) -> None:
    may_continue = threading.Event()
    with pytest.raises(HandlerTimeout, match=r"within 0\.05 s"):
        threads.call(lambda payload: may_continue.wait(30), {}, context(), 0.05)

    assert threads.call(lambda payload: "another", {}, context(), 5.0) == "another"
    assert len(ours()) == 2
    may_continue.set()
    threads.close()
    eventually(lambda: ours() == [])


def test_a_function_that_returns_an_awaitable_has_one_time_for_both(threads: CallThreads) -> None:
    def handle(payload: dict[str, Any]) -> Awaitable[object]:
        threading.Event().wait(0.3)
        return asyncio.sleep(0.3, "late")

    with pytest.raises(HandlerTimeout, match=r"within 0\.4 s"):
        threads.call(handle, {}, context(), 0.4)
    assert threads.call(handle, {}, context(), 30.0) == "late"


def test_the_timeout_error_of_a_handler_is_its_own(threads: CallThreads) -> None:
    def handle(payload: dict[str, Any]) -> None:
        raise TimeoutError("the bank did not answer")

    with pytest.raises(TimeoutError, match="the bank did not answer"):
        threads.call(handle, {}, context(), 5.0)


def test_a_coroutine_out_of_time_is_cancelled(threads: CallThreads) -> None:
    cancelled = threading.Event()

    async def handle(payload: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(HandlerTimeout):
        threads.call(handle, {}, context(), 0.05)
    assert cancelled.wait(10)


def test_what_is_closed_starts_no_other_loop(threads: CallThreads, ours: Callable[[], list[str]]) -> None:
    async def handle(payload: dict[str, Any]) -> str:
        return "done"

    assert threads.call(handle, {}, context(), 5.0) == "done"
    threads.close()
    eventually(lambda: ours() == [])

    with pytest.raises(asyncio.CancelledError):
        threads.call(handle, {}, context(), 5.0)
    assert ours() == []


def test_each_thread_that_calls_for_itself_has_a_loop_of_its_own() -> None:
    calls = CallsHere()
    together = threading.Barrier(4, timeout=10)
    results: list[object] = []

    async def handle(payload: dict[str, Any]) -> str:
        together.wait()
        await asyncio.sleep(0.01)
        return "done"

    def call() -> None:
        results.append(calls.call(handle, {}, context(), 5.0))
        calls.close()

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert results == ["done"] * 4


def test_what_a_handler_leaves_running_in_the_callers_thread_ends_when_that_is_closed() -> None:
    calls = CallsHere()
    ended: list[str] = []

    async def beside() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("beside")

    async def handle(payload: dict[str, Any]) -> str:
        background.append(asyncio.ensure_future(beside()))
        await asyncio.sleep(0)
        return "done"

    background: list[object] = []
    assert calls.call(handle, {}, context(), None) == "done"
    calls.close()

    assert ended == ["beside"]
