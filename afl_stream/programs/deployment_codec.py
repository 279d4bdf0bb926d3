"""The codec of a deployment: its writer schemas are on the schemas topic."""

from __future__ import annotations

from afl_stream.reading.topic_log import TopicLog
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Transport
from afl_stream.wire.codec import Codec, single_object_codec


def open_codec(config: StreamConfig, transport: Transport, topology: Topology) -> Codec:
    """Return the codec of a deployment without a schema registry: writer schemas are on the schemas topic."""
    return single_object_codec(TopicLog(transport, topology.schemas()), max_event_bytes=config.max_event_bytes)
