"""A message of a subscription: a record, its data, and its acknowledgement."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from afl.core.row_maker import row_maker
from afl_stream.transport import Headers, TopicPartition
from afl_stream.wire.headers import header

if TYPE_CHECKING:
    from afl_stream.pubsub.subscriptions.owned_partition import OwnedPartition

_log = logging.getLogger(__name__)


class _Fields(NamedTuple):
    """A record's fields in their order, and the partition that the reader has."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    #: When the record was written, in milliseconds since the epoch, by its producer's or the broker's clock.
    timestamp_ms: int
    owned: OwnedPartition


class Message(_Fields):
    """A record as it was read. `data` is decoded when it is first asked for; `ack` says that it is finished with."""

    _data: object

    @property
    def topic_partition(self) -> TopicPartition:
        return self.owned.place

    @property
    def data(self) -> Any:
        """The decoded value; None for a tombstone. Raises Unreadable, which names topic, partition and offset."""
        try:
            return self._data
        except AttributeError:
            self._data = self.owned.decode(self)
            return self._data

    def header(self, name: str) -> str | None:
        """Return the last header of this name as text, or None."""
        return header(self.headers, name)

    def ack(self) -> None:
        """Say that nothing is left to do for this message: its offset may be committed.

        A second time, or when the partition was lost meanwhile, it does nothing. Belongs to the event loop's thread.
        """
        owned = self.owned
        if owned.is_lost:
            _log.debug("%s: the partition was lost, so it is not acknowledged", self.where)
            return
        owned.acks.append(self.offset)

    @property
    def is_lost(self) -> bool:
        """Whether the partition was lost since the message was read: its next owner gets the message again."""
        return self.owned.is_lost

    @property
    def where(self) -> str:
        """Topic, partition and offset in words."""
        return f"{self.topic}[{self.partition}] offset {self.offset}"

    def __repr__(self) -> str:
        return f"<Message {self.where}>"


new_message: Final = row_maker(
    Message, "topic", "partition", "offset", "key", "value", "headers", "timestamp_ms", "owned"
)
#: What a message is decoded with.
Decode = Callable[[Message], object]
