"""A deployment in memory for tests of the agent side: topics, events on them, and what came of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from afl.core.probes import Probe, no_probe
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.embedded.transport import EmbeddedAdmin, EmbeddedBroker, EmbeddedConsumer, EmbeddedTransport
from afl_stream.reading.topic_log import TopicLog
from afl_stream.settings.config import AgentSettings, StreamConfig, TopicSettings
from afl_stream.topics.declarations import load_declarations
from afl_stream.topics.declared import Topology
from afl_stream.transport import CommittedOffset, Headers, Record, TopicDescription, TopicPartition
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import Event, Lifecycle, Message, StepContinue, StepFailed, event_id_of

PAY = "billing.Pay"


def event(facet: str = PAY, step: int = 1, *, attempt: int = 1, payload: Mapping[str, object] | None = None) -> Event:
    """Return an event of step `wf-<step>:<step in hex>`."""
    workflow_id = f"wf-{step}"
    step_id = f"{workflow_id}:{step:x}"
    return Event(
        id=event_id_of(step_id, attempt),
        workflow_id=workflow_id,
        execution_id=f"{workflow_id}-execution",
        step_id=step_id,
        event_type=facet,
        state="event.Created",
        payload={"n": step} if payload is None else payload,
        attempt=attempt,
        created_at=1_700_000_000_000,
        answer_token=f"token-{step}",
    )


def named(step_id: str, attempt: int) -> Headers:
    """Return the headers by which a record says which event it is."""
    event_id = event_id_of(step_id, attempt).encode()
    return (("ce_id", event_id), ("ce_subject", step_id.encode()), ("afl_attempt", str(attempt).encode()))


class Deployment:
    """One embedded broker with the topics of some facets; agents get a transport of their own, as processes would."""

    def __init__(
        self,
        facets: Sequence[str] = (PAY,),
        *,
        partitions: int = 1,
        max_concurrent: int = 4,
        window: int = 100,
        max_crashes: int = 3,
        grace_s: int = 10,
        broker: EmbeddedBroker | None = None,
        shared: Mapping[str, str] | None = None,
    ) -> None:
        self.stream = StreamConfig(
            topics=TopicSettings(control_partitions=1, event_partitions=partitions, replication=1),
            agent=AgentSettings(max_concurrent=max_concurrent, window=window, max_crashes=max_crashes, grace_s=grace_s),
        )
        declared = dict(load_declarations())
        declared["facet"] = dataclasses.replace(declared["facet"], shared=shared or {})
        self.topology = Topology(self.stream, declared)
        self.broker = EmbeddedBroker() if broker is None else broker
        self.transport = EmbeddedTransport(self.broker)
        self.admin = self.transport.admin()
        self.create_topics(facets)
        self.codec = self.new_codec()
        self.producer = self.transport.producer()

    def settings(self, **changed: Any) -> None:
        """Change settings of the agents that are made from now on."""
        self.stream = dataclasses.replace(self.stream, agent=dataclasses.replace(self.stream.agent, **changed))

    def create_topics(self, facets: Sequence[str]) -> None:
        existing = self.admin.topics()
        for spec in self.topology.specs(facets):
            if spec.name not in existing:
                self.admin.create_topic(spec.name, partitions=spec.partitions, settings=spec.settings)

    def new_codec(self) -> Codec:
        return single_object_codec(TopicLog(self.transport, self.topology.schemas()))

    def publish(self, *events: Event) -> None:
        for each in events:
            self.publish_bytes(
                each.event_type,
                self.codec.encode(each),
                key=each.step_id.encode(),
                headers=headers_for(each, source="/tests"),
            )

    def publish_bytes(self, facet: str, value: bytes | None, *, key: bytes | None, headers: Headers = ()) -> None:
        self.producer.produce(self.topology.facet(facet), value, key=key, headers=headers)
        assert self.producer.flush(10) == 0

    def tell(self, kind: str, step: int, at: int) -> None:
        """Write a milestone of the run of this step's event to the lifecycle topic."""
        topic, milestone = self.topology.lifecycle(), Lifecycle(workflow_id=f"wf-{step}", kind=kind, at=at)
        value, key = self.codec.encode(milestone, topic), milestone.workflow_id.encode()
        self.producer.produce(topic, value, key=key, headers=headers_for(milestone, source="/tests"))
        assert self.producer.flush(10) == 0

    def agent(
        self,
        *,
        probe: Probe = no_probe,
        transport_probe: Probe | None = None,
        config: Mapping[str, Any] | None = None,
        codec: object = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> TestAgent:
        return TestAgent(self, probe, transport_probe, config or {}, codec, clock_s)

    def records(self, topic: str) -> list[Record]:
        """Everything on a topic, partition by partition."""
        reader = self.transport.consumer(None)
        partitions = [TopicPartition(topic, n) for n in range(self.admin.topics()[topic].partitions)]
        reader.assign({partition: reader.watermarks(partition).low for partition in partitions})
        records: list[Record] = []
        while batch := reader.consume(1_000, 0):
            records.extend(batch)
        reader.close()
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def answers(self) -> list[Message]:
        return [self.codec.decode(r.value, r.headers) for r in self.records(self.topology.control())]

    def results(self) -> dict[str, object]:
        """By step, the result or the error's type of its first answer."""
        results: dict[str, object] = {}
        for answer in self.answers():
            if isinstance(answer, StepContinue):
                results.setdefault(answer.step_id, dict(answer.result))
            elif isinstance(answer, StepFailed):
                results.setdefault(answer.step_id, answer.error.type)
        return results

    def dead_letters(self, facet: str = PAY) -> list[Record]:
        return self.records(self.topology.dlq(self.topology.facet(facet)))

    def committed(self, facet: str = PAY, group: str | None = None) -> CommittedOffset | None:
        """Return what the facet's group has committed for partition 0."""
        place = TopicPartition(self.topology.facet(facet), 0)
        reader = self.transport.consumer(group or self.stream.agent_group(facet))
        found = reader.committed([place]).get(place)
        reader.close()
        return found


class TestAgent(Agent):
    """An agent in a process of its own, as far as the broker can tell; `kill` ends it without a word."""

    __test__ = False

    def __init__(
        self,
        deployment: Deployment,
        probe: Probe,
        transport_probe: Probe | None,
        settings: Mapping[str, Any],
        codec: object,
        clock_s: Callable[[], float],
    ) -> None:
        self.own_transport = EmbeddedTransport(deployment.broker, probe=transport_probe)
        defaults: dict[str, Any] = {"name": "tester", "commit_interval_s": 0.0, "poll_timeout_s": 0.05}
        config = AgentConfig(stream=deployment.stream, **{**defaults, **settings})
        super().__init__(
            config,
            self.own_transport,
            topology=deployment.topology,
            codec=codec,  # type: ignore[arg-type]  # the real one, or a test's that stands before it
            probe=probe,
            clock_s=clock_s,
        )

    def own_consumer(self) -> EmbeddedConsumer:
        """Return the consumer of its only group."""
        (found,) = [c for c in self.own_transport._consumers if c.group is not None]
        return found

    def own_partitions(self) -> frozenset[TopicPartition]:
        return self.own_consumer().assignment()

    def kill(self) -> None:
        self.abandon(KeyboardInterrupt())
        self.own_transport.abandon()


class TransportOfUntoldIds(EmbeddedTransport):
    """Leaves out the topics' ids while `tells_ids` is False, as happens when a describe fails in passing."""

    tells_ids = True

    def admin(self) -> EmbeddedAdmin:
        return _AdminOfUntoldIds(self.broker, self)


class _AdminOfUntoldIds(EmbeddedAdmin):
    def __init__(self, broker: EmbeddedBroker, transport: TransportOfUntoldIds) -> None:
        super().__init__(broker)
        self._transport = transport

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        found = super().topics(names)
        if self._transport.tells_ids:
            return found
        return {name: dataclasses.replace(each, topic_id="") for name, each in found.items()}


class MoodyCodec:
    """Decodes as the real codec does, after it has refused as often as it was told."""

    def __init__(self, deployment: Deployment, error: Exception, times: int) -> None:
        self._codec = deployment.new_codec()
        self.header_form = self._codec.header_form
        self._error = error
        self._times = times

    def encode(self, message: object, topic: str = "") -> bytes:
        return self._codec.encode(message, topic)  # type: ignore[arg-type]  # handed through

    def returns_of(self, value: bytes | None) -> object:
        return self._codec.returns_of(value)

    def decode(self, value: bytes | None, headers: object = (), *, json_allowed: bool = False) -> object:
        if self._times:
            self._times -= 1
            raise self._error
        return self._codec.decode(value, headers)  # type: ignore[arg-type]  # handed through
