"""The event loop of a bridge runs what other threads give it, and never waits for itself."""

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from threading import Thread

import pytest

from afl_stream.bridge.errors import BridgeNotRunning, WaitsForItself
from afl_stream.bridge.loop_thread import LoopThread
from tests.worlds.hosted import PATIENCE_S


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


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns a thousand times as often: what comes between two steps does so in some of many runs."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


@pytest.mark.usefixtures("hasty_threads")
def test_nobody_waits_for_a_loop_that_is_closed_meanwhile() -> None:
    """Each call is answered, refused, or cancelled: none is put behind the end, where nothing is begun any more."""
    for _ in range(200):
        loop = LoopThread("test")
        loop.start()
        ended: list[type[BaseException]] = []

        def call_until_closed(loop: LoopThread = loop, ended: list[type[BaseException]] = ended) -> None:
            try:
                while True:
                    assert loop.call(answer()) == 42
            except (BridgeNotRunning, CancelledError) as error:
                ended.append(type(error))

        threads = [Thread(target=call_until_closed, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        loop.close()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(ended) == len(threads)
