"""One group of an agent in Python and one in another language, from the first event to the last."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from afl.engine.model.store import COMPLETED, ERROR, WorkflowRow
from afl_stream.broker.process import leash_to
from afl_stream.partitioner import partition_for
from afl_stream.wire.messages import Message, StepContinue, StepFailed
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, ROOT
from tests.worlds.world import Deployments

CLIENTS: Final = ROOT / "clients"
TASKS: Final = """
namespace tasks {
  event facet Do(kind: String, number: Long) => (text: String, by: String)
  workflow One(kind: String, number: Long) => (text: String, by: String) andThen {
    done = Do(kind = $.kind, number = $.number)
    yield One(text = done.text, by = done.by)
  }
}
"""
#: A Long that no Double holds.
LONG: Final = 2**53 + 1
_OFTEN_S: Final = 0.05


class MixedGroup:
    """A deployment with an evaluator and an agent in Python, whose group an agent of another language joins."""

    def __init__(self, deployments: Deployments, language: str, assignor: str, runs: int = 12) -> None:
        settings = {
            "AFL_WIRE_FACET_EVENTS": "tasks.Do=json",
            "AFL_AGENT_ASSIGNOR": assignor,
            "AFL_ANSWERS_TOKEN_SECRET": "a secret that is long enough to be one",
            "AFL_EVALUATOR_DEADLINES": "tasks.Do=2m",
        }
        self.language = language
        self._runs = runs
        self._assignor = assignor
        self.deployment: Deployment = deployments(TASKS, settings=settings)
        self.deployment.processes.evaluator()
        self._python = self.deployment.processes.agent_of("tests.worlds.task_handlers")
        self._log = self.deployment.config.store_path.parent / f"{language}.log"

    @contextmanager
    def joined_by(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
    ) -> Iterator[None]:
        """Start an agent: its words are the broker, the prefix and the group. It ends with the block."""
        config = self.deployment.config
        words = [*command, config.kafka.bootstrap or "", config.prefix, self.deployment.agent_group]
        self.deployment.processes.await_members(self.deployment.agent_group, 1)
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [*leash_to(os.getpid()), *words],
                cwd=folder, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
            process.wait()
            sys.stderr.write(f"--- {self.language}\n{self._log.read_text(errors='replace')[-4_000:]}\n")

    def share(self) -> None:
        """See that both members have partitions, and the runs between them."""
        self.deployment.processes.await_members(self.deployment.agent_group, 2)
        self._start("shared", range(self._runs))
        self._finish("shared", self._runs)
        by = {self._outputs(f"shared-{number}")["by"] for number in range(self._runs)}
        assert by == {"python", self.language}

    def rebalance(self, times: int = 6, between_s: float = 0.01) -> None:
        """Let a member come and go, who answers nothing, among events; the others answer all of them.

        A run is started about every `between_s` seconds.
        """
        settings = {
            "bootstrap.servers": self.deployment.config.kafka.bootstrap, "group.id": self.deployment.agent_group,
            "partition.assignment.strategy": self._assignor, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "session.timeout.ms": 10_000, "heartbeat.interval.ms": 500,
        }  # fmt: skip
        numbers = count()
        for _ in range(times):
            guest = Consumer(settings)
            guest.subscribe([self.deployment.topology.facet("tasks.Do")])
            eventually(partial(self._start_until_joined, guest, numbers, between_s), DEADLINE_S)
            guest.close()
        self._finish("rebalanced", next(numbers))

    def _start_until_joined(self, guest: Consumer, numbers: Iterator[int], between_s: float) -> bool:
        number = next(numbers)
        self._start("rebalanced", range(number, number + 1))
        guest.poll(between_s)
        return bool(guest.assignment())

    def move(self) -> None:
        """End the Python agent among events; the other answers what it left."""
        self._start("moved", range(self._runs // 2))
        self._python.stop()
        self._start("moved", range(self._runs // 2, self._runs))
        self._finish("moved", self._runs)

    def answer_all_kinds(self) -> None:
        """Ask for retries, failures, deferred answers, Longs and wrong results, and send garbage, with Python gone."""
        for kind in ("flaky", "later", "long", "declined", "wrong"):
            self.deployment.client.start("tasks.One", {"kind": kind, "number": LONG}, workflow_id=kind)
        topic = self.deployment.topology.facet("tasks.Do")
        self.deployment.put(topic, b'{"not": "an event"', key=b"garbage")
        self._await(["flaky", "later", "long", "declined", "wrong"])

        said = {kind: self._run(kind).outputs for kind in ("flaky", "later", "long")}
        assert said == {
            "flaky": {"text": "try 2", "by": self.language},
            "later": {"text": "later", "by": self.language},
            "long": {"text": str(LONG), "by": self.language},
        }
        assert self._failure("declined") == ("CardDeclined", "no funds")
        assert self._failure("wrong")[0] == "ResultMismatch"
        eventually(lambda: len(self.deployment.dead_letters(topic)) == 1, DEADLINE_S, interval_s=_OFTEN_S)
        (letter,) = self.deployment.dead_letters(topic)
        assert dict(letter.headers)["afl.dlq.reason"] == b"bad_json"

    def check_answers(self) -> None:
        """See that each answer has its event's token, names its sender, and is in its partition; none was refused."""
        control = self.deployment.topology.control()
        messages: list[Message] = self.deployment.messages(control)
        answers = [each for each in messages if isinstance(each, StepContinue | StepFailed)]
        assert all(each.answer_token and each.event_id and each.agent for each in answers)
        assert {each.group for each in answers} == {self.deployment.agent_group}
        assert self.deployment.dead_letters(control) == []
        for record in self.deployment.records(control):
            count = self.deployment.config.topics.control_partitions
            assert record.partition == partition_for(record.key or b"", count)

    def _start(self, stem: str, numbers: range) -> None:
        for number in numbers:
            inputs = {"kind": "plain", "number": number}
            self.deployment.client.start("tasks.One", inputs, workflow_id=f"{stem}-{number}")

    def _finish(self, stem: str, count: int) -> None:
        self._await([f"{stem}-{number}" for number in range(count)])
        for number in range(count):
            run = f"{stem}-{number}"
            assert (self._run(run).status, self._outputs(run)["text"]) == (COMPLETED, str(number))

    def _await(self, runs: Sequence[str]) -> None:
        processes = self.deployment.processes
        eventually(lambda: all(map(processes.has_ended, runs)), DEADLINE_S, interval_s=_OFTEN_S)

    def _run(self, workflow_id: str) -> WorkflowRow:
        return self.deployment.workflow(workflow_id)

    def _outputs(self, workflow_id: str) -> Mapping[str, object]:
        return self._run(workflow_id).outputs or {}

    def _failure(self, workflow_id: str) -> tuple[str, str]:
        row = self._run(workflow_id)
        assert row.status == ERROR
        assert row.error is not None
        return row.error.type, row.error.message
