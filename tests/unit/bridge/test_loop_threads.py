"""The event loop of a bridge runs what other threads give it, and never waits for itself."""

import asyncio

import pytest

from afl_stream.bridge.errors import BridgeNotRunning, WaitsForItself
from afl_stream.bridge.loop_thread import LoopThread


async def answer() -> int:
    return 42


def test_what_would_have_the_loop_wait_for_itself_is_refused_and_another_thread_may_ask() -> None:
    loop = LoopThread("test")
    loop.start()

    async def on_the_loop() -> int:
        with pytest.raises(WaitsForItself, match="another thread"):
            loop.call(answer())
        return await asyncio.to_thread(loop.call, answer())

    try:
        assert loop.call(on_the_loop()) == 42
    finally:
        loop.close()


def test_a_loop_that_is_closed_runs_nothing() -> None:
    loop = LoopThread("test")
    loop.start()
    loop.close()

    with pytest.raises(BridgeNotRunning):
        loop.call(answer())
