"""An event store in MongoDB, for the processes of several machines."""

from __future__ import annotations

from functools import partial

from afl.core.clock import WallClock, epoch_ms
from afl.core.probes import Probe, no_probe
from afl_stream.pubsub.event_stores.mongo_connection import TIMEOUT_S, MongoConnection
from afl_stream.pubsub.event_stores.mongo_database import MongoDatabase
from afl_stream.pubsub.event_stores.rows import Append, append_of
from afl_stream.pubsub.event_stores.threaded import ThreadedEventStore


class MongoEventStore(ThreadedEventStore[Append]):
    """The events of requests in MongoDB: on the disks of a majority when a call returns, without transactions.

    Any number of processes may use a database; of two that append to one request the second is refused.
    """

    def __init__(
        self,
        url: str,
        *,
        database: str = "",
        timeout_s: float = TIMEOUT_S,
        clock: WallClock = epoch_ms,
        probe: Probe = no_probe,
    ) -> None:
        """Connect. The database is this one, else the one that the url names, else `afl`.

        `timeout_s`: how long a server that is away is waited for. Raises EventStoreUnavailable when it cannot be
        reached, and EventStoreUnusable for a store that a newer release has made.
        """
        connection = MongoConnection(url, database=database, timeout_s=timeout_s)
        try:
            store = MongoDatabase(connection, clock=clock, probe=probe)
        except BaseException:
            connection.close()
            raise
        super().__init__(store, partial(append_of, clock=clock))
