"""A deployment that writes the same bytes each time: its clock stands still, and its ids are given.

It is made of the product's parts alone, so that a later release can run the same story on it. What is drawn at random
or belongs to the machine (ids of cluster and store, marks, addresses) is replaced by constants: the cluster's and the
store's id when their files are made, and the rest once everything is written.
"""

from __future__ import annotations

import copy
import sqlite3
import textwrap
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.runtime import MongoStore
from afl.scripts.pool import ScriptResult
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import (
    DispatchSettings,
    EmbeddedSettings,
    EvaluatorSettings,
    StoreSettings,
    StreamConfig,
    TopicSettings,
    WireSettings,
)
from afl_stream.topics.declared import Topology
from afl_stream.transport import Headers, Record, TopicPartition
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import Answer, Event, Message, StoreClaim, workflow_of

if TYPE_CHECKING:
    from pymongo.database import Database

START_MS: Final = 1_764_000_000_000
#: When a world is opened again: the story takes less than a minute.
OPENED_MS: Final = START_MS + 60_000
CLUSTER_ID: Final = "cluster-of-a-fixture00"
STORE_ID: Final = "5707e1d0000000000000000000000001"
MARK: Final = "3a7c000000000001"
LOCATION: Final = "fixture.example.org:/var/lib/afl/store"
HOST: Final = "fixture.example.org"

#: Runs whose events are tasks of the store.
TASK_FACETS: Final = "desk.Sign"
#: Few, so that a survey of many people is put off in the middle.
BUDGET_STEPS: Final = 8

_QUIET_TURNS: Final = 3
_MOST_TURNS: Final = 200

#: Opens the store of a world.
StoreOpener = Callable[["World"], EngineStore]


def sqlite_store(world: World) -> EngineStore:
    """Return the SQLite file of a world's settings."""
    return SqliteStore(world.config.store_path, prefix=world.config.prefix, clock=world.clock)


def mongo_store(database: Database[dict[str, Any]]) -> StoreOpener:
    """Return a MongoDB database in place of the file."""
    return lambda world: MongoStore(
        "", database.name, client=database.client, prefix=world.config.prefix, clock=world.clock
    )


class Killed(BaseException):
    """The evaluator dies here."""


class TrustingRunner:
    """Runs a script right here: these are our own."""

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        names: dict[str, Any] = {"params": copy.deepcopy(dict(params)), "result": {}}
        exec(textwrap.dedent(code), names)
        future: Future[ScriptResult] = Future()
        future.set_result(ScriptResult(result=dict(names["result"]), printed="", duration_s=0.0))
        return future


def settings(folder: Path) -> StreamConfig:
    """Return the settings under which the fixtures are written and read."""
    return StreamConfig(
        transport="embedded",
        embedded=EmbeddedSettings(data_dir=str(folder)),
        topics=TopicSettings(control_partitions=2, event_partitions=2, replication=1),
        evaluator=EvaluatorSettings(allow_scripts=True, workflow_budget_steps=BUDGET_STEPS),
        store=StoreSettings(tombstone_retention=None),
        dispatch=DispatchSettings(task_facets=TASK_FACETS),
        # The headers of the releases that wrote the fixtures.
        wire=WireSettings(headers="cloudevents"),
    )


def program_of(source: str) -> CompiledProgram:
    """Compile a text."""
    return CompiledProgram(compile_text(source).program_json)


