"""The contract of subscriptions and publishers, on whichever transport.

Inherit SubscriptionContract and give a `transport` fixture.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import pytest

from afl_stream.errors import Unreadable
from afl_stream.pubsub import (
    Message,
    OnError,
    Published,
    Publisher,
    PublisherSettings,
    Since,
    Subscription,
    SubscriptionSettings,
)
from afl_stream.pubsub.errors import DataRefused, StageFailed, SubscribedTopicMissing, SubscriptionInvalid
from afl_stream.pubsub.subscriptions.republishing import republish
from afl_stream.pubsub.subscriptions.settings import StartAt
from afl_stream.reading.group_reader import LostRecords
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import RecordTooLarge, Start, TopicPartition, Transport, UnknownTopic
from tests.contract.transport_contract import make_topic, unique, write
from tests.eventually import eventually

T = TypeVar("T")

#: No test takes longer where all is well.
_DEADLINE_S: Final = 60.0
QUICK: Final = SubscriptionSettings(commit_interval_s=0.05)
MANUAL: Final = SubscriptionSettings(auto_ack=False, commit_interval_s=0.05)


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run a test's body, which must leave no thread that reads behind."""

    async def limited() -> T:
        async with asyncio.timeout(_DEADLINE_S):
            return await test

    result = asyncio.run(limited())
    assert reader_threads() == []
    return result


def reader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("subscription-")]


