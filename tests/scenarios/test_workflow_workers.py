"""Workflows on a cluster: workers share the requests, clients and other programs use the topics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence

import pytest

from afl_stream.partitioner import partition_for
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.hosting.failures import RequestFailed, RequestNotAnswered
from afl_stream.pubsub.hosting.topics import PartitionsChanged, WorkflowTopicMissing
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.topics import InputTopic, InWorkflowInputTopic, InWorkflowOutputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from afl_stream.wire.headers import header
from tests.worlds.hosted import NODES, PATIENCE_S, Executions, HostedWorld, pipeline, request, until


@pytest.fixture
def executions() -> Executions:
    return Executions()


@pytest.fixture
def hosted(executions: Executions) -> Iterator[HostedWorld]:
    hosted = HostedWorld(pipeline(executions))
    yield hosted
    hosted.close()


def test_a_request_gets_its_output(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        async with hosted.worker(), hosted.client() as client:
            invocation = client.invoke(request("r1"), 20, timeout_s=PATIENCE_S)
            events = [event async for event in invocation]

        assert [(event.name, event.data) for event in events] == [("words", "it is 42")]
        assert invocation.status is RequestStatus.FINISHED
        assert (await hosted.stored("r1")).status is RequestStatus.FINISHED

    asyncio.run(scenario())


def test_what_nodes_publish_stands_on_the_topics_for_other_programs(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        async with hosted.worker(), hosted.client() as client:
            await hosted.outputs(client, request("r1"), 20)

    asyncio.run(scenario())

    assert [event.data for topic in hosted.topics.of for event in hosted.events(topic)] == [20, 21, 42, "it is 42"]
    for topic in hosted.topics.of.values():
        (record,) = hosted.records(topic)
        assert record.key == b"r1"
        assert record.partition == partition_for(b"r1", 4)


def test_many_requests_run_at_once_and_each_node_once(hosted: HostedWorld, executions: Executions) -> None:
    async def scenario() -> list[list[object]]:
        async with hosted.worker(), hosted.client() as client:
            outputs = await asyncio.gather(*(hosted.outputs(client, request(f"r{n}"), n) for n in range(100)))
            await until(lambda: hosted.unread() == 0)
            return outputs

    assert asyncio.run(scenario()) == [[f"it is {(n + 1) * 2}"] for n in range(100)]
    assert executions.counts == {(node, f"r{n}"): 1 for node in NODES for n in range(100)}


def test_two_workers_share_the_requests(hosted: HostedWorld, executions: Executions) -> None:
    async def scenario() -> tuple[int, int]:
        async with hosted.worker("one") as one, hosted.worker("two") as two, hosted.client() as client:
            outputs = await asyncio.gather(*(hosted.outputs(client, request(f"r{n}"), n) for n in range(100)))
            assert outputs == [[f"it is {(n + 1) * 2}"] for n in range(100)]
            await until(lambda: one.counts.finished + two.counts.finished == 100)
            return one.counts.finished, two.counts.finished

    of_one, of_two = asyncio.run(scenario())

    assert of_one > 0
    assert of_two > 0
    assert executions.counts == {(node, f"r{n}"): 1 for node in NODES for n in range(100)}


def test_the_same_request_again_gets_the_same_output_and_runs_nothing(
    hosted: HostedWorld, executions: Executions
) -> None:
    async def scenario() -> None:
        async with hosted.worker(), hosted.client() as client:
            first = await hosted.outputs(client, request("r1"), 20)
            assert await hosted.outputs(client, request("r1"), 20) == first
            assert await hosted.outputs(client, request("r1")) == first

    asyncio.run(scenario())

    assert set(executions.counts.values()) == {1}


def test_a_request_takes_a_further_input_whose_call_has_an_id_of_its_own(
    hosted: HostedWorld, executions: Executions
) -> None:
    async def scenario() -> None:
        async with hosted.worker():
            async with hosted.client() as client:
                assert await hosted.outputs(client, request("r1"), 20) == ["it is 42"]
            # Its reading begins behind the first output.
            async with hosted.client() as client:
                assert await hosted.outputs(client, request("r1", invoke_id="next"), 30) == ["it is 62", "it is 42"]
                again = await hosted.outputs(client, request("r1", invoke_id="next"), 30)
                assert sorted(map(str, again)) == ["it is 42", "it is 62"]

    asyncio.run(scenario())

    assert set(executions.counts.values()) == {2}


def test_a_request_that_was_only_started_is_followed_later(hosted: HostedWorld, executions: Executions) -> None:
    async def scenario() -> None:
        async with hosted.worker() as worker:
            async with hosted.client() as client:
                await client.start(request("r1"), 20)
            await until(lambda: worker.counts.finished == 1)
            async with hosted.client() as client:
                assert await hosted.outputs(client, request("r1")) == ["it is 42"]

    asyncio.run(scenario())

    assert set(executions.counts.values()) == {1}


def test_a_caller_that_came_later_hears_the_end_of_a_request_with_earlier_output() -> None:
    orders, words = InputTopic("orders"), OutputTopic("words")
    ask, said = InWorkflowOutputTopic("ask", reply_to="said"), InWorkflowInputTopic("said")
    workflow = (
        EventDrivenWorkflow.builder()
        .name("asking")
        .node(Node.builder().name("asks").command(lambda context, events: "sure?").subscribe(orders).publish_to(ask))
        .node(Node.builder().name("ends").command(lambda context, events: "done").subscribe(said).publish_to(words))
        .build()
    )
    hosted = HostedWorld(workflow)

    async def scenario() -> None:
        async with hosted.worker():
            async with hosted.client() as client:
                assert await hosted.outputs(client, request("r1"), 1) == ["sure?"]
            # Its reading begins behind the question.
            async with hosted.client() as client:
                answered = client.invoke(request("r1"), True, topic="said", timeout_s=PATIENCE_S)
                assert [event.data async for event in answered] == ["done"]
                assert answered.status is RequestStatus.FINISHED

    asyncio.run(scenario())
    hosted.close()


def test_a_request_that_is_forgotten_while_it_waits_is_a_new_one_for_its_worker() -> None:
    orders, words = InputTopic("orders"), OutputTopic("words")
    ask, said = InWorkflowOutputTopic("ask", reply_to="said"), InWorkflowInputTopic("said")
    small = Topic("small", lambda order: order < 10)
    workflow = (
        EventDrivenWorkflow.builder()
        .name("forgetting")
        .node(
            Node.builder()
            .name("check")
            .command(lambda context, events: events[0].data)
            .subscribe(orders)
            .publish_to(small)
            .publish_to(ask, when=lambda order: order >= 10)
        )
        .node(Node.builder().name("ends").command(lambda context, events: "done").subscribe(said).publish_to(words))
        .node(Node.builder().name("sell").command(lambda context, events: "sold").subscribe(small).publish_to(words))
        .build()
    )
    hosted = HostedWorld(workflow)

    async def scenario() -> None:
        async with hosted.worker(), hosted.client() as client:
            assert await hosted.outputs(client, request("r1"), 30) == [30]
            await hosted.store.forget(RequestKey("forgetting", "r1"))
            # By another client, for whom the question was before its time.
            async with hosted.client() as later:
                assert await hosted.outputs(later, request("r1"), 3) == ["sold"]

    asyncio.run(scenario())
    hosted.close()


def test_a_request_that_nothing_is_known_of_is_refused(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        async with hosted.worker(), hosted.client() as client:
            with pytest.raises(RequestFailed, match="r1: nothing is stored of it"):
                await hosted.outputs(client, request("r1"))

        assert await hosted.store.requests("sums") == []

    asyncio.run(scenario())


def test_a_caller_waits_no_longer_than_it_said(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        async with hosted.client() as client:
            with pytest.raises(RequestNotAnswered, match=r"r1: not answered in 0\.05 s"):
                [_ async for _ in client.invoke(request("r1"), 20, timeout_s=0.05)]

        async with hosted.worker(), hosted.client() as client:
            assert await hosted.outputs(client, request("r1")) == ["it is 42"]

    asyncio.run(scenario())


def test_plain_json_of_another_program_is_an_input(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        hosted.produce(hosted.topics.of["numbers"], b"20", key=b"r1")
        async with hosted.worker() as worker:
            await until(lambda: worker.counts.finished == 1 and hosted.unread() == 0)

    asyncio.run(scenario())

    assert [event.data for event in hosted.events("words")] == ["it is 42"]


def test_json_is_written_where_the_settings_say_so(executions: Executions) -> None:
    hosted = HostedWorld(pipeline(executions), format="json")

    async def scenario() -> None:
        async with hosted.worker(), hosted.client() as client:
            assert await hosted.outputs(client, request("r1"), 20) == ["it is 42"]

    asyncio.run(scenario())

    (record,) = hosted.records(hosted.topics.of["words"])
    written = json.loads(record.value or b"")
    assert {name: written[name] for name in ("type", "topic", "request_id", "data", "publisher")} == {
        "type": "TopicEvent",
        "topic": "words",
        "request_id": "r1",
        "data": "it is 42",
        "publisher": "say",
    }
    assert header(record.headers, "content-type") == "application/json"
    hosted.close()


def test_a_record_on_another_partition_than_its_requests_is_put_right(hosted: HostedWorld) -> None:
    topic = hosted.topics.of["numbers"]
    wrong = (partition_for(b"r1", 4) + 1) % 4

    async def scenario() -> None:
        hosted.produce(topic, b"20", key=b"r1", partition=wrong)
        async with hosted.worker() as worker:
            await until(lambda: worker.counts.finished == 1 and hosted.unread() == 0)
            assert worker.counts.forwarded == 1

    asyncio.run(scenario())

    assert {record.partition for record in hosted.records(topic)} == {wrong, partition_for(b"r1", 4)}
    assert [event.data for event in hosted.events("words")] == ["it is 42"]


def test_a_record_on_another_partition_that_is_too_large_as_an_event_is_a_dead_letter(hosted: HostedWorld) -> None:
    wrong = (partition_for(b"r1", 4) + 1) % 4

    async def scenario() -> None:
        # 1 MB of plain JSON fits the topic, and an event of ours is larger than its data.
        hosted.produce(hosted.topics.of["numbers"], b'"' + b"x" * 1_048_500 + b'"', key=b"r1", partition=wrong)
        async with hosted.worker() as worker:
            await until(lambda: worker.counts.dead_lettered == 1 and hosted.unread() == 0)

    asyncio.run(scenario())

    (letter,) = hosted.records(hosted.topics.dead_letters)
    assert header(letter.headers, "afl.dlq.reason") == "too_large"


def test_an_event_is_taken_also_where_another_program_copied_its_headers_from_one_of_ours(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        async with hosted.worker() as worker, hosted.client() as client:
            assert await hosted.outputs(client, request("r1"), 20) == ["it is 42"]
            (ours,) = hosted.records(hosted.topics.of["increased"])
            hosted.produce(hosted.topics.of["doubled"], b"50", key=b"r1", headers=ours.headers)
            await until(lambda: worker.counts.finished == 2 and hosted.unread() == 0)

    asyncio.run(scenario())

    assert [event.data for event in hosted.events("words")] == ["it is 42", "it is 50"]


def test_a_worker_ends_when_its_topics_get_more_partitions(hosted: HostedWorld) -> None:
    admin = hosted.transport.admin()

    async def scenario() -> None:
        async with hosted.worker() as worker:
            await until(lambda: worker.health().ready)
            admin.delete_topic(hosted.topics.of["numbers"])
            admin.create_topic(hosted.topics.of["numbers"], partitions=5)
            await worker.until_stopped()

    with pytest.raises(PartitionsChanged, match="had 4 partitions each when this worker began"):
        asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_a_worker_ends_when_a_topic_that_was_made_anew_puts_requests_on_other_partitions(hosted: HostedWorld) -> None:
    admin = hosted.transport.admin()
    moved = next(key for key in (b"r1", b"r2", b"r3", b"r4") if partition_for(key, 3) != partition_for(key, 4))

    async def scenario() -> None:
        async with hosted.worker() as worker:
            await until(lambda: worker.health().ready)
            admin.delete_topic(hosted.topics.of["numbers"])
            admin.create_topic(hosted.topics.of["numbers"], partitions=3)
            hosted.produce(hosted.topics.of["numbers"], b"20", key=moved)
            await worker.until_stopped()

    with pytest.raises(PartitionsChanged):
        asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))

    assert len(hosted.records(hosted.topics.of["numbers"])) == 2


def test_a_copy_of_a_forwarded_record_on_another_partition_is_forwarded_again(hosted: HostedWorld) -> None:
    wrong = (partition_for(b"r1", 4) + 1) % 4

    async def scenario() -> None:
        forwarded = (("afl_forwarded", b"1"),)
        hosted.produce(hosted.topics.of["numbers"], b"20", key=b"r1", partition=wrong, headers=forwarded)
        async with hosted.worker() as worker:
            await until(lambda: worker.counts.finished == 1 and hosted.unread() == 0)
            assert worker.counts.forwarded == 1

    asyncio.run(scenario())


UNREADABLE = [
    (b"r1", b"\x00\x01", "bad_magic"),
    (b"r1", b"{", "bad_json"),
    (b"r1", None, "null_value"),
    (None, b"20", "empty_key"),
    (b"\xff", b"20", "bad_key"),
    (b"r1", b'{"type": "TopicEvent", "kind": "consume"}', "wrong_type"),
]


@pytest.mark.parametrize(("key", "value", "reason"), UNREADABLE)
def test_a_record_that_cannot_be_read_becomes_a_dead_letter(
    hosted: HostedWorld, key: bytes | None, value: bytes | None, reason: str
) -> None:
    async def scenario() -> None:
        hosted.produce(hosted.topics.of["numbers"], value, key=key, partition=1)
        async with hosted.worker() as worker, hosted.client() as client:
            await until(lambda: worker.counts.dead_lettered == 1)
            assert await hosted.outputs(client, request("r2"), 20) == ["it is 42"]
            await until(lambda: hosted.unread() == 0)

    asyncio.run(scenario())

    (letter,) = hosted.records(hosted.topics.dead_letters)
    assert (letter.key, letter.value) == (key, value)
    assert header(letter.headers, "afl.dlq.reason") == reason
    assert header(letter.headers, "afl.dlq.topic") == hosted.topics.of["numbers"]


def test_a_missing_topic_is_named_before_anything_begins(hosted: HostedWorld) -> None:
    hosted.transport.admin().delete_topic(hosted.topics.of["doubled"])

    async def scenario() -> None:
        for party in (hosted.worker(), hosted.client()):
            with pytest.raises(WorkflowTopicMissing, match=r"afl\.pubsub\.sums\.doubled"):
                async with party:
                    pass

    asyncio.run(scenario())


def test_only_so_many_requests_are_at_work_at_once(executions: Executions) -> None:
    hosted = HostedWorld(pipeline(executions), max_open_requests=2)
    most = 0

    async def scenario() -> Sequence[object]:
        nonlocal most
        async with hosted.worker() as worker, hosted.client() as client:
            invocations = asyncio.gather(*(hosted.outputs(client, request(f"r{n}"), n) for n in range(50)))
            while not invocations.done():
                most = max(most, worker.health().open_requests)
                await asyncio.sleep(0)
            return await invocations

    assert asyncio.run(scenario()) == [[f"it is {(n + 1) * 2}"] for n in range(50)]
    assert most == 2
    hosted.close()


def test_a_worker_that_is_told_to_stop_is_not_healthy(hosted: HostedWorld) -> None:
    async def scenario() -> None:
        async with hosted.worker() as worker:
            assert worker.health().ready
            worker.stop()
            await worker.until_stopped()
            assert worker.health().reasons == ("the worker is stopping",)

    asyncio.run(scenario())
