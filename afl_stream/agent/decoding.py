"""Decoding of the next record of an agent's partition, or a note of what it waits for."""

from __future__ import annotations

import logging
from typing import Final

from afl.core.text.warning_limits import LimitedLog
from afl_stream.agent.partitions import FIRST_BACKOFF_S
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.work import PartitionWork
from afl_stream.errors import NewerFormat, SchemaGone, SchemaUnavailable, Unreadable
from afl_stream.wire.messages import Event

log = logging.getLogger(__name__)

_WAITS: Final = "%s; %s[%d] waits"


def decode_first(
    partition: PartitionWork, resources: AgentResources, warnings: LimitedLog
) -> Event | Unreadable | None:
    """Return the first undecoded record, or why it cannot be read; None: it has to wait, which is noted."""
    record = partition.undecoded[0]
    try:
        return resources.records.decode(record)
    except Unreadable as error:
        return error
    except SchemaUnavailable as error:
        wait_s = min(FIRST_BACKOFF_S * 2**partition.waits, resources.config.max_backoff_s)
        partition.waits = min(partition.waits + 1, 16)
        partition.retry_at_s = resources.clock_s() + wait_s
        if isinstance(error, SchemaGone):
            partition.waits_for = f"{record.topic}[{record.partition}] offset {record.offset}: {error}"
        warnings.warning(f"waits for schemas of {record.topic}", _WAITS, error, *partition.topic_partition)
    except NewerFormat as error:
        partition.paused_reason = f"{record.topic}[{record.partition}] offset {record.offset}: {error}"
        log.error("%s; the partition is paused", partition.paused_reason)
    return None
