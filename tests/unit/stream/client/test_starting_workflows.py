"""A client starts workflows: how often it asks the broker, and many starts in one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from afl.compiled.program import CompiledProgram
from afl_stream.client.bulk_starts import LOT_STARTS, SameIdTwice, StartRefused, StartRequest, StartsNotSent
from afl_stream.client.client import Client
from afl_stream.errors import EventTooLarge, IdRefused, ValueRefused
from afl_stream.programs.definitions import UnknownProgram
from afl_stream.transport import QueueFull, RecordTooLarge, Transport, UnknownTopic
from afl_stream.wire.messages import StartWorkflow
from tests.unit.stream.agent.agent_bench import Deployment
from tests.worlds.deployment import program_of

#: Methods of the transport that ask the broker something, or wait for it.
QUESTIONS = ("watermarks", "offsets_for_times", "topics", "topic_names", "cluster_id", "broker_count", "flush")
COUNT = "namespace count {{ workflow Up(n: Long) => (n: Long) andThen {{ yield Up(n = $.n + {step}) }} }}"
UP = "count.Up"


class CountingTransport:
    """A transport that counts the calls which ask its broker, by what they are called."""

    def __init__(self, transport: Any, room: int | None = None) -> None:
        """`room`: so many records fit into a producer's queue until it is polled or flushed."""
        self._transport, self.asked = transport, Counter[str]()
        self._room, self._queued = room, 0

    def producer(self) -> Any:
        return _Counting(self, self._transport.producer())

    def consumer(self, *words: Any, **options: Any) -> Any:
        return _Counting(self, self._transport.consumer(*words, **options))

    def admin(self) -> Any:
        return _Counting(self, self._transport.admin())

    def close(self) -> None:
        self._transport.close()

    def note(self, method: str, words: tuple[Any, ...]) -> None:
        if method in QUESTIONS or (method in ("poll", "consume") and words[-1] > 0):
            self.asked[method] += 1
        if method in ("poll", "flush"):
            self._queued = 0
        if method == "produce":
            if self._room is not None and self._queued >= self._room:
                raise QueueFull("no room")
            self._queued += 1


class _Counting:
    def __init__(self, counts: CountingTransport, real: Any) -> None:
        self._counts, self._real = counts, real

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)

        def counted(*words: Any, **options: Any) -> Any:
            self._counts.note(name, words)
            return method(*words, **options)

        return counted if callable(method) else method


def up(step: int = 1) -> CompiledProgram:
    return program_of(COUNT.format(step=step))


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


@pytest.fixture
def transport(deployment: Deployment) -> CountingTransport:
    return CountingTransport(deployment.transport)


@pytest.fixture
def client(deployment: Deployment, transport: CountingTransport) -> Iterator[Client]:
    """Return a client that asks for the end of the definitions once, and has deployed a program."""
    with closing(connected(deployment, transport, names_known_s=3_600)) as client:
        client.deploy(up())
        yield client


def connected(deployment: Deployment, transport: Any, **options: Any) -> Client:
    as_port: Transport = transport
    return Client(deployment.stream, as_port, **options)


def started(deployment: Deployment) -> list[StartWorkflow]:
    """Return the starts on their topic, in the order in which they were sent."""
    found = []
    for record in deployment.records(deployment.topology.commands()):
        command = deployment.new_codec().decode(record.value, record.headers)
        assert isinstance(command, StartWorkflow)
        found.append(command)
    return found


def requests(count: int, **of_some: StartRequest) -> list[StartRequest]:
    """Return so many starts of `w0`, `w1`, ..., of which some are others."""
    plain = [StartRequest(workflow=UP, inputs={"n": n}, workflow_id=f"w{n}") for n in range(count)]
    return [of_some.get(f"w{number}", request) for number, request in enumerate(plain)]


# --- trips to the broker ----------------------------------------------------------------------------------------


def test_a_start_of_a_known_name_asks_the_broker_for_an_acknowledgement_and_nothing_else(
    client: Client, transport: CountingTransport
) -> None:
    client.start("Up", {"n": 1})
    transport.asked.clear()

    for n in range(3):
        client.start("Up", {"n": n})

    assert transport.asked == {"flush": 3}


def test_a_client_that_takes_nothing_for_known_asks_for_the_end_each_time(
    deployment: Deployment, client: Client, transport: CountingTransport
) -> None:
    with closing(connected(deployment, transport, names_known_s=0)) as strict:
        strict.start("Up", {"n": 1})
        transport.asked.clear()
        strict.start("Up", {"n": 2})

    assert (transport.asked["watermarks"], transport.asked["flush"]) == (1, 1)


