"""A whole deployment for scenario tests: broker, store, evaluators, agents and a client, moved on step by step.

Everything runs on the test's own thread, except handlers, which an agent runs in its pool and waits for. Each evaluator
and agent has a transport of its own and dies alone; `crash_and_restart` is the death of the process that has them all:
what was not written is lost, the files are opened anew. The clock stands still until a test moves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.clock import ManualClock
from afl.engine.execution.scripts import ScriptRunner
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from afl.telemetry.telemetry import Telemetry
from afl_stream.agent.agent import Agent, AgentConfig, HandlerContext
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedConsumer, EmbeddedTransport, Faults
from afl_stream.evaluator.control_loop import ControlStats
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.partitioner import partition_for
from afl_stream.programs.deployment_codec import open_codec
from afl_stream.settings.config import (
    AgentSettings,
    AnswerSettings,
    DispatchSettings,
    EmbeddedSettings,
    EvaluatorSettings,
    StreamConfig,
    TopicSettings,
)
from afl_stream.topics.declared import Topology
from afl_stream.transport import CommittedOffset, Headers, Record, TopicPartition
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import Answer, Event, Lifecycle, Message, workflow_of
from tests.record_headers import headers_of

START_MS = 1_700_000_000_000
#: Rounds after which a run that has not ended never will.
MAX_ROUNDS = 400

Handler = Callable[[dict[str, Any], HandlerContext], dict[str, Any]]

#: Opens a deployment's store once more, for a party with these faults.
StoreOpener = Callable[["Deployment", Faults], EngineStore]
#: Asked by each new deployment where its store is; None: in a file of its folder, or in memory where it has none.
store_elsewhere: ContextVar[Callable[[], StoreOpener] | None] = ContextVar("store_elsewhere", default=None)


def make_again(deployment: Deployment, topic: str) -> None:
    """Delete a topic and create one of the same name, size and settings."""
    admin = deployment.transport.admin()
    found = admin.topics([topic])[topic]
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=found.partitions, settings=found.settings)


def program_of(source: str) -> CompiledProgram:
    return CompiledProgram(compile_text(source).program_json)


class Interruptions(Faults):
    """Faults, and things that happen elsewhere while a party stands between two of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self._meanwhile: dict[str, tuple[int, Callable[[], None]]] = {}

    def happens_at(self, point: str, action: Callable[[], None], passes: int = 0) -> None:
        """Run the action the next time that the point is reached, after `passes` without."""
        self._meanwhile[point] = (passes, action)

    def probe(self, point: str) -> None:
        passes, action = self._meanwhile.get(point, (1, None))
        if action is not None:
            if passes:
                self._meanwhile[point] = (passes - 1, action)
            else:
                del self._meanwhile[point]
                action()
        super().probe(point)


class Evaluator:
    """One evaluator process: its transport, its store connection and its service."""

    def __init__(self, deployment: Deployment, faults: Faults) -> None:
        self.faults = faults
        self.transport = EmbeddedTransport(deployment.broker, probe=faults.probe)
        self.store = deployment.open_store(faults)
        self.service = EvaluatorService(
            deployment.config,
            self.transport,
            self.store,
            clock=deployment.clock,
            telemetry=deployment.telemetry,
            probe=faults.probe,
            scripts=deployment.scripts,
        )

    def turn(self) -> int:
        return self.service.loop.run_once(0.0)

    @property
    def stats(self) -> ControlStats:
        return self.service.loop.stats()

    @property
    def is_idle(self) -> bool:
        return self.service.loop.is_idle()

    def consumer(self) -> EmbeddedConsumer:
        """Its membership of the evaluators' group."""
        (found,) = [c for c in self.transport._consumers if c.group is not None and not c._closed]
        return found

    def partitions(self) -> set[int]:
        """Return the control partitions that it owns."""
        return {place.partition for place in self.stats.owned if place.topic.endswith("control")}

    def stop(self) -> None:
        self.service.close()
        self.transport.close()

    def kill(self) -> None:
        self.transport.abandon()


class Worker:
    """One agent process with handlers for some facets."""

    def __init__(self, deployment: Deployment, handlers: Mapping[str, Handler], faults: Faults) -> None:
        self.faults = faults
        self.transport = EmbeddedTransport(deployment.broker, probe=faults.probe)
        config = AgentConfig(
            stream=deployment.config,
            name="worker",
            group=deployment.agent_group,
            commit_interval_s=0.0,
            poll_timeout_s=0.0,
        )
        self.agent = Agent(config, self.transport, probe=faults.probe)
        for facet, handler in handlers.items():
            self.agent.register(facet, handler)

    def join(self) -> None:
        self.agent.start()

    def turn(self) -> int:
        return self.agent.run_once(0.0)

    def stop(self) -> None:
        self.agent.close()
        self.transport.close()

    def kill(self) -> None:
        self.agent.abandon(KeyboardInterrupt())
        self.transport.abandon()


