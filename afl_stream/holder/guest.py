"""The transport of a guest: the port over the socket of the process that holds the embedded log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from afl_stream.group_members import GroupView
from afl_stream.holder import contents
from afl_stream.holder.guest_consumer import GuestConsumer
from afl_stream.holder.guest_producer import DELIVERY_TIMEOUT_S, GuestProducer
from afl_stream.holder.link import HolderAway, Link, LogIdentity
from afl_stream.transport import Assignor, Start, TopicDescription

__all__ = ["GuestAdmin", "GuestTransport", "HolderAway"]


class GuestAdmin:
    """Topics and groups of the log that another process holds; see the Admin port. Any thread may use it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = Lock()

    def _ask(self, action: str, **arguments: Any) -> Any:
        with self._lock:
            self._link.connect()
            return self._link.request({"do": action, **arguments}).head["ok"]

    def cluster_id(self) -> str:
        """Return the log's id. Raises HolderAway."""
        return str(self._ask("cluster_id"))

    def broker_count(self) -> int | None:
        """Return None: there is one log, without copies. Raises HolderAway."""
        self.cluster_id()
        return None

    def topic_names(self) -> frozenset[str]:
        return frozenset(self._ask("topic_names"))

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        return contents.topics_in(self._ask("topics", names=None if names is None else sorted(names)))

    def create_topic(
        self, name: str, *, partitions: int, replication: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. Raises TopicExists, TopicRefused, HolderAway."""
        self._ask(
            "create_topic", name=name, partitions=partitions, replication=replication, settings=dict(settings or {})
        )

    def delete_topic(self, name: str) -> None:
        self._ask("delete_topic", name=name)

    def groups(self, names: Iterable[str] | None = None) -> dict[str, GroupView]:
        """Return these groups, or all that there are. Raises HolderAway."""
        return contents.groups_in(self._ask("groups", names=None if names is None else sorted(names)))

    def close(self) -> None:
        self._link.close()


class GuestTransport:
    """One guest's view of the log that another process holds; see the Transport port.

    Each producer, consumer and admin has a connection of its own, so that one that waits holds up no other. While no
    process holds the log their calls raise HolderAway; once there is one again they go on.
    """

    def __init__(self, log_path: Path, *, delivery_timeout_s: float = DELIVERY_TIMEOUT_S) -> None:
        """Connect to the log's holder. Raises HolderAway, SocketUnusable."""
        self._log = LogIdentity(log_path)
        self._delivery_timeout_s = delivery_timeout_s
        self._open: dict[GuestConsumer | GuestProducer, None] = {}
        link = Link(self._log, {"kind": "admin"})
        link.connect()
        self._admin = GuestAdmin(link)

    def producer(self) -> GuestProducer:
        link = Link(self._log, {"kind": "producer"})
        producer = GuestProducer(link, self._forget, delivery_timeout_s=self._delivery_timeout_s)
        self._open[producer] = None
        return producer

    def consumer(
        self,
        group: str | None,
        *,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
    ) -> GuestConsumer:
        hello = {"kind": "consumer", "group": group, "client_id": client_id, "assignor": assignor, "start": start}
        consumer = GuestConsumer(Link(self._log, hello), group, self._forget)
        self._open[consumer] = None
        return consumer

    def admin(self) -> GuestAdmin:
        return self._admin

    def _forget(self, closed: GuestConsumer | GuestProducer) -> None:
        self._open.pop(closed, None)

    def close(self) -> None:
        """Close what is still open. A consumer's callbacks then run on this thread; see EmbeddedTransport."""
        for consumer in [opened for opened in self._open if isinstance(opened, GuestConsumer)]:
            consumer.close()
        for producer in [opened for opened in self._open if isinstance(opened, GuestProducer)]:
            producer.close()
        self._admin.close()

    def abandon(self) -> None:
        """End this guest as a killed process does: its connections end, and nothing else happens here."""
        for opened in list(self._open):
            opened.abandon()
        self._admin.close()
