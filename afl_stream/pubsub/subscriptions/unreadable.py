"""Messages that cannot be decoded: left out, or sent to a dead-letter topic, before the program sees them."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.clock import epoch_ms
from afl.core.probes import Probe
from afl.core.text.warning_limits import LimitedLog
from afl_stream.errors import SchemaUnavailable, Unreadable
from afl_stream.pubsub.errors import SubscribedTopicMissing, SubscriptionClosed
from afl_stream.pubsub.subscriptions.acknowledgements import Acknowledgement
from afl_stream.pubsub.subscriptions.flows import END, NOTHING, Flow
from afl_stream.pubsub.subscriptions.message import Message
from afl_stream.pubsub.subscriptions.publisher import Publisher
from afl_stream.pubsub.subscriptions.settings import OnError
from afl_stream.transport import Transport
from afl_stream.wire.codec import Codec
from afl_stream.wire.dead_letters import dead_letter_headers

_log = logging.getLogger(__name__)

_SCHEMA_BACKOFF: Final = Backoff(first_s=0.1, longest_s=5.0)


class ReadableMessages:
    """Takes the messages that can be decoded, and treats the others as the subscription says.

    A message that cannot be decoded, in this order:
      1. it is taken, and its data is unreadable
      2. with DEAD_LETTER, its value, key and headers go to the dead-letter topic
      3. the broker acknowledges that                               (unreadable.published)
      4. the message is acknowledged, so that its offset may be committed
    A crash before 4 makes the same dead letter again; its headers name topic, partition and offset.
    """

    def __init__(
        self,
        transport: Transport,
        on_error: OnError,
        topic: str,
        who: str,
        probe: Probe,
        codec: Codec | None = None,
    ) -> None:
        """Take the parts. `codec`: what may have to ask for schemas, which then holds up no other task of the loop."""
        self._transport = transport
        self._on_error = on_error
        self._topic = topic
        self._who = who
        self._probe = probe
        self._codec = codec
        self._publisher: Publisher | None = None
        self._warnings = LimitedLog(_log)
        self.skipped = 0
        self.dead_lettered = 0

    async def open(self) -> None:
        """Make the publisher of dead letters, if any. Raises SubscribedTopicMissing for their topic."""
        if self._on_error is not OnError.DEAD_LETTER:
            return
        if self._topic not in await asyncio.to_thread(self._transport.admin().topic_names):
            raise SubscribedTopicMissing(self._who, self._topic)
        self._publisher = Publisher(self._transport)
        await self._publisher.__aenter__()

    async def close(self) -> None:
        if self._publisher is not None:
            await self._publisher.close()

    def among(self, messages: Flow) -> Flow:
        """Return the readable ones of these."""
        return _ReadableFlow(messages, self)

    async def is_readable(self, message: Message) -> bool:
        """Decode a message, and return whether that was possible; what cannot be decoded is done with then.

        Waits for a schema that cannot be looked up now, as long as the message is this member's: when the subscription
        is closed, or the partition goes, the next member looks at it. Raises what the dead letter's delivery failed
        with.
        """
        failures = FailedAttempts(_SCHEMA_BACKOFF)
        while not message.is_lost:
            try:
                if self._codec is not None and not self._codec.can_read(message.value, message.headers):
                    await asyncio.to_thread(getattr, message, "data")
                _ = message.data
                return True
            except Unreadable as error:
                await self._reject(message, error)
                return False
            except SchemaUnavailable as error:
                self._warnings.warning(f"schemas of {message.topic}", "%s: %s; it waits", message.where, error)
            await asyncio.sleep(failures.next_wait_s())
        return False

    async def _reject(self, message: Message, error: Unreadable) -> None:
        self._warnings.warning(f"unreadable messages of {message.topic}", "%s: %s", self._who, error)
        if self._publisher is not None:
            headers = dead_letter_headers(message, error, at_ms=epoch_ms())
            try:
                await self._publisher.publish_and_wait(self._topic, message.value, key=message.key, headers=headers)
            except SubscriptionClosed:
                # With the subscription: the message is not acknowledged, and comes again.
                return
            self.dead_lettered += 1
            self._probe("unreadable.published")
        else:
            self.skipped += 1
        message.ack()


class _ReadableFlow:
    """The readable messages of a flow."""

    def __init__(self, before: Flow, readable: ReadableMessages) -> None:
        self._before = before
        self._readable = readable
        #: A message that is looked at: it is looked at again when the program stopped waiting meanwhile.
        self._message: Message | None = None
        self.behind: Acknowledgement

    def take(self) -> object:
        # A dead letter's acknowledgement may have to be waited for.
        return NOTHING

    async def next(self, until_s: float | None = None) -> object:
        while True:
            if self._message is None:
                value = await self._before.next(until_s)
                if value is NOTHING or value is END:
                    return value
                self._message = cast(Message, value)
            message = self._message
            is_readable = await self._readable.is_readable(message)
            self._message = None
            if is_readable:
                self.behind = message
                return message
