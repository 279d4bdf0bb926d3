"""The needs of a test deployment of the log that carries its records, whichever broker keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from afl_stream.embedded.transport import Faults
from afl_stream.transport import CommittedOffset, Headers, Record, TopicPartition, Transport

if TYPE_CHECKING:
    from tests.worlds.deployment import Deployment


class MortalTransport(Transport, Protocol):
    """The transport of one party, which may die with it."""

    def close(self) -> None:
        """Leave every group and release everything."""

    def abandon(self) -> None:
        """End as a killed process does: nothing more is written or committed, and no callback runs."""


class Cluster(Protocol):
    """The broker or brokers of one deployment. `EmbeddedCluster` and `KafkaCluster` are it."""

    @property
    def poll_s(self) -> float:
        """How long one turn of a party waits for a record."""

    def transport(self, faults: Faults) -> MortalTransport:
        """Return a party's own connection. Faults at the transport's own points act on the embedded broker only."""

    def records(self, topic: str) -> list[Record]:
        """Everything on a topic, by partition and offset."""

    def committed(self, group: str, topics: Sequence[str]) -> Mapping[TopicPartition, CommittedOffset]:
        """Return what a group has committed on some topics; partitions without an offset are left out."""

    def queue(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, partition: int | None
    ) -> None:
        """Produce a record as a stranger does, without waiting for it."""

    def flush(self) -> None:
        """Wait until all that was queued is in the log."""

    def recreate(self, topic: str) -> None:
        """Delete a topic and create one of the same name, size and settings."""

    def has_delivered_all(self, deployment: Deployment) -> bool:
        """Whether every party has its partitions and has read them to their ends."""

    def crash(self) -> None:
        """End what runs in the test's process: what was not written is lost."""

    def reopen(self) -> None:
        """Open what `crash` has ended."""

    def close(self) -> None:
        """Release what `crash` leaves open."""
