"""A partition while it is this member's: what was taken of it, acknowledged and committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from afl_stream.pubsub.subscriptions.message import Decode
from afl_stream.reading.offset_tracker import PartitionProgress
from afl_stream.transport import CommittedOffset, Record, TopicPartition

_offset_of: Final = itemgetter(Record._fields.index("offset"))


class OwnedPartition:
    """A partition from its assignment to its revocation. Assigned again, it is another one.

    Messages append to `acks` on the event loop's thread; everything else belongs to the reader's.
    """

    __slots__ = ("acks", "confirmed", "decode", "deferred", "is_lost", "place", "progress", "sent")

    def __init__(self, place: TopicPartition, decode: Decode, progress: PartitionProgress) -> None:
        self.place = place
        self.decode = decode
        self.progress = progress
        #: The last commit that was sent, and the last one that the broker has.
        self.sent: CommittedOffset | None = None
        self.confirmed: CommittedOffset | None = None
        #: Records past the window: they wait until older ones are acknowledged.
        self.deferred: deque[Record] = deque()
        #: Whether the partition is no longer this member's: its messages belong to the next owner.
        self.is_lost = False
        #: The offsets that were acknowledged and not taken in yet; the event loop's thread appends to it.
        self.acks: list[int] = []

    def apply_acks(self) -> int:
        """Move on past what was acknowledged since the last call, and return how many records that were."""
        acks = self.acks
        count = len(acks)
        if not count:
            return 0
        # A later one may be appended between these two lines, and stays.
        offsets = acks[:count]
        del acks[:count]
        return self.progress.finish_all(offsets)

    def take(self, records: Sequence[Record]) -> Sequence[Record]:
        """Take records that were read, and return those to deliver now; those past the window are deferred."""
        if self.deferred:
            self.deferred.extend(records)
            return ()
        progress = self.progress
        taken = progress.take_all(list(map(_offset_of, records)))
        if taken.size == len(records) and not taken.repeated:
            return records
        self.deferred.extend(records[taken.size :])
        return [record for record in records[: taken.size] if record.offset not in taken.repeated]

    def take_deferred(self) -> Sequence[Record]:
        """Return deferred records for which there is room by now."""
        if not self.deferred or not self.progress.has_room_for(self.deferred[0].offset):
            return ()
        records = list(self.deferred)
        self.deferred.clear()
        return self.take(records)
