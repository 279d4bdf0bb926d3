"""Live pages: one look at the store for all of them, and none when nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from afl_stream.dashboard.live import MOST_SUBJECTS, LiveHub, TooManySubjects
from tests.scenarios.dashboard.world import Shop
from tests.worlds.hosted import until


async def _changed(messages: AsyncIterator[str]) -> None:
    async for message in messages:
        if message.startswith("event: changed"):
            return


def test_a_hundred_pages_ask_the_store_as_often_as_one(shop: Shop) -> None:
    shop.local.start("Approval", {"order": "h"}, workflow_id="hundred-1")
    shop.wait_for("hundred-1", "PAUSED")
    hub = LiveHub(shop.deployment(), interval_s=0.05)

    async def watch() -> int:
        pages = [asyncio.create_task(_changed(hub.messages("run", "hundred-1"))) for _ in range(100)]
        await until(lambda: hub.looks >= 3)
        assert hub.page_count == 100
        step = shop.waiting_step("hundred-1")
        await asyncio.to_thread(shop.local.client.continue_step, step, {"by": "ada"})
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(asyncio.gather(*pages), 10)
        for task in pages:
            await task
        return int((asyncio.get_running_loop().time() - began) / 0.05) + 5

    most = asyncio.run(watch())

    assert hub.looks <= most
    assert hub.page_count == 0


def test_nothing_is_looked_for_when_no_page_is_open(shop: Shop) -> None:
    hub = LiveHub(shop.deployment(), interval_s=0.01)

    async def open_and_close() -> None:
        messages = hub.messages("run", "good-1")
        await anext(messages)
        await until(lambda: hub.looks >= 2)
        await messages.aclose()  # type: ignore[attr-defined]  # a generator, which its type does not tell
        # What looks has ended.
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    asyncio.run(open_and_close())
    assert hub.page_count == 0


def test_a_stopped_server_ends_its_pages(shop: Shop) -> None:
    hub = LiveHub(shop.deployment(), interval_s=0.01)

    async def open_and_stop() -> list[str]:
        found: list[str] = []

        async def read() -> None:
            async for message in hub.messages("runs", ""):
                found.append(message)

        reading = asyncio.create_task(read())
        while hub.page_count == 0:
            await asyncio.sleep(0.01)
        hub.close()
        await asyncio.wait_for(reading, 5)
        return found

    assert asyncio.run(open_and_stop()) == ["retry: 3000\n\n"]


def test_so_many_different_things_are_not_looked_at_at_once(shop: Shop) -> None:
    hub = LiveHub(shop.deployment(), interval_s=5)

    async def open_too_many() -> None:
        opened = [hub.messages("run", f"r-{number}") for number in range(MOST_SUBJECTS)]
        for messages in opened:
            await anext(messages)
        hub.require_room("run", "r-1")
        with pytest.raises(TooManySubjects):
            hub.require_room("run", "one-more")
        for messages in opened:
            await messages.aclose()  # type: ignore[attr-defined]  # a generator, which its type does not tell
        hub.require_room("run", "one-more")

    asyncio.run(open_too_many())
