"""The settings of event-driven workflows."""

from __future__ import annotations

from dataclasses import dataclass

from afl_stream.errors import ConfigError
from afl_stream.settings.durations import EXAMPLES, duration_ms
from afl_stream.settings.sections import RECORD_FORMATS, address, choice, number, text


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubSettings:
    """Event-driven workflows, as the commands of `afl-stream pubsub` run them."""

    store: str | None = address(
        None,
        "where the events of requests are kept: a SQLite file, `mongodb://host/database`, or `topic`: the workflow's "
        "own topic; by default what the workflow names, else `topic` on Kafka, and pubsub.sqlite3 in the data "
        "directory on the embedded log",
    )
    format: str = choice(
        "avro", RECORD_FORMATS, "how events are written to a workflow's topics: `avro` or `json`; both are read"
    )
    max_open_requests: int = number(
        1_000, 1, "requests of one worker that are at work or kept in memory; further ones wait in their partitions"
    )
    max_crashes: int = number(3, 1, "workers in a row that died while a request ran, before it fails")
    max_unacknowledged: int = number(
        5_000, 1, "records of one worker or client that the broker has not acknowledged; nodes wait for room"
    )
    drain_s: int = number(
        5, 0, "how long requests go on when their partitions are taken away, before another worker goes on with them"
    )
    grace_s: int = number(30, 0, "how long requests go on after SIGTERM, before they are left to the next worker")
    keep_finished: str | None = text(
        "14d",
        "how long a worker keeps finished requests: `30d`, `12h`; empty: for ever. An input that is read again later "
        "begins its request again, so at least as long as the workflow's topics keep records: `retention.ms` and "
        "`segment.ms` together",
    )
    keep_unfinished: str | None = text(
        None, "how long a worker keeps requests that failed, or wait for an event; by default for ever"
    )

    def __post_init__(self) -> None:
        """Treat what is empty, as an unset variable leaves it, as none."""
        for name in ("store", "keep_finished", "keep_unfinished"):
            object.__setattr__(self, name, getattr(self, name) or None)

    @property
    def keep_finished_ms(self) -> int | None:
        """Return how long finished requests are kept, in milliseconds; None: for ever."""
        return None if self.keep_finished is None else duration_ms(self.keep_finished)

    @property
    def keep_unfinished_ms(self) -> int | None:
        """Return how long failed and waiting requests are kept, in milliseconds; None: for ever."""
        return None if self.keep_unfinished is None else duration_ms(self.keep_unfinished)


def check_pubsub(pubsub: PubSubSettings, source: str) -> None:
    """Refuse times that are none; `source` says where they were given. Raises ConfigError."""
    for key in ("keep_finished", "keep_unfinished"):
        found = getattr(pubsub, key)
        if found is not None and duration_ms(found) is None:
            raise ConfigError(source, f"pubsub.{key}", found, EXAMPLES)
