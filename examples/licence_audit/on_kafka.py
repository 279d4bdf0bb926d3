"""The licence audit on a real broker with processes of their own: `python -m examples.licence_audit.on_kafka`."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, Final

from rich.console import Console

from afl.runtime.sqlite_store import SqliteStore
from afl_stream.client import REJECTED, Client
from afl_stream.config import StreamConfig, load_config
from afl_stream.errors import StreamError
from afl_stream.kafka import KafkaTransport
from afl_stream.topics import Topology
from afl_stream.transport import BrokerUnavailable, TopicPartition, Transport, TransportError
from examples.licence_audit import __main__ as embedded
from examples.licence_audit.parties import Parties, PartyEnded
from examples.licence_audit.presentation import progress_bar, totals_table

FOLDER: Final = Path(".afl") / "licence_audit_on_kafka"
_AGENTS: Final = ("agent-1", "agent-2")
_LAST: Final = frozenset({"workflow.completed", "workflow.error", "workflow.cancelled", REJECTED})
#: Far more than each takes: an end for a demo that hangs.
_JOIN_TIMEOUT_S: Final = 90.0
_RUN_TIMEOUT_S: Final = 180.0
_LOOK_INTERVAL_S: Final = 0.1


class DemoFailed(Exception):
    """The demo did not come to what it is to show."""


def main(console: Console, folder: Path = FOLDER) -> int:
    """Run the audit on a broker, show what it found, compare it with the embedded run, and return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        interruption = _Interruption()
        with interruption.listening():
            outputs = _on_kafka(console, folder.resolve(), interruption)
            console.print(totals_table(outputs["totals"]))
            _compare(console, outputs, folder)
    except KeyboardInterrupt:
        console.print("Interrupted; every process has ended.")
        return 130
    except (DemoFailed, PartyEnded, StreamError, TransportError) as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return 1
    return 0


def _on_kafka(console: Console, folder: Path, interruption: _Interruption) -> Mapping[str, Any]:
    with _bootstrap(console) as bootstrap, tempfile.TemporaryDirectory(dir=folder, prefix="run-") as name:
        environment = _environment(bootstrap, Path(name))
        config = load_config(Path(os.devnull), environ={**os.environ, **environment})
        with ExitStack() as opened:
            transport = KafkaTransport(config)
            opened.callback(transport.close)
            opened.callback(_delete_topics, transport, config.prefix)
            client = opened.enter_context(Client(config, transport))
            program = embedded.compiled()
            interruption.check()
            client.apply_topics([program])
            client.deploy(program)
            console.print(f"Topics {config.prefix}* are there, and the program is deployed.")
            audit_path = folder / "audit.jsonl"
            audit_path.unlink(missing_ok=True)
            with Parties(folder, environment) as parties:
                # A group of this run's own: the file's would be kept from the run before.
                joining = ("--group", _audit_group(config))
                pids = {"audit": parties.start("audit", "audit", "--file", str(audit_path), *joining)}
                pids["evaluator"] = parties.start("evaluator", "evaluator")
                for agent in _AGENTS:
                    pids[agent] = parties.start(agent, "agent", "--handlers", embedded.HANDLERS)
                console.print("Started " + ", ".join(f"{party} ({pid})" for party, pid in pids.items()))

                def check() -> None:
                    interruption.check()
                    parties.check()

                _until_joined(config, transport, check)
                workflow_id = _run(console, client, transport, check)
                _until_audited(audit_path, client.topology, transport, check)
            _check_ends(console, parties, audit_path)
            return _outputs_of(config, workflow_id)


@contextmanager
def _bootstrap(console: Console) -> Iterator[str]:
    """Provide a broker's address: the person's own, or that of one that is started here and stopped at the end."""
    given = os.environ.get("AFL_KAFKA_BOOTSTRAP")
    if given:
        console.print(f"Kafka at {given}")
        yield given
        return
    # Not needed by those who have a broker, and they may have no Java.
    from tools.kafka import Broker, LocalBrokerError

    with tempfile.TemporaryDirectory(prefix="afl-kafka-") as name:
        console.print("Starting Kafka (the first time, its jars are fetched) ...")
        try:
            broker = Broker.start(Path(name))
        except LocalBrokerError as error:
            raise DemoFailed(f"no Kafka: {error}; or name a broker of yours: AFL_KAFKA_BOOTSTRAP=HOST:PORT") from error
        with broker:
            console.print(f"Kafka at {broker.bootstrap}, process {broker.pid}")
            yield broker.bootstrap


def _environment(bootstrap: str, data_dir: Path) -> dict[str, str]:
    """Return the demo's settings: a unique prefix, and groups that quickly notice members that come or go."""
    return {
        "AFL_KAFKA_BOOTSTRAP": bootstrap,
        "AFL_PREFIX": f"demo-{uuid.uuid4().hex[:8]}.",
        "AFL_EMBEDDED_DATA_DIR": str(data_dir),
        "AFL_TOPICS_REPLICATION": os.environ.get("AFL_TOPICS_REPLICATION", "1"),
        "AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "6000",
        "AFL_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "500",
        "AFL_KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "1000",
    }


def _audit_group(config: StreamConfig) -> str:
    return f"{config.prefix}audit"


def _until_joined(config: StreamConfig, transport: KafkaTransport, check: Callable[[], None]) -> None:
    """Wait until everybody has partitions, so that both agents get their share of the first event on."""
    expected = {_audit_group(config): 1, config.evaluator_group: 1}
    facets = [facet.qualified_name for facet in embedded.compiled().event_facets()]
    expected |= {config.agent_group(facet): len(_AGENTS) for facet in facets}

    def is_complete() -> bool:
        try:
            found = transport.admin().groups(expected)
        except BrokerUnavailable:
            return False
        having = {name: sum(bool(member.partitions) for member in group.members) for name, group in found.items()}
        return having == expected

    _wait_for(is_complete, check, _JOIN_TIMEOUT_S, "the groups are complete")