def test_a_program_that_another_process_deploys_is_for_the_next_start(deployment: Deployment, client: Client) -> None:
    client.start("Up", {"n": 1}, workflow_id="before")
    with closing(connected(deployment, deployment.transport)) as other:
        other.deploy(up(step=2))
    client.start("Up", {"n": 1}, workflow_id="after")

    programs = {command.workflow_id: command.program for command in started(deployment)}
    assert programs == {"before": up().fingerprint, "after": up(step=2).fingerprint}


def test_after_its_own_deployment_a_client_asks_for_the_end(client: Client, transport: CountingTransport) -> None:
    client.start("Up", {"n": 1})
    client.deploy(up(step=2))
    transport.asked.clear()

    client.start("Up", {"n": 1})

    assert (transport.asked["watermarks"], transport.asked["flush"]) == (1, 1)


def test_unknown_is_said_only_after_asking_for_the_end(client: Client, transport: CountingTransport) -> None:
    client.start("Up", {"n": 1})
    transport.asked.clear()

    with pytest.raises(UnknownProgram, match=r"did you mean count\.Up"):
        client.start("Upp", {"n": 1})
    assert transport.asked["watermarks"] == 1
    assert transport.asked["flush"] == 0


# --- many starts ------------------------------------------------------------------------------------------------


def test_many_starts_are_sent_in_order_with_one_flush_and_their_ids_come_back(
    deployment: Deployment, client: Client, transport: CountingTransport
) -> None:
    client.start("Up", {"n": 1}, workflow_id="first")
    transport.asked.clear()
    drawn = StartRequest(workflow="Up", inputs={"n": 7})

    ids = client.start_many([*requests(3), drawn], requested_by="ann")

    assert transport.asked["flush"] == 1
    commands = started(deployment)[1:]
    assert [command.workflow_id for command in commands] == ids
    assert ids[:3] == ["w0", "w1", "w2"]
    assert len(ids[3]) > 20
    assert [command.inputs for command in commands] == [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 7}]
    assert {(c.workflow, c.program, c.requested_by) for c in commands} == {(UP, up().fingerprint, "ann")}


def test_no_starts_are_no_trip(client: Client, transport: CountingTransport) -> None:
    transport.asked.clear()

    assert client.start_many([]) == []
    assert transport.asked["flush"] == 0


CHECKED = [
    (StartRequest(workflow=UP, workflow_id="a b"), IdRefused, r"^start 2 \(a b\): 'a b' is not a valid workflow id"),
    (StartRequest(workflow="Upp", workflow_id="x"), UnknownProgram, r"^start 2 \(x\): .* did you mean count\.Up"),
    (StartRequest(workflow=UP, program="0" * 64), UnknownProgram, r"^start 2: no deployed program 0000"),
    (StartRequest(workflow=UP, inputs={"n": float("nan")}), ValueRefused, r"^start 2: .*nan"),
    (
        StartRequest(workflow=UP, inputs={"n": "x" * 900_001}),
        EventTooLarge,
        r"^start 2: .*max_event_bytes allows 900000",
    ),
    (StartRequest(workflow=UP, inputs={"n": 9}, workflow_id="w0"), SameIdTwice, r"^start 2 \(w0\): start 0 \(w0\) has"),
    (StartRequest(workflow=UP, workflow_id="a b", place="runs.jsonl:7"), IdRefused, r"^runs\.jsonl:7 \(a b\): "),
]


@pytest.mark.parametrize(("wrong", "kind", "said"), CHECKED, ids=range(len(CHECKED)))
def test_what_is_wrong_with_one_start_is_said_before_any_is_sent(
    wrong: StartRequest, kind: type[Exception], said: str, deployment: Deployment, client: Client
) -> None:
    with pytest.raises(StartRefused, match=said) as refused:
        client.start_many(requests(5, w2=wrong))

    assert isinstance(refused.value.reason, kind)
    assert (refused.value.index, refused.value.workflow_id, refused.value.sent) == (2, wrong.workflow_id, 0)
    assert str(refused.value).endswith("; nothing was sent")
    assert started(deployment) == []


def test_a_list_is_checked_to_its_end_before_its_first_lot_is_sent(deployment: Deployment, client: Client) -> None:
    starts = [*requests(LOT_STARTS + 1), StartRequest(workflow=UP, workflow_id="a b")]

    with pytest.raises(StartRefused, match="nothing was sent"):
        client.start_many(starts)
    assert started(deployment) == []


