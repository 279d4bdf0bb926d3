"""The settings of a subscription, and its counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from afl.core.probes import Probe, no_probe
from afl_stream.pubsub.errors import SubscriptionInvalid
from afl_stream.reading.group_reader import LostRecords
from afl_stream.reading.offset_tracker import MAX_WINDOW
from afl_stream.transport import Start, TopicPartition

if TYPE_CHECKING:
    from afl_stream.pubsub.subscriptions.message import Message
    from afl_stream.settings.config import StreamConfig
    from afl_stream.wire.codec import Codec

#: Messages that are read ahead, and the bytes of their keys and values.
MAX_BUFFERED: Final = 2_000
MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024


class Since(NamedTuple):
    """A time to start at, in milliseconds since the epoch: a plain number is an offset."""

    epoch_ms: int


#: Where a group without a committed offset starts: at the first or behind the last record, at the first record that is
#: not older than a time, or at an offset, of all partitions or of each.
StartAt: TypeAlias = Start | datetime | Since | int | Mapping[TopicPartition, int]

#: Makes the data of a message. Raises Unreadable, or any other exception, for what it cannot read.
Decoder: TypeAlias = "Callable[[Message], object]"


class OnError(StrEnum):
    """The treatment of a message whose data cannot be decoded."""

    #: Reading `data` raises Unreadable.
    RAISE = "raise"
    #: It is left out and counted. Every message is decoded before it is delivered.
    SKIP = "skip"
    #: The same, and it goes to the dead-letter topic first.
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSettings:
    """How a subscription reads.

    `group` None: `{prefix}pubsub.sub.{name}`. `max_buffered` and `max_buffered_bytes` bound what is read ahead of the
    program. `auto_ack`: a message is acknowledged when the program asks for the next one. `window`: how many offsets
    past the oldest unacknowledged message of a partition are delivered. `commits` false: nothing is committed, and the
    group starts anew each time. `lost_records`: what to do when the log no longer holds the records at the group's
    offset. `decode` None: JSON, and with a `codec` our own Avro records. `dead_letter_topic` None:
    `{prefix}dlq.pubsub.{name}`. `probe` is called at each crash point of docs/failure-matrix.md.
    """

    group: str | None = None
    max_buffered: int = MAX_BUFFERED
    max_buffered_bytes: int = MAX_BUFFERED_BYTES
    auto_ack: bool = True
    window: int = MAX_WINDOW
    commits: bool = True
    commit_interval_s: float = 1.0
    lost_records: LostRecords = LostRecords.STOP
    max_backoff_s: float = 5.0
    decode: Decoder | None = None
    codec: Codec | None = None
    on_error: OnError = OnError.RAISE
    dead_letter_topic: str | None = None
    probe: Probe = no_probe

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        for name, least in (("max_buffered", 1), ("max_buffered_bytes", 1), ("window", 1)):
            if getattr(self, name) < least:
                raise SubscriptionInvalid("settings", f"{name} is at least {least}, found {getattr(self, name)}")


def subscription_group(config: StreamConfig, name: str) -> str:
    """Return the group of the subscriptions of this name. It has their offsets: never change the form."""
    return f"{config.prefix}pubsub.sub.{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionCounts:
    """Counters since the start. `pauses`: how often the full buffer paused the partitions."""

    read: int = 0
    acknowledged: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    commits: int = 0
    commit_failures: int = 0
    pauses: int = 0

    def plus(self, **more: int) -> SubscriptionCounts:
        """Return the counters with these added."""
        return replace(self, **{name: getattr(self, name) + count for name, count in more.items()})
