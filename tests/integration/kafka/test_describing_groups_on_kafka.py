"""Groups described by brokers that do not answer in time: an error, and never the end of the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tests.worlds.processes import DEADLINE_S, ROOT
from tools.kafka import Broker

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

#: How soon a client finds a coordinator when the broker is back; it reconnects after 1 s.
_FOUND_S: Final = 6.0
#: Asks for groups, each of another coordinator, for each line that it reads. librdkafka has found none before.
_ASKING: Final = """
import sys
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import load_config
from afl_stream.transport import BrokerUnavailable

transport = KafkaTransport(load_config())
admin = transport.admin()
admin.topic_names()
print("connected", flush=True)
for number, _ in enumerate(sys.stdin):
    try:
        found = admin.groups([f"group-{number}"])
        print("found", *found, flush=True)
    except BrokerUnavailable:
        print("unavailable", flush=True)
transport.close()
print("closed", flush=True)
"""


class Asking:
    """A process that asks for groups; an abort of librdkafka would end it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self) -> str:
        """Ask for a group, and return what came of it."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.said()

    def ends_within(self, timeout_s: float) -> bool:
        """Whether it ends by itself."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> tuple[str, int]:
        """Let it close its clients; return its last words and its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.said(), self._process.wait(DEADLINE_S)


@contextmanager
def asking(broker: Broker) -> Iterator[Asking]:
    with subprocess.Popen(
        [sys.executable, "-c", _ASKING],
        cwd=ROOT,
        env={"AFL_KAFKA_BOOTSTRAP": broker.bootstrap, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Asking(process)
        finally:
            process.kill()


def test_a_process_lives_on_when_the_coordinator_of_a_group_is_found_after_its_question_timed_out(
    own_broker: Broker,
) -> None:
    with asking(own_broker) as process:
        assert process.said() == "connected"

        own_broker.pause()
        outcome = process.ask()
        own_broker.resume()
        # Meanwhile the coordinator is found.
        has_ended = process.ends_within(_FOUND_S)
        answers = [] if has_ended else [process.ask() for _ in range(3)]

        assert outcome == "unavailable"
        assert not has_ended
        assert answers[-1] == "found group-3"
        assert process.end() == ("closed", 0)


def test_a_process_lives_on_when_it_ends_with_questions_that_were_not_answered(own_broker: Broker) -> None:
    with asking(own_broker) as process:
        assert process.said() == "connected"

        own_broker.pause()
        outcome = process.ask()
        ended = process.end()
        own_broker.resume()

    assert (outcome, *ended) == ("unavailable", "closed", 0)
