"""Handlers that run at once: what waits for its turn."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from afl_stream.pubsub.subscriptions.flows import END
from afl_stream.pubsub.subscriptions.keyed_handlers import KeyedHandlers
from afl_stream.transport import Headers


@dataclass
class Behind:
    """What stands behind a value, by hand."""

    value: str
    key: bytes = b"k"
    headers: Headers = ()
    is_lost: bool = False
    where: str = "orders[0] offset 0"
    acknowledged: bool = False

    def ack(self) -> None:
        self.acknowledged = True


@dataclass
class Listed:
    """A flow of these values."""

    all: list[Behind]
    at: int = field(default=-1)

    @property
    def behind(self) -> Behind:
        return self.all[self.at]

    def take(self) -> object:
        self.at += 1
        return self.all[self.at].value if self.at < len(self.all) else END

    async def next(self, until_s: float | None = None) -> object:
        raise AssertionError


def test_values_whose_partition_was_lost_while_they_waited_are_left_to_the_next_owner() -> None:
    listed = [Behind("at work"), Behind("waits"), Behind("of another partition", b"other")]
    handled: list[str] = []

    async def handle(value: str) -> None:
        handled.append(value)
        for behind in listed[:2]:
            behind.is_lost = True
        await asyncio.sleep(0)

    asyncio.run(KeyedHandlers(Listed(listed), "handler", handle, 2, 10).run())

    assert handled == ["at work", "of another partition"]
    assert not listed[1].acknowledged
