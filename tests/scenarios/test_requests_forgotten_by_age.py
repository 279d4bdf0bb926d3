"""Workers forget the requests of their partitions that ended long ago, and no others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from afl_stream.errors import ConfigError
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.hosting.worker import WorkflowWorker
from afl_stream.settings.config import load_config
from tests.worlds.hosted import PATIENCE_S, Executions, HostedWorld, approval, pipeline, request, until

#: Requests that have ended are old at once, and are looked for all the time.
AT_ONCE = "0s"
SOON_S = 0.01


def state_entries(worker: WorkflowWorker) -> int:
    """Return how many requests a worker's own store on topics has in memory."""
    store = worker._opened_store
    assert store is not None
    reader = store._topics._reader
    return sum(len(s.requests) + len(s.remains) + len(s._holding) for s in map(reader.state, reader.known()))


def test_a_worker_whose_events_are_on_topics_stays_as_small_as_it_was() -> None:
    hosted = HostedWorld(pipeline(Executions()), on_topics=True, keep_finished=AT_ONCE)

    async def scenario() -> None:
        async with hosted.worker(forget_interval_s=SOON_S) as worker, hosted.client() as client:
            for lot in range(3):
                await asyncio.gather(*(client.start(request(f"r{lot}-{n}"), n) for n in range(100)))
                done = 100 * (lot + 1)
                await until(lambda done=done: worker.counts.forgotten == done)  # type: ignore[misc]
                await until(lambda: state_entries(worker) == 0)

    asyncio.run(scenario())
    hosted.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_worker_forgets_in_the_store_that_all_share(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = MemoryEventStore() if kind == "memory" else SQLiteEventStore(tmp_path / "events.sqlite3")
        hosted = HostedWorld(pipeline(Executions()), store=store, keep_finished=AT_ONCE)
        others = RequestKey("another", "r1")
        await store.append(others, request("r1"), 0, (), RequestStatus.FINISHED)
        async with (
            hosted.worker("one", forget_interval_s=SOON_S) as one,
            hosted.worker("two", forget_interval_s=SOON_S) as two,
            hosted.client() as client,
        ):
            await asyncio.gather(*(client.start(request(f"r{n}"), n) for n in range(40)))
            await until(lambda: one.counts.forgotten + two.counts.forgotten == 40)
        assert await store.requests("sums") == []
        assert await store.requests("another") == [others]
        hosted.close()
        await store.close()

    asyncio.run(scenario())


def test_a_request_that_waits_is_kept_however_old_it_is() -> None:
    hosted = HostedWorld(approval(), keep_finished=AT_ONCE)

    async def scenario() -> None:
        async with hosted.worker(forget_interval_s=SOON_S) as worker, hosted.client() as client:
            assert await hosted.outputs(client, request("waits"), "a draft") == ["publish a draft?"]
            await hosted.outputs(client, request("ends"), "a text")
            answered = client.invoke(request("ends"), "yes", topic="answers", timeout_s=PATIENCE_S)
            assert [event.data async for event in answered][-1:] == ["person said yes"]
            await until(lambda: worker.counts.forgotten == 1)

    asyncio.run(scenario())
    assert asyncio.run(hosted.store.requests("approval")) == [RequestKey("approval", "waits")]
    hosted.close()


def test_a_second_setting_forgets_what_waits_too() -> None:
    hosted = HostedWorld(approval(), keep_finished="", keep_unfinished=AT_ONCE)

    async def scenario() -> None:
        async with hosted.worker(forget_interval_s=SOON_S) as worker, hosted.client() as client:
            await hosted.outputs(client, request("waits"), "a draft")
            await until(lambda: worker.counts.forgotten == 1)

    asyncio.run(scenario())
    assert asyncio.run(hosted.store.requests("approval")) == []
    hosted.close()


def test_a_request_that_was_forgotten_can_be_asked_anew() -> None:
    hosted = HostedWorld(pipeline(Executions()), on_topics=True, keep_finished=AT_ONCE)

    async def scenario() -> None:
        async with hosted.worker(forget_interval_s=SOON_S) as worker, hosted.client() as client:
            for round in range(3):
                assert await hosted.outputs(client, request("r1", invoke_id=f"i{round}"), round) == [
                    f"it is {(round + 1) * 2}"
                ]
                await until(lambda done=round + 1: worker.counts.forgotten == done)  # type: ignore[misc]

    asyncio.run(scenario())
    hosted.close()


class Failing(MemoryEventStore):
    """A store that cannot forget at first."""

    failures = 2

    async def forget_old(
        self, workflow: str, before_ms: int, statuses: Sequence[RequestStatus] = (RequestStatus.FINISHED,)
    ) -> int:
        if self.failures:
            self.failures -= 1
            raise EventStoreUnavailable("memory", "it is away")
        return await super().forget_old(workflow, before_ms, statuses)


def test_a_store_that_cannot_forget_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    hosted = HostedWorld(pipeline(Executions()), store=Failing(), keep_finished=AT_ONCE)

    async def scenario() -> None:
        async with hosted.worker(forget_interval_s=SOON_S) as worker, hosted.client() as client:
            await hosted.outputs(client, request("r1"), 20)
            await until(lambda: worker.counts.forgotten == 1)
            assert worker.counts.store_failures == 2

    asyncio.run(scenario())
    assert (
        "old requests of workflow sums are not forgotten yet: EventStoreUnavailable: event store memory: it is away"
        in caplog.text
    )
    hosted.close()


@pytest.mark.parametrize(("keep", "is_warned"), [("7d", True), ("14d", False), ("", False)])
def test_a_worker_warns_when_records_outlive_their_requests(
    keep: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hosted = HostedWorld(pipeline(Executions()), keep_finished=keep)

    async def scenario() -> None:
        with caplog.at_level(logging.WARNING):
            async with hosted.worker():
                pass

    asyncio.run(scenario())
    found = "pubsub.keep_finished is 7 days, and topic afl.pubsub.sums.numbers keeps records up to 14 days"
    assert (found in caplog.text) is is_warned
    hosted.close()


@pytest.mark.parametrize("key", ["keep_finished", "keep_unfinished"])
def test_a_time_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"pubsub.{key}.*a time such as 30d"):
        load_config(environ={f"AFL_PUBSUB_{key.upper()}": "long"})
