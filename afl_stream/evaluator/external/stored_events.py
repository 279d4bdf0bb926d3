"""Stored external events as records again: what becomes a dead letter when one is given up."""

from __future__ import annotations

from afl.core.errors import AFLError
from afl.engine.model.store import HistoryRow
from afl_stream.evaluator.outbox import SOURCE
from afl_stream.evaluator.record_places import place_in
from afl_stream.partitioner import partition_for
from afl_stream.topics.declared import Topology
from afl_stream.transport import Record, TopicPartition
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import ExternalEvent

#: The offset of a record whose place is not known.
_UNKNOWN_OFFSET = -1


def letter_of(row: HistoryRow, codec: Codec, topology: Topology, partitions: int, now_ms: int) -> Record:
    """Return the record of an event that was kept, as its sender could send it again.

    `partitions` of the external topic. Its place is that of the event's record if its id tells it. A value that cannot
    be written as one record is left out.
    """
    topic, key = topology.external(), row.workflow_id.encode()
    event = ExternalEvent(
        workflow_id=row.workflow_id, name=row.name, value=row.value, id=row.event_id, created_at=row.at_ms
    )
    try:
        value: bytes | None = codec.encode(event, topic)
    except AFLError:
        value = None
    place = place_in(row.event_id, topic)
    (_, partition), offset = place or (TopicPartition(topic, partition_for(key, partitions)), _UNKNOWN_OFFSET)
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=headers_for(event, source=SOURCE, form=codec.header_form),
        timestamp_ms=now_ms,
    )
