"""The evaluator's loop alone, in this process: event steps that are answered outside of the time that is measured.

The transport is the embedded one in memory, or Kafka's, the store a SQLite file whose commits wait for the disk. Only
the CPU time of `run_once` is counted: no agent is in it, so the evaluator's own share shows.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.stores.sqlite.store import SqliteStore
from afl_stream.agent.records import AgentRecords
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import load_config
from afl_stream.transport import TopicPartition, Transport
from benchmarks.loop_program import source

WORKFLOW: Final = "benchmark.Chain"
INPUTS: Final[Mapping[str, object]] = {"count": 0, "text": "some text that travels", "share": 0.25}
_FACET: Final = "benchmark.Work"
_GROUP: Final = "loop.agent.benchmark.Work"
#: Answers that are made before the evaluator handles them.
_LOT: Final = 500
#: How long events may be on their way.
_PATIENCE_S: Final = 30.0

#: A workflow, its inputs, and the id of the run.
Start = tuple[str, Mapping[str, object], str]


class Cost(NamedTuple):
    """What the answers of a run took: CPU microseconds of the evaluator an answer."""

    us_per_answer: float
    answers: int


class Deployment:
    """An evaluator with its store and topics, whose loop the caller drives; `benchmark.Work` is answered here."""

    def __init__(
        self,
        text: str,
        settings: Mapping[str, str],
        *,
        bootstrap: str | None = None,
        prepare: Callable[[Path, str], None] = lambda _path, _prefix: None,
    ) -> None:
        """Take the program and the settings; `prepare` may fill the file of the store with this prefix first."""
        self._program = CompiledProgram(compile_text(text).program_json)
        self._settings = settings
        self._bootstrap = bootstrap
        self._prepare = prepare
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        environment = {
            "AFL_PREFIX": "offline." if self._bootstrap is None else f"offline.{time.time_ns()}.",
            "AFL_STORE_PATH": f"{folder}/store.sqlite3",
            "AFL_EMBEDDED_DATA_DIR": folder,
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_TOPICS_CONTROL_PARTITIONS": "1",
            "AFL_TOPICS_EVENT_PARTITIONS": "1",
            **self._settings,
        }
        if self._bootstrap is not None:
            environment["AFL_KAFKA_BOOTSTRAP"] = self._bootstrap
        config = load_config(environ=environment)
        self._prepare(Path(folder) / "store.sqlite3", config.prefix)
        transport: Transport
        if self._bootstrap is None:
            log = EmbeddedBroker()
            self._stack.callback(log.close)
            transport = EmbeddedTransport(log)
        else:
            transport = KafkaTransport(config)
        self._stack.callback(transport.close)
        self.store = self._stack.enter_context(closing(SqliteStore(config.store_path, prefix=config.prefix)))
        self._client = self._stack.enter_context(Client(config, transport))
        self._client.apply_topics([self._program])
        self._client.deploy(self._program)
        topology = self._client.topology
        self._records = AgentRecords(topology, DeploymentCodec(config, transport, topology).codec, "benchmark")
        self._records.announce()
        self._events = transport.consumer("benchmark")
        self._events.assign({TopicPartition(topology.facet(_FACET), 0): 0})
        self._producer = transport.producer()
        self._service = EvaluatorService(config, transport, self.store)
        self._stack.callback(self._service.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, starts: Sequence[Start]) -> float:
        """Start runs; return the CPU seconds of the loop until each has asked its first questions."""
        spent_s = 0.0
        for number, (workflow, inputs, workflow_id) in enumerate(starts):
            self._client.start(workflow, inputs, program=self._program.fingerprint, workflow_id=workflow_id)
            if number % _LOT == _LOT - 1:
                spent_s += self.handle()
        return spent_s + self.handle()

    def answer_all(self, expected: int) -> Cost:
        """Answer events until so many are answered. Raises RuntimeError when they do not come."""
        spent_s, answers, quiet_since_s = 0.0, 0, time.monotonic()
        while answers < expected:
            count = self._answer()
            answers += count
            spent_s += self.handle()
            if count:
                quiet_since_s = time.monotonic()
            elif time.monotonic() - quiet_since_s > _PATIENCE_S:
                raise RuntimeError(f"{answers} events came of {expected}")
        spent_s += self.handle()
        return Cost(spent_s / answers * 1e6, answers)

    def cost_of(self, starts: Sequence[Start], events: int) -> float:
        """Return the CPU microseconds of the loop an event, starts and ends of these runs included.

        Raises RuntimeError when one of them does not complete.
        """
        spent_s = self.start(starts)
        cost = self.answer_all(events)
        self._check(workflow_id for _, _, workflow_id in starts)
        return (spent_s * 1e6 + cost.us_per_answer * events) / events

    def _check(self, workflow_ids: Iterable[str]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        for workflow_id in workflow_ids:
            while True:
                row = self.store.load_workflow(workflow_id)
                if row is not None and row.ended_at_ms:
                    break
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"run {workflow_id} has not ended")
                self.handle()
            if row.error is not None:
                raise RuntimeError(f"run {workflow_id} failed: {row.error.message}")

    def handle(self) -> float:
        """Handle what there is; return the CPU seconds that this took."""
        started_s = time.process_time()
        while self._service.loop.run_once(0.0) or not self._service.loop.is_idle():
            continue
        return time.process_time() - started_s

    def _answer(self) -> int:
        count = 0
        for record in self._events.consume(_LOT, 0.0 if self._bootstrap is None else 0.05):
            event = self._records.decode(record)
            given: dict[str, Any] = dict(event.payload)
            result = {"count": given["count"] + 1, "text": given["text"], "share": given["share"]}
            answer = self._records.continued(event, result, _GROUP, record.headers)
            self._producer.produce(answer.topic, answer.value, key=answer.key, headers=answer.headers)
            count += 1
        self._producer.flush(_PATIENCE_S)
        return count


def answers_cost(workflows: int, steps: int, settings: Mapping[str, str]) -> Cost:
    """Run so many chains of so many steps, answer each step, and return what the answers took.

    Every workflow is started, and has asked its first question, before the clock runs. Raises RuntimeError when one
    does not complete.
    """
    with Deployment(source(steps), settings) as deployment:
        deployment.start([(WORKFLOW, INPUTS, f"wf-{number:06d}") for number in range(workflows)])
        return deployment.answer_all(workflows * steps)