def test_an_iterator_is_checked_lot_by_lot_and_never_read_ahead_of_them(
    deployment: Deployment, client: Client, transport: CountingTransport
) -> None:
    read: list[int] = []

    def endless() -> Iterator[StartRequest]:
        for n in range(LOT_STARTS * 3):
            read.append(n)
            yield StartRequest(workflow=UP, inputs={"n": n}, workflow_id="a b" if n == 2_500 else f"w{n}")

    client.start("Up", {"n": 1}, workflow_id="first")  # The first one announces its schema.
    transport.asked.clear()
    lots = client.start_in_lots(endless())

    assert len(next(lots)) == LOT_STARTS == len(read)
    assert len(next(lots)) == LOT_STARTS
    assert transport.asked["flush"] == 2
    with pytest.raises(StartRefused, match=r"^start 2500 \(a b\): .*; the 2000 starts before its lot were sent$"):
        next(lots)
    assert len(started(deployment)) == 1 + 2 * LOT_STARTS


def test_one_id_may_come_twice_with_the_same_start(deployment: Deployment, client: Client) -> None:
    assert client.start_many([*requests(2), *requests(2)]) == ["w0", "w1", "w0", "w1"]
    assert len(started(deployment)) == 4


def test_a_check_of_the_caller_comes_before_the_first_record(deployment: Deployment, client: Client) -> None:
    asked: list[tuple[str, str, object]] = []

    def no_twos(program: CompiledProgram, workflow: str, inputs: Any) -> None:
        asked.append((program.fingerprint, workflow, inputs["n"]))
        if inputs["n"] == 2:
            raise ValueRefused("inputs.n", "another number", "2")

    with pytest.raises(StartRefused, match=r"^start 2 \(w2\): "):
        client.start_many(requests(4), check=no_twos)
    assert asked == [(up().fingerprint, UP, n) for n in range(3)]
    assert started(deployment) == []


def test_all_starts_of_a_call_are_of_one_program(deployment: Deployment, client: Client) -> None:
    def deploying() -> Iterator[StartRequest]:
        for number, request in enumerate(requests(4)):
            if number == 2:
                client.deploy(up(step=2))
            yield request

    client.start_many(deploying())
    assert {command.program for command in started(deployment)} == {up().fingerprint}


def test_a_full_queue_is_waited_for(deployment: Deployment) -> None:
    with closing(connected(deployment, CountingTransport(deployment.transport, room=10))) as client:
        client.deploy(up())
        assert len(client.start_many(requests(95))) == 95
    assert len(started(deployment)) == 95


def test_a_topic_that_is_missing_is_said(deployment: Deployment, client: Client) -> None:
    deployment.admin.delete_topic(deployment.topology.commands())

    with pytest.raises(
        StartsNotSent, match=r"^start 0 \(w0\) was not acknowledged, 0 starts were: .*afl\.commands"
    ) as lost:
        client.start_many(requests(2))
    assert isinstance(lost.value.reason, UnknownTopic)


class Losing:
    """A transport whose producers report a failure for some records, as a broker does that refuses them."""

    def __init__(self, transport: Any, lost: Sequence[int], error: Exception) -> None:
        self._transport, self._lost, self._error, self._sent = transport, lost, error, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def producer(self) -> Any:
        return _LosingProducer(self, self._transport.producer())

    def takes(self, topic: str) -> Exception | None:
        self._sent += topic.endswith(".commands")
        return self._error if topic.endswith(".commands") and self._sent in self._lost else None


class _LosingProducer:
    def __init__(self, losing: Losing, real: Any) -> None:
        self._losing, self._real = losing, real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def produce(self, topic: str, value: bytes, *, on_delivery: Any = None, **options: Any) -> None:
        error = self._losing.takes(topic)
        if error is None:
            self._real.produce(topic, value, on_delivery=on_delivery, **options)
        else:
            on_delivery(error, None, -1)


def test_starts_that_are_not_acknowledged_are_named_and_the_same_call_repairs_it(deployment: Deployment) -> None:
    error = RecordTooLarge(deployment.topology.commands(), 5_000, 4_000)
    with closing(connected(deployment, Losing(deployment.transport, (2, 4), error))) as client:
        client.deploy(up())
        with pytest.raises(StartsNotSent, match=r"^start 2 \(w2\) was not acknowledged, 3 starts were: ") as failed:
            client.start_many(requests(5))
        assert (failed.value.index, failed.value.workflow_id, failed.value.acknowledged) == (2, "w2", 3)
        assert failed.value.reason is error
        assert "call it again with the same ids" in str(failed.value)

        assert client.start_many(requests(5)) == [f"w{n}" for n in range(5)]
    assert {command.workflow_id for command in started(deployment)} == {f"w{n}" for n in range(5)}