class World:
    """Broker, store, client and at most one evaluator, all in this thread."""

    def __init__(self, folder: Path, open_store: StoreOpener, *, now_ms: int = START_MS) -> None:
        self.config = settings(folder)
        self.clock = ManualClock(now_ms)
        self.topology = Topology(self.config)
        self.broker = EmbeddedBroker(self.config.log_path, now_ms=self.clock.now_ms)
        self.store = open_store(self)
        self.transport = EmbeddedTransport(self.broker)
        self.client = Client(self.config, self.transport)
        self.codec = DeploymentCodec(self.config, self.transport, self.topology).codec
        self._producer = self.transport.producer()
        self._dies_at = ""
        self._evaluator: EvaluatorService | None = None
        self._evaluator_transport: EmbeddedTransport | None = None

    # --- moving on ----------------------------------------------------------------------------------------------

    def open_evaluator(self) -> None:
        """Start the evaluator, and let it take its partitions."""
        self._evaluator_transport = EmbeddedTransport(self.broker)
        self._evaluator = EvaluatorService(
            self.config,
            self._evaluator_transport,
            self.store,
            clock=self.clock,
            monotonic_s=self.clock.monotonic_s,
            probe=self._probe,
            scripts=TrustingRunner(),
        )
        self.settle()

    def settle(self) -> None:
        """Let the evaluator go on until it has nothing to do. No time passes."""
        assert self._evaluator is not None
        quiet = 0
        for _ in range(_MOST_TURNS):
            handled = self._evaluator.loop.run_once(0.0)
            quiet = 0 if handled or not self._evaluator.loop.is_idle() else quiet + 1
            if quiet == _QUIET_TURNS:
                return
        raise AssertionError("the evaluator does not come to rest")

    def die_at(self, point: str) -> None:
        """Let the evaluator die when it reaches a step of its work."""
        self._dies_at = point

    def _probe(self, point: str) -> None:
        if point == self._dies_at:
            raise Killed(point)

    def close(self, *, kill: bool = False) -> None:
        """End all of it; a killed evaluator finishes nothing."""
        if self._evaluator is not None and self._evaluator_transport is not None:
            if kill:
                self._evaluator_transport.abandon()
            else:
                self._evaluator.close()
                self._evaluator_transport.close()
        self.client.close()
        self._producer.close()
        self.transport.close()
        self.broker.close()
        self.store.close()

    # --- putting records in -------------------------------------------------------------------------------------

    def put(self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers = ()) -> None:
        """Append a record, and let it be handled."""
        self.append(topic, value, key=key, headers=headers)
        self.settle()

    def append(self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers = ()) -> None:
        """Append a record."""
        self._producer.produce(topic, value, key=key, headers=headers)
        assert self._producer.flush(10) == 0

    def send(self, message: Message, **headers: bytes) -> None:
        """Append an answer or a command under its workflow's id, a second later, and let it be handled."""
        self.clock.advance(1_000)
        is_answer = isinstance(message, Answer)
        topic = self.topology.control() if is_answer else self.topology.commands()
        workflow_id = workflow_of(message.step_id) if isinstance(message, Answer) else message.workflow_id  # type: ignore[union-attr]  # a command has one
        more = tuple(headers.items())
        said = headers_for(message, source="/tests", at_ms=self.clock.now_ms(), form=self.codec.header_form)
        self.put(topic, self.codec.encode(message, topic), key=workflow_id.encode(), headers=(*said, *more))

    # --- looking at it ------------------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Record]:
        """Everything on a topic, partition by partition."""
        reader = self.transport.consumer(None)
        partitions = [TopicPartition(topic, n) for n in range(self.broker.topics()[topic].partitions)]
        reader.assign({partition: reader.watermarks(partition).low for partition in partitions})
        found: list[Record] = []
        while batch := reader.consume(1_000, 0):
            found.extend(batch)
        reader.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def events(self, facet: str) -> list[Event]:
        """Return the events on a facet's topic."""
        found = [self.codec.decode(record.value) for record in self.records(self.topology.facet(facet))]
        return [message for message in found if isinstance(message, Event)]

    def workflow(self, workflow_id: str) -> WorkflowRow:
        """Return the row of a workflow that is there."""
        row = self.store.load_workflow(workflow_id)
        assert row is not None, f"no workflow {workflow_id}"
        return row

    def steps(self, workflow_id: str) -> list[StepDocument]:
        """All steps of a workflow, in order of creation."""
        return self.store.load_steps(workflow_id)

    def waiting(self, workflow_id: str) -> list[StepDocument]:
        """Return the steps that wait for an answer."""
        return [step for step in self.steps(workflow_id) if step.state == "state.EventTransmit"]

    def asked(self, workflow_id: str, **params: object) -> StepDocument:
        """Return the only step that waits for an answer and has these parameters."""
        (found,) = [s for s in self.waiting(workflow_id) if params.items() <= s.params.items()]
        return found


# --- what would differ each time -------------------------------------------------------------------------------------


def new_log(path: Path) -> None:
    """Make an embedded log whose cluster has the fixtures' id."""
    EmbeddedBroker(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as log:
        log.execute("UPDATE cluster SET id = ?", (CLUSTER_ID,))


def kill(world: World) -> None:
    """Kill a world that has written its files, and replace what its claims of the store say: they name the machine,
    and a mark that was drawn.
    """
    path = world.config.log_path
    # A log that is opened again is compacted: it stays as it was written.
    world.broker.queue.write()
    rewritten = dict(_rewritten_claims(path, world.codec))
    world.close(kill=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as log:
        for place, contents in rewritten.items():
            log.execute(
                "UPDATE records SET value = ?, headers = ? WHERE topic_id = ? AND partition = ? AND offset = ?",
                (*contents, *place),
            )


def _rewritten_claims(path: Path, codec: Codec) -> Iterator[tuple[tuple[int, int, int], tuple[bytes, bytes]]]:
    with closing(sqlite3.connect(path)) as log:
        found = log.execute(
            "SELECT topic_id, partition, offset, value, headers FROM records WHERE key = ?", (b"store",)
        ).fetchall()
    for topic_id, partition, offset, value, headers in found:
        claim = codec.decode(value)
        assert isinstance(claim, StoreClaim)
        old = f"{claim.store}:{claim.mark}".encode()
        assert headers.count(old) == 1
        reported = StoreClaim(store=STORE_ID, mark=MARK, number=claim.number, location=LOCATION, host=HOST, at=claim.at)
        # Of the same length, so that what stands before it holds.
        yield (
            (topic_id, partition, offset),
            (codec.encode(reported), headers.replace(old, f"{STORE_ID}:{MARK}".encode())),
        )
