"""Retention of requests: a worker forgets old ones of its partitions, as the settings say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from afl.core.clock import epoch_ms, monotonic_s
from afl.core.text.exception_text import exception_line
from afl_stream.pubsub.event_stores.on_topic import TopicEventStore
from afl_stream.pubsub.event_stores.store import EventStore, PurgesByAge, RequestStatus
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.pubsub.hosting.counters import Counters
from afl_stream.topics.declared import ExistingTopic

_log = logging.getLogger(__name__)

_FINISHED: Final = (RequestStatus.FINISHED,)
_UNFINISHED: Final = (RequestStatus.FAILED, RequestStatus.WAITING)
#: A database has no partitions: the owner of this one forgets for the whole workflow.
_FOR_ALL: Final = 0
_DAY_MS: Final = 86_400_000
#: Kafka's default of segment.ms: a record goes with its segment, which is written to for so long.
_SEGMENT_MS: Final = 7 * _DAY_MS


class Retention:
    """Forgets a batch at a time, beside the work. All on the event loop; nothing depends on when it runs."""

    def __init__(
        self,
        store: EventStore,
        workflow: str,
        config: WorkerConfig,
        owned: Callable[[], frozenset[int]],
        counters: Counters,
    ) -> None:
        self._store = store
        self._workflow = workflow
        self._interval_s = config.forget_interval_s
        self._owned = owned
        self._counters = counters
        settings = config.stream.pubsub
        ages = ((settings.keep_finished_ms, _FINISHED), (settings.keep_unfinished_ms, _UNFINISHED))
        self._ages = [(age_ms, statuses) for age_ms, statuses in ages if age_ms is not None]

    async def run(self) -> None:
        """Forget what is old, again and again, until this is cancelled."""
        if not isinstance(self._store, PurgesByAge):
            return
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._forget_all(self._store)
            except Exception as error:  # noqa: BLE001 - what is left is forgotten later
                self._counters.add("store_failures")
                _log.warning(
                    "old requests of workflow %s are not forgotten yet: %s", self._workflow, exception_line(error)
                )

    async def _forget_all(self, store: PurgesByAge) -> None:
        for age_ms, statuses in self._ages:
            gone = 1
            while gone:
                began_s = monotonic_s()
                gone = await self._forget_some(store, epoch_ms() - age_ms, statuses)
                self._counters.add("forgotten", gone)
                # The store is the work's for as long again.
                await asyncio.sleep(monotonic_s() - began_s if gone else 0)

    async def _forget_some(self, store: PurgesByAge, before_ms: int, statuses: tuple[RequestStatus, ...]) -> int:
        owned = self._owned()
        if isinstance(store, TopicEventStore):
            return await store.forget_old_in(self._workflow, owned, before_ms, statuses)
        return await store.forget_old(self._workflow, before_ms, statuses) if _FOR_ALL in owned else 0


def forgotten_too_soon(keep_finished_ms: int | None, topics: Mapping[str, ExistingTopic]) -> str | None:
    """Return what is wrong where finished requests are forgotten while their records can be read again, else None.

    What this user may not see of the topics is left out.
    """
    if keep_finished_ms is None:
        return None
    for name, topic in topics.items():
        retention = topic.settings.get("retention.ms")
        if retention is None:
            continue
        longest_ms = int(retention) + int(topic.settings.get("segment.ms", _SEGMENT_MS))
        if int(retention) < 0 or longest_ms > keep_finished_ms:
            kept = "for ever" if int(retention) < 0 else f"up to {_days(longest_ms)} (retention.ms and segment.ms)"
            return (
                f"pubsub.keep_finished is {_days(keep_finished_ms)}, and topic {name} keeps records {kept}. An input "
                "that is read again after its request was forgotten, as when the group's offsets are gone, begins the "
                "request again: keep requests for at least as long as records"
            )
    return None


def _days(milliseconds: int) -> str:
    return f"{milliseconds / _DAY_MS:.3g} days"
