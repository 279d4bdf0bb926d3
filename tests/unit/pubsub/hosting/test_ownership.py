"""Whose a request is while partitions move: which writes may begin, and what is waited for."""

import asyncio

import pytest

from afl_stream.pubsub.event_stores.store import RequestKey
from afl_stream.pubsub.hosting.failures import RequestMoved
from afl_stream.pubsub.hosting.ownership import Ownership
from tests.unit.pubsub.running.small_workflows import run, turns

KEY = RequestKey("orders", "r1")


def test_nothing_is_written_of_a_request_that_is_given_up() -> None:
    async def check() -> None:
        ownership = Ownership(KEY)
        await ownership.begin_write()
        ownership.end_write()

        ownership.give_up()

        with pytest.raises(RequestMoved):
            await ownership.begin_write()

    run(check())


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_write_waits_until_it_is_known_whose_the_request_is(comes_back: bool) -> None:
    async def check() -> None:
        ownership = Ownership(KEY)
        await ownership.suspend()
        writing = asyncio.create_task(ownership.begin_write())
        await turns()
        assert not writing.done()

        if comes_back:
            ownership.resume()
            await writing
        else:
            ownership.give_up()
            with pytest.raises(RequestMoved):
                await writing

    run(check())


def test_a_request_is_suspended_when_its_last_write_has_ended() -> None:
    async def check() -> None:
        ownership = Ownership(KEY)
        await ownership.begin_write()
        await ownership.begin_write()
        suspending = [asyncio.create_task(ownership.suspend()) for _ in range(2)]
        await turns()
        ownership.end_write()
        await turns()
        assert not any(task.done() for task in suspending)

        ownership.end_write()
        await asyncio.gather(*suspending)
        assert ownership.is_suspended

    run(check())