async def came(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition holds."""
    while not condition():
        await asyncio.sleep(0.005)


async def first(count: int, subscription: Subscription) -> list[Message]:
    """Take so many messages, acknowledge them, and return them."""
    return [message async for message in subscription.take(count)]


def values(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.value for message in messages]


def subscription(
    transport: Transport,
    *topics: str,
    name: str = "",
    pattern: str | None = None,
    start: StartAt = Start.EARLIEST,
    settings: SubscriptionSettings = QUICK,
) -> Subscription:
    return Subscription(
        transport, StreamConfig(), name or unique("sub"), topics=topics, pattern=pattern, start=start, settings=settings
    )


async def read_to_end(transport: Transport, topic: str, count: int) -> list[Message]:
    """Read `count` records with a new group."""
    async with subscription(transport, topic) as reader:
        return await first(count, reader)


class SubscriptionContract:
    """Inherit, and give a `transport` fixture."""

    # What is delivered

    def test_a_message_is_the_record_that_was_written(self, transport: Transport) -> None:
        topic = make_topic(transport)
        producer = transport.producer()
        headers = (("trace", b"1"), ("null", None))
        producer.produce(topic, b'{"n": 1}', key=b"k", headers=headers, partition=0)
        producer.produce(topic, None, key=b"k", partition=0)
        producer.produce(topic, b"", key=None, partition=0)
        producer.produce(topic, b"\xff\x00", key=b"", partition=0)
        assert producer.flush(15.0) == 0

        async def body() -> list[Message]:
            async with subscription(transport, topic) as reader:
                return await first(4, reader)

        full, tombstone, empty, binary = run(body())

        assert (full.topic, full.partition, full.offset, full.key) == (topic, 0, 0, b"k")
        assert (full.value, full.headers, full.data) == (b'{"n": 1}', headers, {"n": 1})
        assert abs(full.timestamp_ms - time.time() * 1000) < 60_000
        assert (tombstone.value, tombstone.data) == (None, None)
        assert (empty.key, empty.value) == (None, b"")
        assert (binary.key, binary.value) == (b"", b"\xff\x00")

    def test_data_that_cannot_be_decoded_names_its_place(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b'{"n": ')

        async def body() -> Message:
            async with subscription(transport, topic) as reader:
                return (await first(1, reader))[0]

        with pytest.raises(Unreadable, match=rf"bad_json: {topic}\[0\] offset 0: "):
            _ = run(body()).data

    def test_subscriptions_of_different_names_each_get_everything(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        write(transport, topic, *[b"%d" % n for n in range(10)], partition=None)

        async def body() -> list[list[Message]]:
            async with subscription(transport, topic) as one, subscription(transport, topic) as other:
                return list(await asyncio.gather(first(10, one), first(10, other)))

        one, other = run(body())
        assert sorted(map(str, values(one))) == sorted(map(str, values(other)))
        assert len({message.value for message in one}) == 10

    def test_members_of_one_name_share_the_messages(self, transport: Transport) -> None:
        topic, name = make_topic(transport, partitions=4), unique("sub")
        seen: dict[int, list[Message]] = defaultdict(list)

        async def member(number: int, both: asyncio.Event) -> None:
            async with subscription(transport, topic, name=name) as reader:
                await came(lambda: len(reader.partitions) == 2)
                both.set()
                async for message in reader:
                    seen[number].append(message)

        async def body() -> None:
            ready = [asyncio.Event(), asyncio.Event()]
            tasks = [asyncio.create_task(member(number, event)) for number, event in enumerate(ready)]
            for event in ready:
                await event.wait()
            for partition in range(4):
                write(transport, topic, b"a", b"b", partition=partition)
            await came(lambda: len(seen[0]) + len(seen[1]) == 8)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        run(body())
        assert len(seen[0]) == len(seen[1]) == 4
        assert {message.partition for message in seen[0]}.isdisjoint(message.partition for message in seen[1])

    def test_partitions_move_to_a_second_member_without_a_loss_and_with_what_was_acknowledged(
        self, transport: Transport
    ) -> None:
        topic, name = make_topic(transport, partitions=4), unique("sub")
        for partition in range(4):
            write(transport, topic, *[b"%d" % n for n in range(100)], partition=partition)

        async def body() -> tuple[list[Message], list[Message], set[TopicPartition]]:
            taken: list[Message] = []
            late: list[Message] = []
            async with subscription(transport, topic, name=name, settings=MANUAL) as one:
                async for message in one:
                    taken.append(message)
                    message.ack()
                    if len(taken) == 200:
                        break
                async with subscription(transport, topic, name=name, settings=MANUAL) as other:
                    await came(lambda: len(other.partitions) == 2 and len(one.partitions) == 2)
                    moved = set(other.partitions)

                    async def drain(reader: Subscription, into: list[Message]) -> None:
                        async for message in reader:
                            into.append(message)
                            message.ack()

                    tasks = [asyncio.create_task(drain(one, taken)), asyncio.create_task(drain(other, late))]
                    await came(lambda: len({_place(m) for m in (*taken, *late)}) == 400)
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
            return taken, late, moved

        taken, late, moved = run(body())
        assert {message.topic_partition for message in late} <= moved
        # What was acknowledged before the partitions moved is not delivered to their next owner.
        assert len(taken) + len(late) == 400

    # Acknowledging

    def test_a_group_goes_on_behind_what_was_acknowledged(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1", b"2", b"3")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name) as reader:
                assert values(await first(2, reader)) == [b"0", b"1"]
            async with subscription(transport, topic, name=name) as reader:
                return await first(2, reader)

        assert values(run(body())) == [b"2", b"3"]

    def test_a_message_that_was_not_acknowledged_comes_again_and_those_behind_it_do_not(
        self, transport: Transport
    ) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1", b"2", b"3", b"4")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                for message in await first(4, reader):
                    if message.value != b"1":
                        message.ack()
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                return await first(2, reader)

        assert values(run(body())) == [b"1", b"4"]

    def test_a_message_in_hand_when_the_program_leaves_the_loop_is_not_acknowledged(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name) as reader:
                async for message in reader:
                    if message.value == b"1":
                        break
            async with subscription(transport, topic, name=name) as reader:
                return await first(1, reader)

        assert values(run(body())) == [b"1"]

    def test_acknowledgements_of_a_lost_partition_are_ignored(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                [message] = await first(1, reader)
            message.ack()
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                return await first(1, reader)

        assert values(run(body())) == [b"0"]

    def test_offsets_are_committed_while_the_program_goes_on(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1")

        async def body() -> None:
            async with subscription(transport, topic, name=name) as reader:
                await first(2, reader)
                await came(lambda: reader.counts.acknowledged == 2)
                await came(lambda: reader.counts.commits)

        run(body())

    def test_a_subscription_that_commits_nothing_starts_anew(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1")
        settings = SubscriptionSettings(commits=False, commit_interval_s=0.05)

        async def body() -> list[bytes | None]:
            read: list[bytes | None] = []
            for _ in range(2):
                async with subscription(transport, topic, name=name, settings=settings) as reader:
                    read += values(await first(2, reader))
            return read

        assert run(body()) == [b"0", b"1", b"0", b"1"]

    # Where it starts

    def test_it_starts_at_the_end_as_it_was_when_it_was_opened(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        write(transport, topic, b"before")

        async def body() -> list[Message]:
            async with subscription(transport, topic, start=Start.LATEST) as reader:
                write(transport, topic, b"after")
                write(transport, topic, b"after", partition=1)
                return await first(2, reader)

        assert values(run(body())) == [b"after", b"after"]

    def test_what_comes_while_a_group_that_started_at_the_end_is_away_is_read(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"before")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name, start=Start.LATEST) as reader:
                await came(lambda: reader.counts.commits)
            write(transport, topic, b"meanwhile")
            async with subscription(transport, topic, name=name, start=Start.LATEST) as reader:
                return await first(1, reader)

        assert values(run(body())) == [b"meanwhile"]

    def test_it_starts_at_a_time(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        write(transport, topic, b"before")
        [before] = run(read_to_end(transport, topic, 1))
        since_ms = before.timestamp_ms + 1
        eventually(lambda: time.time() * 1000 > since_ms + 1)
        write(transport, topic, b"after")

        async def body(start: StartAt) -> list[Message]:
            async with subscription(transport, topic, start=start) as reader:
                return await first(1, reader)

        assert values(run(body(Since(since_ms)))) == [b"after"]
        assert values(run(body(datetime.fromtimestamp(since_ms / 1000, UTC)))) == [b"after"]
        assert values(run(body(Since(0)))) == [b"before"]

    def test_it_starts_at_an_offset_and_at_those_of_each_partition(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        write(transport, topic, b"00", b"01", b"02")
        write(transport, topic, b"10", b"11", b"12", partition=1)

        async def body(start: StartAt, count: int) -> list[str]:
            async with subscription(transport, topic, start=start) as reader:
                return sorted(str(value) for value in values(await first(count, reader)))

        assert run(body(2, 2)) == ["b'02'", "b'12'"]
        assert run(body({TopicPartition(topic, 1): 1}, 5)) == ["b'00'", "b'01'", "b'02'", "b'11'", "b'12'"]

    def test_a_log_that_ends_before_the_offset_is_read_from_its_beginning_where_that_is_wanted(
        self, transport: Transport
    ) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1", b"2")
        settings = SubscriptionSettings(lost_records=LostRecords.EARLIEST, commit_interval_s=0.05)

        async def body() -> tuple[list[Message], list[Message]]:
            async with subscription(transport, topic, name=name, start=5, settings=settings) as reader:
                again = await first(3, reader)
            write(transport, topic, b"3")
            async with subscription(transport, topic, name=name, settings=settings) as reader:
                return again, await first(1, reader)

        again, after = run(body())
        assert (values(again), values(after)) == ([b"0", b"1", b"2"], [b"3"])

    def test_a_committed_offset_wins_over_the_start(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1", b"2")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name) as reader:
                await first(1, reader)
            async with subscription(transport, topic, name=name, start=Start.LATEST) as reader:
                return await first(2, reader)

        assert values(run(body())) == [b"1", b"2"]

    def test_a_time_without_a_zone_is_refused(self, transport: Transport) -> None:
        with pytest.raises(SubscriptionInvalid, match="without a zone"):
            subscription(transport, "orders", start=datetime(2024, 5, 1))

    # Topics

    def test_a_topic_of_a_name_must_exist(self, transport: Transport) -> None:
        missing = unique("missing")

        async def body() -> None:
            async with subscription(transport, missing):
                pass

        with pytest.raises(SubscribedTopicMissing, match=f"topic {missing} does not exist"):
            run(body())

    def test_a_new_topic_of_a_pattern_is_read_from_its_beginning_also_by_one_that_started_at_the_end(
        self, transport: Transport
    ) -> None:
        stem = unique("topic")
        old = make_topic(transport, name=f"{stem}.old")
        make_topic(transport, name=f"not.{stem}.old")
        write(transport, old, b"before")

        async def body() -> tuple[list[Message], float]:
            async with subscription(transport, pattern=f"{stem}.*", start=Start.LATEST) as reader:
                await came(lambda: reader.partitions)
                new = make_topic(transport, name=f"{stem}.new")
                write(transport, new, b"first", b"second")
                begun_s = time.monotonic()
                return await first(2, reader), time.monotonic() - begun_s

        messages, took_s = run(body())
        assert values(messages) == [b"first", b"second"]
        assert took_s < 15.0

    def test_a_topic_of_a_pattern_that_came_while_its_group_was_away_is_read_from_its_beginning(
        self, transport: Transport
    ) -> None:
        stem, name = unique("topic"), unique("sub")
        old = make_topic(transport, name=f"{stem}.old")
        write(transport, old, b"before")

        async def body() -> list[Message]:
            async with subscription(transport, pattern=f"{stem}.*", name=name, start=Start.LATEST) as reader:
                await came(lambda: reader.counts.commits)
            new = make_topic(transport, name=f"{stem}.new")
            write(transport, new, b"first", b"second")
            write(transport, old, b"after")
            async with subscription(transport, pattern=f"{stem}.*", name=name, start=Start.LATEST) as reader:
                return await first(3, reader)

        assert sorted(str(value) for value in values(run(body()))) == ["b'after'", "b'first'", "b'second'"]

    def test_a_topic_of_a_pattern_that_came_later_is_read_from_its_beginning_by_a_group_that_started_at_an_offset(
        self, transport: Transport
    ) -> None:
        stem, name = unique("topic"), unique("sub")
        write(transport, make_topic(transport, name=f"{stem}.old"), b"0", b"1")

        async def body() -> list[Message]:
            async with subscription(transport, pattern=f"{stem}.*", name=name, start=1) as reader:
                assert values(await first(1, reader)) == [b"1"]
            write(transport, make_topic(transport, name=f"{stem}.new"), b"first", b"second")
            async with subscription(transport, pattern=f"{stem}.*", name=name, start=1) as reader:
                return await first(2, reader)

        assert values(run(body())) == [b"first", b"second"]

    def test_a_topic_of_a_pattern_that_was_recreated_is_read_from_its_beginning(self, transport: Transport) -> None:
        stem = unique("topic")
        topic = make_topic(transport, name=f"{stem}.a")
        write(transport, topic, b"0", b"1", b"2")

        async def body() -> list[Message]:
            async with subscription(transport, pattern=f"{stem}.*", start=Start.LATEST) as reader:
                await came(lambda: reader.counts.commits)
                transport.admin().delete_topic(topic)
                await came(lambda: not reader.partitions)
                make_topic(transport, name=topic)
                write(transport, topic, b"first", b"second")
                return await first(2, reader)

        assert values(run(body())) == [b"first", b"second"]

    def test_a_pattern_without_a_topic_waits_for_one(self, transport: Transport) -> None:
        stem = unique("topic")

        async def body() -> list[Message]:
            async with subscription(transport, pattern=f"{stem}.?") as reader:
                write(transport, make_topic(transport, name=f"{stem}.1"), b"v")
                return await first(1, reader)

        assert values(run(body())) == [b"v"]

    # Buffers

    def test_a_slow_program_bounds_what_is_read_and_pauses_the_partitions(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=2)
        write(transport, topic, *[b"%d" % n for n in range(200)], partition=None)
        settings = SubscriptionSettings(max_buffered=8, commit_interval_s=0.05)

        async def body() -> tuple[list[Message], int, int]:
            most, taken = 0, []
            async with subscription(transport, topic, settings=settings) as reader:
                await came(lambda: reader.counts.pauses == 1)
                async for message in reader.take(200):
                    taken.append(message)
                    most = max(most, reader.buffered)
                    if len(taken) == 100:
                        await came(lambda: reader.counts.pauses == 2)
                        assert reader.counts.read <= 100 + 8
                return taken, most, reader.counts.pauses

        taken, most, pauses = run(body())
        assert len({message.value for message in taken}) == 200
        assert most <= 8
        assert pauses >= 2

    def test_large_records_fill_the_buffer_by_their_bytes(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, *[b"v" * 10_000] * 40)
        settings = SubscriptionSettings(max_buffered_bytes=50_000, commit_interval_s=0.05)

        async def body() -> int:
            async with subscription(transport, topic, settings=settings) as reader:
                async for _ in reader.take(10):
                    pass
                await came(lambda: reader.counts.pauses)
                read = reader.counts.read
                await first(30, reader)
                return read

        # The first lot is read before the size of records is known.
        assert run(body()) < 40

    def test_records_past_the_window_wait_for_an_acknowledgement(
        self, transport: Transport, caplog: pytest.LogCaptureFixture
    ) -> None:
        topic = make_topic(transport)
        write(transport, topic, *[b"%d" % n for n in range(30)])
        settings = SubscriptionSettings(auto_ack=False, window=10, commit_interval_s=0.05)

        async def body() -> list[Message]:
            async with subscription(transport, topic, settings=settings) as reader:
                taken = await first(10, reader)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await first(1, reader)
                for message in taken:
                    message.ack()
                async for message in reader.take(20):
                    message.ack()
                    taken.append(message)
                return taken

        assert values(run(body())) == [b"%d" % n for n in range(30)]
        assert f"{topic}[0] waits: offset 0 is not acknowledged" in caplog.text

    # Stages

    def test_many_messages_pass_filter_and_map_in_the_order_of_their_keys(self, transport: Transport) -> None:
        topic, name = make_topic(transport, partitions=4), unique("sub")
        count, keys = 100_000, 100

        async def body() -> tuple[dict[int, list[int]], int]:
            found: dict[int, list[int]] = defaultdict(list)
            async with Publisher(transport) as publisher, subscription(transport, topic, name=name) as reader:

                async def publish() -> None:
                    for n in range(count):
                        await publisher.publish(topic, b"%d" % n, key=b"%d" % (n % keys))

                publishing = asyncio.create_task(publish())
                wanted = reader.filter(lambda m: int(m.value or b"") % 2 == 0).map(lambda m: int(m.value or b""))
                async for number in wanted.take(count // 2):
                    found[number % keys].append(number)
                await publishing
            return found, reader.counts.acknowledged

        found, acknowledged = run(body())
        assert all(numbers == sorted(numbers) for numbers in found.values())
        assert sorted(number for numbers in found.values() for number in numbers) == list(range(0, count, 2))
        # The last ones are filtered out only if they come before the last that is wanted.
        assert count - 4 * keys <= acknowledged <= count

    def test_what_a_filter_leaves_out_is_acknowledged(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1", b"2", b"3")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name) as reader:
                assert values([m async for m in reader.filter(lambda m: m.value == b"2").take(1)]) == [b"2"]
            async with subscription(transport, topic, name=name) as reader:
                return await first(1, reader)

        assert values(run(body())) == [b"3"]

    def test_a_stage_that_raises_is_named_with_the_message_and_acknowledges_nothing(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"1", b"x", b"3")

        def number(message: Message) -> int:
            return int(message.value or b"")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name) as reader:
                place = rf"subscription {name}, stage 2, map number failed at {topic}\[0\] offset 1: ValueError: "
                with pytest.raises(StageFailed, match=place) as raised:
                    async for _ in reader.filter(lambda _m: True).map(number):
                        pass
                assert isinstance(raised.value.__cause__, ValueError)
            async with subscription(transport, topic, name=name) as reader:
                return await first(2, reader)

        assert values(run(body())) == [b"x", b"3"]

    def test_stages_may_be_coroutine_functions(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, *[b"%d" % n for n in range(6)])

        async def is_even(message: Message) -> bool:
            await asyncio.sleep(0)
            return int(message.value or b"") % 2 == 0

        async def doubled(message: Message) -> int:
            await asyncio.sleep(0)
            return 2 * int(message.value or b"")

        async def parts(number: int) -> AsyncIterator[str]:
            for part in ("a", "b"):
                await asyncio.sleep(0)
                yield f"{number}{part}"

        async def body() -> list[str]:
            async with subscription(transport, topic) as reader:
                return [part async for part in reader.filter(is_even).map(doubled).flat_map(parts).take(6)]

        assert run(body()) == ["0a", "0b", "4a", "4b", "8a", "8b"]

    def test_a_message_of_many_items_is_acknowledged_with_the_last_of_them(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"ab", b"", b"cd", b"e")

        def letters(message: Message) -> list[str]:
            return list((message.value or b"").decode())

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                items = [item async for item in reader.flat_map(letters).take(5).items()]
                assert [item.value for item in items] == ["a", "b", "c", "d", "e"]
                # All of the first message, none of the second, one of the third, twice.
                for item in (*items[:3], items[2]):
                    item.ack()
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                return await first(1, reader)

        assert values(run(body())) == [b"cd"]

    @pytest.mark.parametrize("stage", ["map", "flat_map"])
    def test_a_program_that_stops_waiting_in_a_stage_and_asks_again_gets_the_same_value(
        self, transport: Transport, stage: str
    ) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0", b"1")
        calls: list[bytes | None] = []

        async def first_call_hangs(message: Message) -> None:
            calls.append(message.value)
            if len(calls) == 1:
                await asyncio.sleep(30)

        async def doubled(message: Message) -> bytes:
            await first_call_hangs(message)
            return (message.value or b"") * 2

        async def both(message: Message) -> AsyncIterator[bytes]:
            await first_call_hangs(message)
            yield (message.value or b"") * 2

        async def body() -> list[bytes]:
            async with subscription(transport, topic) as reader:
                stream = reader.map(doubled) if stage == "map" else reader.flat_map(both)
                iteration = aiter(stream.take(2))
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await anext(iteration)
                return [value async for value in iteration]

        assert run(body()) == [b"00", b"11"]
        assert calls == [b"0", b"0", b"1"]

    def test_a_batch_is_complete_or_ends_with_its_time_and_acknowledges_all_of_it(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, *[b"%d" % n for n in range(5)])

        async def body() -> tuple[list[list[bytes | None]], list[Message]]:
            batches = []
            async with subscription(transport, topic, name=name) as reader:
                async for batch in reader.batch(2, within_s=0.2).take(3):
                    batches.append(values(batch))
            write(transport, topic, b"5")
            async with subscription(transport, topic, name=name) as reader:
                return batches, await first(1, reader)

        batches, rest = run(body())
        assert batches == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
        assert values(rest) == [b"5"]

    def test_mapped_values_without_an_acknowledgement_of_their_own_are_refused(self, transport: Transport) -> None:
        topic = make_topic(transport)

        async def body() -> None:
            async with subscription(transport, topic, settings=MANUAL) as reader:
                with pytest.raises(SubscriptionInvalid, match=r"iterate over items\(\)"):
                    aiter(reader.map(lambda m: m.value))

        run(body())

    # Handlers

    def test_handlers_run_at_once_for_different_keys_and_in_order_for_one(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"a0", b"a1", b"a2", key=b"a")
        write(transport, topic, b"b0", b"b1", b"b2", key=b"b")
        write(transport, topic, b"-", key=None)
        log: list[str] = []
        both = asyncio.Event()

        async def handle(message: Message) -> None:
            value = (message.value or b"").decode()
            log.append(f"+{value}")
            if {"+a0", "+b0", "+-"} <= set(log):
                both.set()
            # Every key's first handler waits until the others have begun, so they must run at once.
            await both.wait()
            log.append(f"-{value}")

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                await reader.take(7).run(handle, concurrency=3)
            write(transport, topic, b"next")
            async with subscription(transport, topic, name=name, settings=MANUAL) as reader:
                return await first(1, reader)

        assert values(run(body())) == [b"next"]
        for key in "ab":
            assert [entry for entry in log if entry[1] == key] == [
                f"{sign}{key}{number}" for number in range(3) for sign in "+-"
            ]

    def test_a_handler_that_raises_cancels_the_others_and_leaves_what_is_unfinished(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        for n in range(4):
            write(transport, topic, b"%d" % n, key=b"%d" % n)
        cancelled: list[bytes | None] = []

        async def handle(message: Message) -> None:
            if message.value == b"1":
                await asyncio.sleep(0.01)
                raise KeyError("no such order")
            if message.value != b"0":
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    cancelled.append(message.value)
                    raise

        async def body() -> list[Message]:
            async with subscription(transport, topic, name=name) as reader:
                with pytest.raises(StageFailed, match=rf"handler handle failed at {topic}\[0\] offset 1: KeyError"):
                    await reader.run(handle, concurrency=4)
            async with subscription(transport, topic, name=name) as reader:
                return await first(3, reader)

        assert values(run(body())) == [b"1", b"2", b"3"]
        assert sorted(map(str, cancelled)) == ["b'2'", "b'3'"]

    @pytest.mark.parametrize("concurrency", [1, 2])
    def test_a_handler_that_awaits_what_another_task_cancelled_has_failed(
        self, transport: Transport, concurrency: int
    ) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0", key=b"k")

        async def handle(_message: Message) -> None:
            other = asyncio.create_task(asyncio.sleep(30))
            other.cancel()
            await other

        async def body() -> None:
            async with subscription(transport, topic) as reader:
                with pytest.raises(StageFailed, match=rf"handler handle failed at {topic}\[0\] offset 0: Cancelled"):
                    await reader.run(handle, concurrency=concurrency)

        run(body())

    def test_plain_functions_handle_messages_too(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0", b"1")
        seen: list[bytes | None] = []

        async def body() -> None:
            async with subscription(transport, topic) as reader:
                await reader.map(lambda m: m.value).take(2).run(seen.append)

        run(body())
        assert seen == [b"0", b"1"]

    # What cannot be decoded

    def test_unreadable_messages_are_skipped_and_counted(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"1", b"{", b"3")
        settings = SubscriptionSettings(on_error=OnError.SKIP, commit_interval_s=0.05)

        async def body() -> tuple[list[object], int]:
            async with subscription(transport, topic, name=name, settings=settings) as reader:
                return [m.data async for m in reader.take(2)], reader.counts.skipped

        assert run(body()) == ([1, 3], 1)

    def test_a_dead_letter_is_the_record_with_the_reason_and_its_offset_moves(self, transport: Transport) -> None:
        topic, name, letters = make_topic(transport), unique("sub"), make_topic(transport)
        write(transport, topic, b"1", b"{", b"3", key=b"k")
        settings = SubscriptionSettings(on_error=OnError.DEAD_LETTER, dead_letter_topic=letters, commit_interval_s=0.05)

        async def body() -> tuple[list[Message], Message]:
            async with subscription(transport, topic, name=name, settings=settings) as reader:
                assert [m.data async for m in reader.take(2)] == [1, 3]
                assert reader.counts.dead_lettered == 1
            write(transport, topic, b"4")
            async with subscription(transport, topic, name=name, settings=settings) as reader:
                after = await first(1, reader)
            return after, (await read_to_end(transport, letters, 1))[0]

        after, letter = run(body())
        assert values(after) == [b"4"]
        assert (letter.key, letter.value) == (b"k", b"{")
        assert letter.header("afl.dlq.topic") == topic
        assert letter.header("afl.dlq.offset") == "1"
        assert letter.header("afl.dlq.reason") == "bad_json"

    def test_dead_letters_need_their_topic(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        settings = SubscriptionSettings(on_error=OnError.DEAD_LETTER)

        async def body() -> None:
            async with subscription(transport, topic, name=name, settings=settings):
                pass

        with pytest.raises(SubscribedTopicMissing, match=rf"topic afl\.dlq\.pubsub\.{name} does not exist"):
            run(body())
        assert reader_threads() == []

    def test_a_decoder_of_the_programs_own_may_raise_what_it_likes(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"1", b"x", b"3")
        settings = SubscriptionSettings(decode=lambda m: int(m.value or b""), on_error=OnError.SKIP)

        async def body() -> list[object]:
            async with subscription(transport, topic, settings=settings) as reader:
                return [m.data async for m in reader.take(2)]

        assert run(body()) == [1, 3]

    # Publishing

    def test_what_is_published_is_read_in_the_order_of_its_keys(self, transport: Transport) -> None:
        topic = make_topic(transport, partitions=3)

        async def body() -> list[Message]:
            async with Publisher(transport) as publisher:
                for n in range(300):
                    await publisher.publish(topic, {"n": n}, key=f"k{n % 7}")
                await publisher.flush()
                assert publisher.in_flight == 0
            return await read_to_end(transport, topic, 300)

        found: dict[bytes | None, list[int]] = defaultdict(list)
        for message in run(body()):
            assert isinstance(message.data, dict)
            found[message.key].append(message.data["n"])
        assert all(numbers == sorted(numbers) for numbers in found.values())
        assert sorted(n for numbers in found.values() for n in numbers) == list(range(300))

    def test_json_has_the_headers_of_a_cloud_event_and_bytes_have_those_that_are_given(
        self, transport: Transport
    ) -> None:
        topic = make_topic(transport)

        async def body() -> list[Message]:
            async with Publisher(transport, settings=PublisherSettings(source="/shop")) as publisher:
                await publisher.publish(topic, ["ü"], headers=(("ce_type", b"order"), ("own", b"1")))
                await publisher.publish(topic, ["ü"])
                await publisher.publish(topic, b"raw", headers=(("own", b"1"),))
                await publisher.publish(topic, None, key="k")
            return await read_to_end(transport, topic, 4)

        typed, plain, raw, tombstone = run(body())
        assert (typed.value, typed.data) == ('["ü"]'.encode(), ["ü"])
        assert (typed.header("ce_type"), typed.header("own")) == ("order", "1")
        assert [plain.header(f"ce_{name}") for name in ("specversion", "type", "source")] == ["1.0", topic, "/shop"]
        assert plain.header("content-type") == "application/json"
        assert plain.header("ce_id") != typed.header("ce_id")
        assert (raw.value, raw.headers) == (b"raw", (("own", b"1"),))
        assert (tombstone.key, tombstone.value) == (b"k", None)

    def test_an_acknowledged_record_says_where_it_stands(self, transport: Transport) -> None:
        topic = make_topic(transport)

        async def body() -> list[Published]:
            async with Publisher(transport) as publisher:
                return [await publisher.publish_and_wait(topic, n) for n in range(2)]

        assert run(body()) == [Published(topic, 0, 0), Published(topic, 0, 1)]

    def test_a_publisher_waits_for_room(self, transport: Transport) -> None:
        topic = make_topic(transport)

        async def body() -> int:
            most = 0
            settings = PublisherSettings(max_in_flight=10)
            async with Publisher(transport, settings=settings) as publisher:
                for n in range(200):
                    await publisher.publish(topic, n)
                    most = max(most, publisher.in_flight)
            return most

        assert run(body()) == 10

    def test_publishing_to_a_topic_that_is_not_there_is_an_error(self, transport: Transport) -> None:
        async def body() -> None:
            async with Publisher(transport) as publisher:
                await publisher.publish(unique("missing"), 1)

        with pytest.raises(UnknownTopic):
            run(body())

    def test_a_record_over_the_topics_limit_is_refused_and_the_next_one_is_written(self, transport: Transport) -> None:
        topic = make_topic(transport, max_message_bytes="2000")

        async def body() -> list[Message]:
            async with Publisher(transport) as publisher:
                with pytest.raises(RecordTooLarge):
                    await publisher.publish_and_wait(topic, b"v" * 5_000)
                await publisher.publish_and_wait(topic, b"small")
            return await read_to_end(transport, topic, 1)

        assert values(run(body())) == [b"small"]

    @pytest.mark.parametrize("bad", [float("nan"), {1, 2}, {"a": object()}, "\ud800"])
    def test_a_value_that_is_no_json_is_refused(self, transport: Transport, bad: object) -> None:
        topic = make_topic(transport)

        async def body() -> None:
            async with Publisher(transport) as publisher:
                await publisher.publish(topic, bad)

        with pytest.raises(DataRefused, match="neither bytes nor JSON"):
            run(body())

    def test_closing_a_publisher_drains_it(self, transport: Transport) -> None:
        topic = make_topic(transport)
        acknowledged: list[int] = []

        async def body() -> list[Message]:
            async with Publisher(transport) as publisher:
                for n in range(100):
                    await publisher.publish(topic, n, on_acknowledged=lambda n=n: acknowledged.append(n))  # type: ignore[misc]
            return await read_to_end(transport, topic, 100)

        assert len(run(body())) == 100
        assert acknowledged == list(range(100))

    def test_a_stream_is_republished_with_its_keys_and_acknowledged(self, transport: Transport) -> None:
        source, target, name = make_topic(transport, partitions=2), make_topic(transport, partitions=2), unique("sub")
        for n in range(20):
            write(transport, source, b"%d" % n, key=b"k%d" % (n % 3), partition=None)

        async def body() -> tuple[list[Message], list[Message]]:
            async with Publisher(transport) as publisher, subscription(transport, source, name=name) as reader:
                doubled = reader.map(lambda m: {"doubled": 2 * int(m.value or b"")}).take(20)
                assert await republish(doubled, publisher, target) == 20
            write(transport, source, b"20")
            async with subscription(transport, source, name=name) as reader:
                after = await first(1, reader)
            return after, await read_to_end(transport, target, 20)

        after, published = run(body())
        assert values(after) == [b"20"]
        numbers = {message.data["doubled"]: message.key for message in published if isinstance(message.data, dict)}
        assert numbers == {2 * n: b"k%d" % (n % 3) for n in range(20)}
        assert len({message.header("ce_id") for message in published}) == 20

    # Leaving

    def test_a_subscription_may_be_left_before_anything_is_read(self, transport: Transport) -> None:
        topic = make_topic(transport)

        async def body() -> None:
            async with subscription(transport, topic):
                pass

        run(body())

    def test_closing_ends_an_iteration_in_another_task(self, transport: Transport) -> None:
        topic = make_topic(transport)

        async def body() -> list[Message]:
            reader = subscription(transport, topic)
            await reader.__aenter__()

            async def iterate() -> list[Message]:
                return [message async for message in reader]

            iterating = asyncio.create_task(iterate())
            await asyncio.sleep(0)
            await reader.close()
            return await iterating

        assert run(body()) == []

    def test_a_cancelled_program_leaves_no_thread(self, transport: Transport) -> None:
        topic = make_topic(transport)
        write(transport, topic, b"0")

        async def program(seen: list[Message]) -> None:
            async with subscription(transport, topic) as reader:
                async for message in reader:
                    seen.append(message)

        async def body() -> None:
            seen: list[Message] = []
            task = asyncio.create_task(program(seen))
            await came(lambda: seen)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(body())

    def test_a_program_that_is_cancelled_while_it_joins_leaves_no_thread(self, transport: Transport) -> None:
        topic = make_topic(transport)

        async def program() -> None:
            async with subscription(transport, topic):
                pass

        async def body() -> None:
            task = asyncio.create_task(program())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await came(lambda: not reader_threads())

        run(body())

    def test_an_event_loop_that_ends_takes_the_thread_with_it(self, transport: Transport) -> None:
        topic = make_topic(transport)

        async def body() -> None:
            await subscription(transport, topic).__aenter__()

        asyncio.run(body())
        eventually(lambda: not reader_threads())

    def test_a_program_without_an_event_loop_reads_and_acknowledges(self, transport: Transport) -> None:
        topic, name = make_topic(transport), unique("sub")
        write(transport, topic, b"0", b"1", b"2")

        def read(count: int) -> Sequence[bytes | None]:
            taken: list[bytes | None] = []
            messages = subscription(transport, topic, name=name).blocking()
            for message in messages:
                taken.append(message.value)
                message.ack()
                if len(taken) == count:
                    break
            messages.close()  # type: ignore[attr-defined]  # a generator
            return taken

        assert read(2) == [b"0", b"1"]
        assert read(1) == [b"2"]


def _place(message: Message) -> tuple[TopicPartition, int]:
    return message.topic_partition, message.offset
