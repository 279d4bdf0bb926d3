"""A whole deployment for scenarios: log, store, evaluators, agents and a client, moved on step by step.

Everything runs on the test's own thread, except handlers, which an agent runs in its pool and waits for. Each evaluator
and agent has a transport of its own and dies alone; `crash_and_restart` is the death of the process that has them all:
what was not written is lost, the files are reopened. The clock stands still until a test moves it.

Which broker carries the records, and where the rows are, is the world's to say (`tests.worlds.world`). On Kafka a
deployment may also have parties that are processes of their own: `processes`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.execution.scripts import ScriptRunner
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.stores.public.persistence import EngineStore
from afl.telemetry.telemetry import Telemetry
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, Faults
from afl_stream.partitioner import partition_for
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.tracing.tracer import Tracer
from afl_stream.transport import CommittedOffset, Headers, Record, TopicPartition
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import Answer, Event, ExternalEvent, Lifecycle, Message, workflow_of
from tests.record_headers import headers_of
from tests.worlds.cluster import Cluster
from tests.worlds.embedded_cluster import EmbeddedCluster
from tests.worlds.kafka_cluster import KafkaCluster
from tests.worlds.parties import Evaluator, Handler, Worker
from tests.worlds.process_parties import ProcessParties
from tests.worlds.stores import Stores

START_MS: Final = 1_700_000_000_000
#: Rounds after which a run that moves all the time will never end.
MAX_ROUNDS: Final = 400
#: Rounds in which nothing moves, until it is believed; and how much time goes by in each round, by the clock.
_QUIET_ROUNDS: Final = 3
_ROUND_MS: Final = 10
#: How long records may be on their way.
_DELIVERY_DEADLINE_S: Final = 60.0


def program_of(source: str) -> CompiledProgram:
    return CompiledProgram(compile_text(source).program_json)


class Deployment:
    """Topics, rows and parties of one deployment. Worlds make them."""

    def __init__(  # noqa: PLR0913 - parts of a deployment, by name
        self,
        config: StreamConfig,
        cluster: Cluster,
        stores: Stores,
        *sources: str,
        clock: ManualClock | None = None,
        telemetry: Telemetry | None = None,
        tracer: Tracer | None = None,
        scripts: ScriptRunner | None = None,
        agent_group: str = "workers",
        processes: ProcessParties | None = None,
    ) -> None:
        """`scripts` runs the scripts of every evaluator; without it none is run unless `config` allows it."""
        self.config = config
        self.cluster = cluster
        self.stores = stores
        self.clock = clock or ManualClock(START_MS)
        self.telemetry = telemetry
        self.tracer = tracer
        self.scripts = scripts
        #: The group that all agents of the deployment are in.
        self.agent_group = agent_group
        self._processes = processes
        self.topology = Topology(config)
        self.programs = [program_of(source) for source in sources]
        self._is_open = False
        self._open()
        self.client.apply_topics(self.programs)
        for program in self.programs:
            self.client.deploy(program)

    # --- its life -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._is_open = True
        self.evaluators: list[Evaluator] = []
        self.workers: list[Worker] = []
        self.transport = self.cluster.transport(Faults())
        self.store = self.open_store(Faults())
        self.client = Client(self.config, self.transport, tracer=self.tracer)
        self._schemas = DeploymentCodec(self.config, self.transport, self.topology)
        self.codec: Codec = self._schemas.codec

    def open_store(self, faults: Faults) -> EngineStore:
        """Another connection to the store, as another process has it."""
        return self.stores.open(self.config, self.clock, faults)

    def evaluator(self, faults: Faults | None = None) -> Evaluator:
        self.evaluators.append(Evaluator(self, faults or Faults()))
        return self.evaluators[-1]

    def worker(self, handlers: Mapping[str, Handler], faults: Faults | None = None) -> Worker:
        self.workers.append(Worker(self, handlers, faults or Faults()))
        return self.workers[-1]

    def remove(self, party: Evaluator | Worker, *, killed: bool) -> None:
        """Take a party out, cleanly or as a dying process."""
        if killed:
            party.kill()
        else:
            party.stop()
        (self.evaluators if isinstance(party, Evaluator) else self.workers).remove(party)  # type: ignore[arg-type]

    def crash(self) -> None:
        """End the process: what was not written is lost."""
        self._is_open = False
        for party in self.parties():
            party.kill()
        self.transport.abandon()
        self._schemas.close_registry()
        self.client._schemas.close_registry()  # Its transport is gone, so that it is not closed itself.
        self.cluster.crash()
        self.stores.crash()

    def crash_and_restart(self) -> None:
        """End the process and reopen its files, without a service yet."""
        self.crash()
        self.restart()

    def restart(self) -> None:
        """Reopen the files that `crash` has closed."""
        self.cluster.reopen()
        self._open()

    def close(self) -> None:
        """End everything, and delete what is left outside the test's folder."""
        if self._is_open:
            self.crash()
        self.cluster.close()
        self.stores.delete()

    # --- what only some worlds have -------------------------------------------------------------------------------

    @property
    def broker(self) -> EmbeddedBroker:
        """The embedded broker. A scenario that asks for it is one of the embedded worlds."""
        assert isinstance(self.cluster, EmbeddedCluster)
        return self.cluster.broker

    @property
    def broker_faults(self) -> Faults:
        """Faults of the embedded broker itself."""
        assert isinstance(self.cluster, EmbeddedCluster)
        return self.cluster.faults

    @property
    def kafka(self) -> KafkaCluster:
        """The Kafka cluster, and what administrators do with it."""
        assert isinstance(self.cluster, KafkaCluster)
        return self.cluster

    @property
    def processes(self) -> ProcessParties:
        """Parties that are processes of their own."""
        assert self._processes is not None, "this deployment was not made for processes"
        return self._processes

    # --- moving on ----------------------------------------------------------------------------------------------

    def round(self, passes_ms: int = _ROUND_MS) -> int:
        """One turn of every party; how many records were read. Takes 10 ms by the deployment's clock."""
        self.clock.advance(passes_ms)
        return sum(party.turn() for party in self.parties())

    def parties(self) -> list[Evaluator | Worker]:
        return [*self.evaluators, *self.workers]

    def settle(self) -> None:
        """Run until no work is left: no record to read, no workflow to continue, no row to delete."""
        deadline_s = time.monotonic() + _DELIVERY_DEADLINE_S
        moving = quiet = 0
        while moving < MAX_ROUNDS and time.monotonic() < deadline_s:
            # Time stands still while records are on their way: how long that takes is the broker's matter.
            moved = self.round(_ROUND_MS if quiet < _QUIET_ROUNDS else 0)
            if moved or not all(evaluator.is_idle for evaluator in self.evaluators):
                moving, quiet = moving + 1, 0
                continue
            quiet += 1
            if quiet >= _QUIET_ROUNDS and self.cluster.has_delivered_all(self):
                return
        raise AssertionError("the deployment does not come to rest")

    def settle_among_all(self) -> None:
        """Settle, with control partitions at every evaluator: a group may rest before its latest member has any."""
        deadline_s = time.monotonic() + _DELIVERY_DEADLINE_S
        self.settle()
        while not all(evaluator.partitions() for evaluator in self.evaluators):
            assert time.monotonic() < deadline_s, "an evaluator gets no partitions"
            self.settle()

    def hear_pauses(self) -> None:
        """Let evaluators and agents take in what the definitions topic says of pauses."""
        self.client.definitions.refresh()
        wanted = self.client.definitions.pauses.records
        deadline_s = time.monotonic() + _DELIVERY_DEADLINE_S
        while time.monotonic() < deadline_s:
            self.round()
            heard = [evaluator.service._definitions.pauses.records for evaluator in self.evaluators]
            heard += [worker.agent._paused._pauses.records for worker in self.workers if worker.agent._paused]
            if all(records == wanted for records in heard):
                return
        raise AssertionError("the pauses are not heard of")

    def rebalance(self) -> None:
        """Have the evaluators give their partitions up and take them again."""
        if isinstance(self.cluster, EmbeddedCluster):
            self.cluster.broker.rebalance(self.config.evaluator_group)
            return
        guest = self.evaluator()
        self.settle()
        self.remove(guest, killed=False)

    def recreate(self, topic: str) -> None:
        """Delete a topic and create one of the same name, size and settings."""
        self.cluster.recreate(topic)

    # --- looking at it ------------------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Record]:
        """Everything on a topic, partition by partition."""
        return self.cluster.records(topic)

    def committed(self, group: str, topics: Sequence[str]) -> Mapping[TopicPartition, CommittedOffset]:
        """Return what a group has committed on some topics; partitions without an offset are left out."""
        return self.cluster.committed(group, topics)

    def messages(self, topic: str) -> list[Message]:
        return [self.codec.decode(r.value, r.headers, json_allowed=True) for r in self.records(topic)]

    def events(self, facet: str) -> list[Event]:
        """Return the events on a facet's topic, copies included."""
        return [message for message in self.messages(self.topology.facet(facet)) if isinstance(message, Event)]

    def milestones(self, workflow_id: str) -> list[Lifecycle]:
        """Return the milestones that subscribers got for a workflow, without copies."""
        unique: dict[bytes, Lifecycle] = {}
        for record in self.records(self.topology.lifecycle()):
            message = self.codec.decode(record.value, record.headers)
            if isinstance(message, Lifecycle) and message.workflow_id == workflow_id:
                unique.setdefault(headers_of(record)["ce_id"], message)
        return list(unique.values())

    def dead_letters(self, topic: str) -> list[Record]:
        return self.records(self.topology.dlq(topic))

    def has_read_all(self) -> bool:
        """Whether the evaluators have handled every answer and command that there is."""
        stored = {(at.topic, at.partition): offset for at, offset in self.store.positions().items()}
        return all(
            record.offset < stored.get((record.topic, record.partition), 0)
            for topic in (self.topology.control(), self.topology.commands(), self.topology.external())
            for record in self.records(topic)
        )

    def workflow(self, workflow_id: str) -> WorkflowRow:
        row = self.store.load_workflow(workflow_id)
        assert row is not None, f"no workflow {workflow_id}"
        return row

    def steps(self, workflow_id: str) -> list[StepDocument]:
        return self.store.load_steps(workflow_id)

    def step(self, workflow_id: str, facet: str) -> StepDocument:
        """Return the only step of a workflow that calls this facet."""
        (found,) = [step for step in self.steps(workflow_id) if step.facet_name == facet]
        return found

    def outcomes(self) -> Counter[str]:
        """Return what became of the records that the evaluators have handled."""
        counted: Counter[str] = Counter()
        for evaluator in self.evaluators:
            counted.update({str(outcome): count for outcome, count in evaluator.stats.outcomes.items()})
        return counted

    # --- putting records in --------------------------------------------------------------------------------------

    def queue(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Produce a record as a stranger does; `flush` waits until it is in the log."""
        self.cluster.queue(topic, value, key, headers, partition)

    def flush(self) -> None:
        self.cluster.flush()

    def put(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Produce a record as a stranger does, and wait until it is in the log."""
        self.queue(topic, value, key=key, headers=headers, partition=partition)
        self.flush()

    def send(self, message: Any, *, key: bytes | None = None, partition: int | None = None) -> None:
        """Produce an answer, a command or an external event to its topic, by default under its workflow's id."""
        is_answer = isinstance(message, Answer)
        topic = self.topology.control() if is_answer else self.topology.commands()
        if isinstance(message, ExternalEvent):
            topic = self.topology.external()
        if key is None:
            key = (workflow_of(message.step_id) if is_answer else message.workflow_id).encode()
        value = self.codec.encode(message, topic)
        self.put(topic, value, key=key, headers=headers_for(message, source="/tests"), partition=partition)

    def id_in_partition(self, partition: int, stem: str = "wf") -> str:
        """Return a workflow id whose control partition is this one."""
        count = self.config.topics.control_partitions
        return next(name for n in range(1_000) if partition_for((name := f"{stem}-{n}").encode(), count) == partition)


def unique_ids(records: Iterable[Record]) -> list[str]:
    """Return the event ids of some records, each once, after a check that copies are the same to the byte."""
    seen: dict[str, Record] = {}
    for record in records:
        event_id = headers_of(record)["ce_id"].decode()
        first = seen.setdefault(event_id, record)
        assert (first.key, first.value, first.partition) == (record.key, record.value, record.partition)
    return list(seen)
