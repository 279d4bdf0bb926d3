"""An event store in a SQLite file, for the processes of one machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from afl.core.clock import WallClock, epoch_ms
from afl_stream.pubsub.event_stores.rows import Append, append_of
from afl_stream.pubsub.event_stores.sqlite_file import BUSY_TIMEOUT_S, SQLiteFile
from afl_stream.pubsub.event_stores.threaded import ThreadedEventStore


class SQLiteEventStore(ThreadedEventStore[Append]):
    """The events of requests in a SQLite file: durable, with one fsync for all appends that wait together.

    Several processes of one machine may use a file; of two that append to one request the second is refused.
    """

    def __init__(
        self, path: Path | str, *, busy_timeout_s: float = BUSY_TIMEOUT_S, clock: WallClock = epoch_ms
    ) -> None:
        """Open the file, or create it, for its owner alone.

        Raises EventStoreUnavailable when it cannot be opened now, and EventStoreUnusable for a file that is not an
        event store of this release's format, which is left as it is.
        """
        super().__init__(SQLiteFile(Path(path), busy_timeout_s=busy_timeout_s), partial(append_of, clock=clock))
