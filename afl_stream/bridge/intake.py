"""Records of one topic that the bridge takes in: each is handled, or dead-lettered, before its offset moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from afl.core.backoff import FailedAttempts
from afl.core.clock import epoch_ms
from afl.core.text.exception_text import exception_line
from afl.core.text.warning_limits import LimitedLog
from afl_stream.bridge.arrivals import Arrival, reading_of
from afl_stream.bridge.errors import RecordRefused
from afl_stream.bridge.resources import BridgeResources
from afl_stream.bridge.retrying import BACKOFF, PASSING, is_elsewhere
from afl_stream.bridge.topics import AnyTopic
from afl_stream.errors import StreamError
from afl_stream.pubsub import Message, Subscription, SubscriptionSettings
from afl_stream.transport import RecordTooLarge
from afl_stream.wire.dead_letters import dead_letter_headers, value_omitted

_log = logging.getLogger(__name__)

#: Records that are handled at once.
MAX_AT_ONCE: Final = 256
#: How often offsets are committed: what was handled since comes again after a crash.
COMMIT_INTERVAL_S: Final = 0.1

#: Does what a record is for, and returns when that is durable.
Handling = Callable[[Arrival], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeSource:
    """What an intake reads, for which subscription: the topic, its name on the cluster, the topic of dead letters."""

    topic: AnyTopic
    name: str
    subscription: str
    dead_letters: str


class Intake:
    """Reads one topic in a group of its own. On the bridge's event loop.

    A record's way, in this order:
      1. it is read and decoded,                                        (bridge.read)
      2. it is handled; or it becomes a dead letter, with the reason,   (bridge.dead_lettered)
      3. it is acknowledged, and the subscription commits its offset.

    A crash before the commit delivers the record again: what handles it does nothing for an id that it knows. What may
    succeed later is tried again, and holds up nothing but the window of its partition. A topic that is gone, and a
    right that is missing, end the intake: they are no fault of the record.
    """

    def __init__(self, resources: BridgeResources, source: IntakeSource, handle: Handling) -> None:
        self._resources = resources
        self._source = source
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._warnings = LimitedLog(_log)

    async def run(self, stopping: asyncio.Event, is_open: asyncio.Event) -> None:
        """Read until `stopping` is set. Then what is at work may end within the grace period; the rest comes again.

        `is_open` is set when the group was joined. Raises what ends the subscription, and what no handling may catch.
        """
        resources, source = self._resources, self._source
        settings = SubscriptionSettings(auto_ack=False, commit_interval_s=COMMIT_INTERVAL_S, codec=resources.codec)
        subscription = Subscription(
            resources.transport, resources.config, source.subscription, topics=[source.name], settings=settings
        )
        async with subscription:
            is_open.set()
            reading = self._reading = asyncio.create_task(self._read_all(subscription))
            stop = asyncio.create_task(stopping.wait())
            try:
                await asyncio.wait((reading, stop), return_when=asyncio.FIRST_COMPLETED)
            finally:
                reading.cancel()
                stop.cancel()
                await asyncio.wait((reading, stop))
                await self._finish()
        if self._error is not None:
            raise self._error
        if not reading.cancelled():
            reading.result()

    async def _read_all(self, subscription: Subscription) -> None:
        read = reading_of(self._source.topic, self._resources)
        room = asyncio.Semaphore(MAX_AT_ONCE)
        async for message in subscription:
            await room.acquire()
            task = asyncio.create_task(self._take(message, read))
            self._tasks.add(task)
            task.add_done_callback(self._on_done)
            task.add_done_callback(lambda _done: room.release())

    def _on_done(self, done: asyncio.Task[None]) -> None:
        self._tasks.discard(done)
        if done.cancelled() or (error := done.exception()) is None:
            return
        if self._error is None:
            self._error = error
        if self._reading is not None:
            self._reading.cancel()

    async def _finish(self) -> None:
        if self._tasks and self._error is None:
            await asyncio.wait(self._tasks, timeout=self._resources.config.agent.grace_s)
        if left := set(self._tasks):
            for task in left:
                task.cancel()
            await asyncio.wait(left)

    async def _take(self, message: Message, read: Callable[[Message], Arrival]) -> None:
        failures = FailedAttempts(BACKOFF)
        letter: Exception | None = None
        while True:
            try:
                if letter is None:
                    arrival = read(message)
                    self._resources.probe("bridge.read")
                    await self._handle(arrival)
                else:
                    await self._dead_letter(message, letter)
                break
            except PASSING as error:
                self._resources.counters.add("retried")
                self._warnings.warning(
                    f"retries of {message.topic}", "%s is tried again: %s", message.where, exception_line(error)
                )
                await asyncio.sleep(failures.next_wait_s())
                if message.is_lost:
                    # The partition's next owner has it by now.
                    return
            except Exception as error:
                if letter is not None or is_elsewhere(error):
                    raise
                letter = error
        message.ack()

    async def _dead_letter(self, message: Message, error: Exception) -> None:
        told = error if isinstance(error, StreamError) else RecordRefused(message.where, exception_line(error))
        headers = dead_letter_headers(message, told, at_ms=epoch_ms())
        publisher, topic = self._resources.publisher, self._source.dead_letters
        try:
            await publisher.publish_and_wait(topic, message.value, key=message.key, headers=headers)
        except RecordTooLarge:
            bare = (*headers, value_omitted(message.value))
            await publisher.publish_and_wait(topic, None, key=message.key, headers=bare)
        self._resources.counters.add("dead_lettered")
        self._warnings.error(f"dead letters of {message.topic}", "%s is dead-lettered: %s", message.where, told)
        self._resources.probe("bridge.dead_lettered")
