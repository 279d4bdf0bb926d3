"""The buffer between the thread that reads and the event loop that delivers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from afl_stream.pubsub.subscriptions.flows import NOTHING
from afl_stream.pubsub.subscriptions.group_subscription import Lot
from afl_stream.pubsub.subscriptions.inbox import Inbox
from afl_stream.pubsub.subscriptions.message import Message
from afl_stream.pubsub.subscriptions.owned_partition import OwnedPartition
from afl_stream.reading.offset_tracker import PartitionProgress
from afl_stream.transport import Record, TopicPartition


def partition(number: int) -> OwnedPartition:
    return OwnedPartition(TopicPartition("orders", number), lambda message: message.value, PartitionProgress(None, 100))


def lot(owned: OwnedPartition, offsets: Sequence[int]) -> Lot:
    records = [
        Record(owned.place.topic, owned.place.partition, offset, None, b"%d" % offset, (), 0) for offset in offsets
    ]
    return Lot(owned, records, len(records))


def taken(inbox: Inbox) -> list[tuple[int, int]]:
    """Take everything that is there, and return partitions and offsets."""
    found = []
    while (message := inbox.take()) is not NOTHING:
        assert isinstance(message, Message)
        found.append((message.partition, message.offset))
    return found


def test_messages_of_a_partition_that_is_lost_are_delivered_no_more() -> None:
    async def check() -> None:
        inbox, lost, kept = Inbox(100, 10_000), partition(0), partition(1)
        inbox.put([lot(lost, range(3)), lot(kept, range(2)), lot(lost, range(3, 5))])
        first = inbox.take()
        assert isinstance(first, Message)
        assert (first.partition, first.offset) == (0, 0)

        lost.is_lost = True

        assert taken(inbox) == [(1, 0), (1, 1)]
        assert (inbox.buffered, inbox.buffered_bytes) == (0, 0)

    asyncio.run(check())


def test_an_acknowledgement_that_comes_while_others_are_taken_in_is_not_forgotten() -> None:
    owned = partition(0)
    owned.take(lot(owned, range(3)).records)

    class Growing(list[int]):
        """A list to which another thread appends after the first look at its items."""

        def __getitem__(self, where: Any) -> Any:
            found = list.__getitem__(self, where)
            if 2 not in self:
                self.append(2)
            return found

    owned.acks = Growing([0, 1])

    assert owned.apply_acks() == 2
    assert owned.apply_acks() == 1
    assert owned.progress.position == 3


def test_records_past_the_window_are_delivered_in_their_order_when_there_is_room() -> None:
    owned = OwnedPartition(TopicPartition("orders", 0), lambda message: message.value, PartitionProgress(None, 2))
    assert [record.offset for record in owned.take(lot(owned, range(3)).records)] == [0, 1]
    assert list(owned.take(lot(owned, [3]).records)) == []
    assert list(owned.take_deferred()) == []

    owned.acks += [0]
    owned.apply_acks()
    assert [record.offset for record in owned.take_deferred()] == [2]
    owned.acks += [1, 2]
    owned.apply_acks()
    assert [record.offset for record in owned.take_deferred()] == [3]
