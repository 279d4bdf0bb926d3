"""A subscription: messages of topics, by their names or a pattern, on an event loop."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final

from afl_stream.pubsub.errors import SubscriptionClosed, SubscriptionInvalid
from afl_stream.pubsub.subscriptions.blocking import read_blocking
from afl_stream.pubsub.subscriptions.decoding import guarded, json_or_record
from afl_stream.pubsub.subscriptions.flows import Flow
from afl_stream.pubsub.subscriptions.group_subscription import GroupSubscription, Source
from afl_stream.pubsub.subscriptions.inbox import Inbox
from afl_stream.pubsub.subscriptions.message import Message
from afl_stream.pubsub.subscriptions.reader_thread import ReaderThread
from afl_stream.pubsub.subscriptions.selection import TopicSelection
from afl_stream.pubsub.subscriptions.settings import (
    OnError,
    StartAt,
    SubscriptionCounts,
    SubscriptionSettings,
    subscription_group,
)
from afl_stream.pubsub.subscriptions.starts import Starts
from afl_stream.pubsub.subscriptions.streams import Stream
from afl_stream.pubsub.subscriptions.unreadable import ReadableMessages
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Start, TopicPartition, Transport

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,150}")
_DEFAULTS: Final = SubscriptionSettings()


class Subscription(Stream[Message]):
    """The messages of some topics, in the order of each partition, from where its group stands.

    Subscriptions of different names each get all messages; those of one name, or one group, share the partitions. A
    committed offset wins over `start`, which says where a new group begins. Iterate inside `async with`: a message is
    acknowledged when the next one is asked for, or by `message.ack()` when `auto_ack` is off. Messages that were not
    acknowledged come again, to this group's next member. New topics that match a pattern are read from their beginning.
    """

    def __init__(
        self,
        transport: Transport,
        config: StreamConfig,
        name: str,
        *,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        regex: str | None = None,
        start: StartAt = Start.EARLIEST,
        settings: SubscriptionSettings = _DEFAULTS,
    ) -> None:
        """Raise SubscriptionInvalid for what cannot work."""
        if not _NAME.fullmatch(name):
            raise SubscriptionInvalid(repr(name), "a name has 1 to 150 letters, digits, '.', '_' and '-'")
        super().__init__(self)
        self.name = name
        self.settings = settings
        self.group = settings.group or subscription_group(config, name)
        self.selection = TopicSelection.of(topics, pattern, regex, who=name)
        self._source = Source(
            transport=transport,
            kafka=config.kafka,
            who=f"subscription {name}",
            group=self.group,
            selection=self.selection,
            starts=Starts(start, self.selection, name, commits=settings.commits),
            decode=json_or_record(settings.codec) if settings.decode is None else guarded(settings.decode),
        )
        dead_letters = settings.dead_letter_topic or f"{config.prefix}dlq.pubsub.{name}"
        codec = settings.codec if settings.decode is None else None
        self._readable = ReadableMessages(
            transport, settings.on_error, dead_letters, self._source.who, settings.probe, codec
        )
        self._group: GroupSubscription | None = None
        self._inbox: Inbox | None = None
        self._thread: ReaderThread | None = None

    async def __aenter__(self) -> Subscription:
        """Join the group.

        Raises SubscribedTopicMissing, also for the topic of dead letters, GaveUp when no broker has answered for too
        long, and SubscriptionClosed when it is closed meanwhile.
        """
        if self._thread is not None:
            raise SubscriptionInvalid(self.name, "it was opened before; make another one")
        settings = self.settings
        self._group = GroupSubscription(self._source, settings)
        self._inbox = Inbox(settings.max_buffered, settings.max_buffered_bytes)
        self._thread = ReaderThread(self._group, self._inbox, self.name, settings.max_buffered // 4)
        self._thread.start()
        try:
            await self._thread.opened
            await self._readable.open()
        except BaseException:
            self._thread.stop()
            await self._thread.join()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as failure:
            if error is None:
                raise
            # The program ends by its own error.
            _log.warning("subscription %s: %s", self.name, failure)

    async def close(self) -> None:
        """Commit what is acknowledged, leave the group, and wait until that is done.

        Raises the error that ended the reading, unless an iteration has raised it.
        """
        if self._thread is not None and self._inbox is not None:
            self._thread.stop()
            try:
                await self._thread.join()
            finally:
                await self._readable.close()
            if not self._inbox.has_raised:
                self._inbox.raise_error()

    def messages(self) -> Flow:
        """Return the messages, for one iteration. Raises SubscriptionClosed before the subscription is entered."""
        if self._inbox is None:
            raise SubscriptionClosed(f"subscription {self.name}")
        return self._inbox if self.settings.on_error is OnError.RAISE else self._readable.among(self._inbox)

    def blocking(self) -> Iterator[Message]:
        """Return the messages for a program without an event loop: it joins the group and leaves it at the end.

        Without `async with`. Raises SubscriptionInvalid for a subscription that sends dead letters.
        """
        if self.settings.on_error is OnError.DEAD_LETTER:
            raise SubscriptionInvalid(self.name, "dead letters need an event loop: use `async with`, or on_error=skip")
        self._group = GroupSubscription(self._source, self.settings)
        return read_blocking(self._group, self.settings)

    @property
    def auto_ack(self) -> bool:
        """Whether a message is acknowledged when the next one is asked for."""
        return self.settings.auto_ack

    @property
    def max_pending(self) -> int:
        """How many messages concurrent handlers may have taken and not finished."""
        return self.settings.max_buffered

    @property
    def counts(self) -> SubscriptionCounts:
        """The counters up to now."""
        counts = SubscriptionCounts() if self._group is None else self._group.counts
        return counts.plus(skipped=self._readable.skipped, dead_lettered=self._readable.dead_lettered)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that this member has now."""
        return frozenset() if self._group is None else self._group.partitions

    @property
    def buffered(self) -> int:
        """How many messages were read and not taken by the program."""
        return 0 if self._inbox is None else self._inbox.buffered

    @property
    def problem(self) -> str | None:
        """The problem with the broker, in words; None: there is none."""
        return None if self._group is None else self._group.problem
