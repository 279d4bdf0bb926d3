"""Records of a topic, decoded: by partition, offset and key, with what is sensitive hidden."""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Final

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_line
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.views.topics import TopicView, topic
from afl_stream.partitioner import partition_for
from afl_stream.reading.log_ranges import read_ranges
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.redaction import REDACTED, Redaction
from afl_stream.topics.declared import Topology
from afl_stream.transport import Record, TopicPartition, Watermarks
from afl_stream.web.parameters import BadParameter
from afl_stream.wire.codec import Codec
from afl_stream.wire.dead_letters import original_headers

_READ_S: Final = 5.0
#: Offsets that are looked through for records of a key.
_MOST_SEARCHED: Final = 20_000
_HEADER_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """One record. `problem` says why it could not be decoded; "" where it could."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: str
    type: str
    value: object
    headers: list[tuple[str, str]]
    size_bytes: int
    problem: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {**asdict(self), "headers": [list(pair) for pair in self.headers]}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """Records of one partition in the order of their offsets, and the bounds of what was looked at."""

    topic: TopicView
    partition: int
    first: int
    messages: list[MessageView]
    #: Where the next page begins; None: there is nothing behind it.
    next_offset: int | None


def messages(
    deployment: Deployment, name: str, *, partition: int | None, offset: int | None, key: str, limit: int
) -> MessagePage:
    """Return records of a topic: from an offset on, or the last ones; with a key, those of the key in its partition.

    Raises BadParameter, UnknownTopic, and what the transport raises.
    """
    view = topic(deployment, name)
    count = len(view.partitions)
    number = partition
    if number is None:
        # Without a wish, where there is most to see.
        fullest = max(view.partitions, key=lambda one: one.high - one.low, default=None)
        number = partition_for(key.encode(), count) if key else 0 if fullest is None else fullest.partition
    if number >= count:
        raise BadParameter("partition", number, f"one of topic {name}: 0 to {count - 1}")
    held = view.partitions[number]
    span = _MOST_SEARCHED if key else limit
    first = max(held.high - span, held.low) if offset is None else min(max(offset, held.low), held.high)
    end = min(first + span, held.high)
    place = TopicPartition(name, number)
    topology = Topology(deployment.config)
    redaction = Redaction(deployment.config.sensitive.patterns)
    with deployment.transport() as transport:
        schemas = DeploymentCodec(deployment.config, transport, topology)
        try:
            ranges = {place: Watermarks(low=first, high=end)}
            records = [record for found in read_ranges(transport, ranges, _READ_S) for record in found]
            if key:
                records = [record for record in records if record.key == key.encode()][-limit:]
            shown = [_view(record, schemas.codec, topology, redaction) for record in records]
        finally:
            schemas.close()
    return MessagePage(
        topic=view, partition=number, first=first, messages=shown, next_offset=end if end < held.high else None
    )


def _view(record: Record, codec: Codec, topology: Topology, redaction: Redaction) -> MessageView:
    kind, value, problem = decoded(record, codec, topology, redaction)
    return MessageView(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        at_ms=record.timestamp_ms,
        key="" if record.key is None else record.key.decode("utf-8", "backslashreplace"),
        type=kind,
        value=value,
        headers=[
            (name, "" if text is None else text.decode("utf-8", "backslashreplace")[:_HEADER_CHARS])
            for name, text in record.headers
        ],
        size_bytes=len(record.value or b""),
        problem=problem,
    )


def decoded(record: Record, codec: Codec, topology: Topology, redaction: Redaction) -> tuple[str, object, str]:
    """Return the type of a record, its message as JSON has it, and why it has none."""
    if record.value is None:
        return "tombstone", None, ""
    is_letter = topology.is_dead_letters(record.topic)
    headers = original_headers(record.headers) if is_letter else record.headers
    try:
        message = codec.decode(record.value, headers, json_allowed=True)
    except AFLError as error:
        return "", _bytes_text(record, redaction), exception_line(error)
    shown = redaction.message(message, headers)
    return type(message).__name__, asdict(shown) if is_dataclass(shown) else str(shown), ""


def _bytes_text(record: Record, redaction: Redaction) -> str:
    """Return bytes that could not be decoded as a text: not where they may hold what is hidden."""
    if redaction.hides(record.headers):
        return REDACTED
    return (record.value or b"")[:4_000].decode("utf-8", "backslashreplace")
