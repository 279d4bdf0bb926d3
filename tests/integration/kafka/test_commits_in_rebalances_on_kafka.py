"""A commit that is waited for while the group rebalances, on a real Kafka."""

from __future__ import annotations

import time

import pytest

from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import Assignor, CommittedOffset, TransportError
from tests.eventually import eventually

pytestmark = pytest.mark.long

_REQUEST_MS = 2_000
#: librdkafka sends a commit three times; the rest is for its pauses and for a busy machine.
_LONGEST_COMMIT_S = 3 * _REQUEST_MS / 1_000 + 10.0


@pytest.mark.timeout(240)
def test_a_commit_that_waits_for_a_rebalance_ends_in_time_and_is_made_when_that_is_over(
    kafka_bootstrap: str, kafka_prefix: str
) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, consumer={"socket.timeout.ms": str(_REQUEST_MS)})
    transport = KafkaTransport(StreamConfig(prefix=kafka_prefix, kafka=settings))
    topic = f"{kafka_prefix}shared"
    transport.admin().create_topic(topic, partitions=6)
    first, second, third = (
        transport.consumer(f"{kafka_prefix}group", assignor=Assignor.COOPERATIVE_STICKY) for _ in range(3)
    )
    for member in (first, second):
        member.subscribe([topic])

    def have(*wanted: int) -> bool:
        members = (first, second, third)[: len(wanted)]
        for member in members:
            member.consume(10, 0.05)
        return tuple(len(member.assignment()) for member in members) == wanted

    eventually(lambda: have(3, 3), 60)
    # The second takes no part in what follows, so that the rebalance that the third begins cannot end.
    third.subscribe([topic])
    took_s: list[float] = []

    def is_refused() -> bool:
        first.consume(10, 0.05)
        third.consume(10, 0.05)
        began_s = time.monotonic()
        try:
            first.commit({partition: CommittedOffset(offset=0) for partition in first.assignment()}, wait=True)
        except TransportError:
            return True
        finally:
            took_s.append(time.monotonic() - began_s)
        return False

    eventually(is_refused, 60)
    eventually(lambda: have(2, 2, 2), 120)
    kept = min(first.assignment())
    first.commit({kept: CommittedOffset(offset=0)}, wait=True)

    assert max(took_s) < _LONGEST_COMMIT_S
    assert first.committed([kept])[kept].offset == 0
    transport.close()