def _run(console: Console, client: Client, transport: Transport, check: Callable[[], None]) -> str:
    """Start the workflow, and show how far it is until its end is told."""
    with closing(client.milestones()) as milestones, closing(transport.consumer(None)) as reader, progress_bar(
        console
    ) as bar:  # fmt: skip
        task = bar.add_task(embedded.WORKFLOW, total=None)
        began_s = time.monotonic()
        workflow_id = client.start(embedded.WORKFLOW)
        counts = _Counts(client.topology, transport, reader.watermarks)
        while time.monotonic() - began_s < _RUN_TIMEOUT_S:
            check()
            ends = [m for m in milestones.read(_LOOK_INTERVAL_S) if m.workflow_id == workflow_id and m.kind in _LAST]
            asked, answered = counts.now()
            bar.update(task, completed=answered, total=asked or None)
            if ends:
                elapsed_s = time.monotonic() - began_s
                if ends[0].error is not None:
                    raise DemoFailed(f"The audit failed: {ends[0].error.type}: {ends[0].error.message}")
                break
        else:
            raise DemoFailed(f"The audit has not ended within {_RUN_TIMEOUT_S:.0f} s")
    console.print(f"{answered} events answered in {elapsed_s:.1f} s")
    return workflow_id


class _Counts:
    """How many events and answers the topics have had."""

    def __init__(self, topology: Topology, transport: Transport, watermarks: Callable[[TopicPartition], Any]) -> None:
        existing = transport.admin().topics()
        self._watermarks = watermarks
        self._control = _partitions_of(topology.control(), existing)
        facets = [name for name in existing if topology.is_facet_topic(name)]
        self._events = [partition for name in facets for partition in _partitions_of(name, existing)]

    def now(self) -> tuple[int, int]:
        """Events, answers."""
        return self._sum(self._events), self._sum(self._control)

    def _sum(self, partitions: list[TopicPartition]) -> int:
        return sum(int(self._watermarks(partition).high) for partition in partitions)


def _partitions_of(topic: str, existing: Mapping[str, Any]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(existing[topic].partitions)]


def _until_audited(audit_path: Path, topology: Topology, transport: Transport, check: Callable[[], None]) -> None:
    """Wait until the audit, which follows, has written what the others did."""
    with closing(transport.consumer(None)) as reader:
        wanted = sum(_Counts(topology, transport, reader.watermarks).now())

    def is_complete() -> bool:
        kinds = Counter(line["kind"] for line in _lines(audit_path))
        return kinds["event"] + kinds["answer"] >= wanted

    _wait_for(is_complete, check, _JOIN_TIMEOUT_S, "the audit has every record")


def _lines(audit_path: Path) -> list[dict[str, Any]]:
    if not audit_path.exists():
        return []
    # The last line may be half written.
    return [json.loads(line) for line in audit_path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _check_ends(console: Console, parties: Parties, audit_path: Path) -> None:
    failed = {name: code for name, code in parties.exit_codes.items() if code != 0}
    if failed:
        raise DemoFailed(f"ended with another exit code than 0: {failed}")
    answers = Counter(str(line["agent"]) for line in _lines(audit_path) if line["kind"] == "answer")
    shares = " and ".join(f"{count}" for _, count in sorted(answers.items()))
    console.print(f"All {len(parties.exit_codes)} processes ended with 0; the agents had answered {shares}.")
    console.print(f"Every record is in {audit_path}", soft_wrap=True)


def _outputs_of(config: StreamConfig, workflow_id: str) -> Mapping[str, Any]:
    with closing(SqliteStore(config.store_path, prefix=config.prefix, create=False)) as store:
        row = store.load_workflow(workflow_id)
    if row is None or row.outputs is None:
        raise DemoFailed(f"The store has no outputs of run {workflow_id}")
    return dict(row.outputs)


def _compare(console: Console, outputs: Mapping[str, Any], folder: Path) -> None:
    with open(os.devnull, "w") as nowhere:
        code = embedded.main(Console(file=nowhere), folder / "embedded")
    with closing(SqliteStore(folder / "embedded" / "store.sqlite3", create=False)) as store:
        rows = store.list_workflows(limit=1)
    if code != 0 or not rows or rows[0].outputs != outputs:
        raise DemoFailed("The result differs from the embedded run's.")
    console.print("The result equals the embedded run's.")


def _delete_topics(transport: Transport, prefix: str) -> None:
    """Delete what the demo created, because the broker may be shared."""
    admin = transport.admin()
    for topic in admin.topics():
        if topic.startswith(prefix):
            admin.delete_topic(topic)


def _wait_for(condition: Callable[[], bool], check: Callable[[], None], timeout_s: float, what: str) -> None:
    pause, end_s = Event(), time.monotonic() + timeout_s
    while not condition():
        check()
        if time.monotonic() > end_s:
            raise DemoFailed(f"waited {timeout_s:.0f} s in vain until {what}")
        pause.wait(_LOOK_INTERVAL_S)


class _Interruption:
    """The word to end, of Ctrl-C or SIGTERM: noted, and obeyed between two steps. A second one does as ever."""

    def __init__(self) -> None:
        self._has_come = False

    def check(self) -> None:
        if self._has_come:
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside the client's own calls an exception of ours would be lost, or worse."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.getsignal(number) for number in numbers}

        def note(number: int, _frame: FrameType | None) -> None:
            self._has_come = True
            signal.signal(number, before[signal.Signals(number)])

        for number in numbers:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main(Console()))