class Deployment:
    """Topics, files and parties of one deployment; without a directory it lives in memory and cannot restart."""

    agent_group = "workers"

    def __init__(
        self,
        directory: Path | None,
        *sources: str,
        evaluator: EvaluatorSettings | None = None,
        answers: AnswerSettings | None = None,
        control_partitions: int = 2,
        max_event_bytes: int = 900_000,
        telemetry: Telemetry | None = None,
        scripts: ScriptRunner | None = None,
        dispatch: DispatchSettings | None = None,
        agent: AgentSettings | None = None,
    ) -> None:
        """`scripts` runs the scripts of every evaluator; without it none is run unless `evaluator` allows it."""
        self.telemetry = telemetry
        self.scripts = scripts
        evaluator = evaluator or EvaluatorSettings()
        self.config = StreamConfig(
            max_event_bytes=max_event_bytes,
            embedded=EmbeddedSettings(data_dir=str(directory or "unused")),
            topics=TopicSettings(control_partitions=control_partitions, event_partitions=2, replication=1),
            evaluator=replace(evaluator, allow_scripts=True) if scripts is not None else evaluator,
            agent=agent or AgentSettings(max_concurrent=4, max_crashes=50),
            answers=answers or AnswerSettings(),
            dispatch=dispatch or DispatchSettings(),
        )
        self._directory = directory
        self.clock = ManualClock(START_MS)
        elsewhere = store_elsewhere.get()
        self._opener = None if elsewhere is None else elsewhere()
        in_memory = directory is None and self._opener is None
        self._memory = MemoryStore(prefix=self.config.prefix, clock=self.clock) if in_memory else None
        self.topology = Topology(self.config)
        self.programs = [program_of(source) for source in sources]
        self._open()
        self.client.apply_topics(self.programs)
        for program in self.programs:
            self.client.deploy(program)

    # --- its life -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        path = None if self._directory is None else self.config.log_path
        self.broker_faults = Faults()
        self.broker = EmbeddedBroker(path, probe=self.broker_faults.probe, now_ms=self.clock.now_ms)
        self.transport = EmbeddedTransport(self.broker)
        self._stores: list[EngineStore] = []
        self.store = self.open_store(Faults())
        self.client = Client(self.config, self.transport)
        self.codec: Codec = open_codec(self.config, self.transport, self.topology)
        self.producer = self.transport.producer()
        self.evaluators: list[Evaluator] = []
        self.workers: list[Worker] = []

    def open_store(self, faults: Faults) -> EngineStore:
        """Another connection to the store, as another process has it."""
        if self._memory is not None:
            return self._memory
        store: EngineStore
        if self._opener is not None:
            store = self._opener(self, faults)
        else:
            store = SqliteStore(
                self.config.store_path,
                prefix=self.config.prefix,
                clock=self.clock,
                probe=faults.probe,
            )
        self._stores.append(store)
        return store

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
        for party in self.parties():
            party.kill()
        self.transport.abandon()
        self.broker.abandon()
        for store in self._stores:
            store.close()

    def crash_and_restart(self) -> None:
        """End the process and open its files anew, with nobody at work yet."""
        self.crash()
        self._open()

    # --- moving on ----------------------------------------------------------------------------------------------

    def round(self) -> int:
        """One turn of everybody; how many records were read. Takes 10 ms by the deployment's clock."""
        self.clock.advance(10)
        return sum(party.turn() for party in self.parties())

    def parties(self) -> list[Evaluator | Worker]:
        return [*self.evaluators, *self.workers]

    def settle(self) -> None:
        """Go on until nobody has anything to do: no record to read, no workflow to go on with, no row to delete."""
        quiet = 0
        for _ in range(MAX_ROUNDS):
            moved = self.round()
            quiet = 0 if moved or not all(e.is_idle for e in self.evaluators) else quiet + 1
            if quiet == 3:
                return
        raise AssertionError("the deployment does not come to rest")

    # --- looking at it ------------------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Record]:
        """Everything on a topic, partition by partition."""
        self.broker.queue.write()
        reader = self.transport.consumer(None)
        places = [TopicPartition(topic, n) for n in range(self.broker.topics()[topic].partitions)]
        reader.assign({place: reader.watermarks(place).low for place in places})
        found: list[Record] = []
        while batch := reader.consume(1_000, 0):
            found.extend(batch)
        reader.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def committed(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group has committed on some topics; partitions without an offset are left out."""
        described = self.broker.topics()
        reader = EmbeddedTransport(self.broker).consumer(group)
        found = reader.committed([TopicPartition(t, n) for t in topics for n in range(described[t].partitions)])
        reader.close()
        return found

    def messages(self, topic: str) -> list[Message]:
        return [self.codec.decode(r.value, r.headers, json_allowed=True) for r in self.records(topic)]

    def events(self, facet: str) -> list[Event]:
        """Return the events on a facet's topic, copies included."""
        return [message for message in self.messages(self.topology.facet(facet)) if isinstance(message, Event)]

    def milestones(self, workflow_id: str) -> list[Lifecycle]:
        """Return what subscribers were told of a workflow, copies left out."""
        unique: dict[bytes, Lifecycle] = {}
        for record in self.records(self.topology.lifecycle()):
            message = self.codec.decode(record.value, record.headers)
            if isinstance(message, Lifecycle) and message.workflow_id == workflow_id:
                unique.setdefault(headers_of(record)["ce_id"], message)
        return list(unique.values())

    def dead_letters(self, topic: str) -> list[Record]:
        return self.records(self.topology.dlq(topic))

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

    def put(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        self.producer.produce(topic, value, key=key, headers=headers, partition=partition)
        assert self.producer.flush(10) == 0

    def send(self, message: Any, *, key: bytes | None = None, partition: int | None = None) -> None:
        """Produce an answer or a command to its topic, by default under its workflow's id."""
        is_answer = isinstance(message, Answer)
        topic = self.topology.control() if is_answer else self.topology.commands()
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


def facets_with_events(programs: Sequence[CompiledProgram]) -> list[str]:
    return sorted({facet.qualified_name for program in programs for facet in program.event_facets()})
