"""A program that republishes one topic to another, as a process of its own.

    python -m tests.worlds.republishing_process numbers doubled

Settings come from the environment (`AFL_...`). It writes "ready" when it has partitions, and kills itself at the crash
point that `--die-at` names, after so many passes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.pubsub import Message, Publisher, Subscription, SubscriptionSettings, republish
from afl_stream.settings.config import load_config


class Killer:
    """A probe that ends the process as SIGKILL does."""

    def __init__(self, point: str | None, passes: int) -> None:
        self._point, self._left = point, passes

    def probe(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


def doubled(message: Message) -> dict[str, int]:
    return {"doubled": 2 * int(message.value or b"")}


async def work(source: str, target: str, killer: Killer) -> None:
    config = load_config()
    transport = KafkaTransport(config)
    settings = SubscriptionSettings(commit_interval_s=0.1, max_buffered=100, probe=killer.probe)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        Subscription(transport, config, "doubler", topics=[source], settings=settings) as numbers,
        Publisher(transport) as publisher,
    ):
        republishing = asyncio.create_task(
            republish(numbers.map(doubled), publisher, target, probe=killer.probe), name="republishing"
        )
        stopping = asyncio.create_task(stop.wait())
        while not numbers.partitions and not republishing.done():
            await asyncio.sleep(0.02)
        sys.stdout.write("ready\n")
        await asyncio.wait((republishing, stopping), return_when=asyncio.FIRST_COMPLETED)
        republishing.cancel()
        stopping.cancel()
        await asyncio.wait((republishing, stopping))
        if not republishing.cancelled():
            republishing.result()
    transport.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--die-at")
    parser.add_argument("--passes", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    asyncio.run(work(options.source, options.target, Killer(options.die_at, options.passes)))


if __name__ == "__main__":
    main()
