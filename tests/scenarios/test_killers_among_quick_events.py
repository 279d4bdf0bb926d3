"""An event that ends its process while quick handlers run on the thread that reads: real processes, one durable log."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from afl_stream.embedded.transport import EmbeddedBroker
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

ROOT: Final = Path(__file__).parents[2]
EVENTS: Final = 300
KILLER: Final = 200
MAX_CRASHES: Final = 3
#: The deaths that count, and one or two before which nothing says which record ran.
MOST_DEATHS: Final = MAX_CRASHES + 2
_CODE: Final = 9

#: Handles events until all of its log is read; ends its process at once, or by SIGKILL, for the killer's event.
PROCESS = """
import os, signal, sys
from pathlib import Path
from threading import Event, Thread, current_thread
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.settings.config import AgentSettings, StreamConfig, TopicSettings
from afl_stream.embedded.transport import EmbeddedTransport

log, notes, killer, way = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def handle(payload):
    if payload["n"] == killer:
        with notes.open("a") as file:
            file.write(current_thread().name + "\\n")
        if way == "exit":
            os._exit(9)
        os.kill(os.getpid(), signal.SIGKILL)
        Event().wait(30)
    return {"n": payload["n"]}

stream = StreamConfig(
    topics=TopicSettings(control_partitions=1, event_partitions=1, replication=1),
    agent=AgentSettings(max_concurrent=4, max_crashes=3),
)
transport = EmbeddedTransport(log)
agent = Agent(AgentConfig(stream=stream), transport)
agent.register("billing.Pay", handle)

def watch():
    while agent.counts.read == 0 or agent.has_work or not agent.has_read_all:
        Event().wait(0.02)
    agent.stop()

Thread(target=watch, daemon=True).start()
code = agent.run()
transport.close()
sys.exit(code)
"""


def answered(log: Path) -> int:
    broker = EmbeddedBroker(log)
    found = len(Deployment(broker=broker).results())
    broker.close()
    return found


@pytest.mark.long
@pytest.mark.parametrize("way", ["exit", "signal"])
def test_an_event_that_ends_its_process_is_parked_and_all_others_are_answered(tmp_path: Path, way: str) -> None:
    log, notes = tmp_path / "log.sqlite3", tmp_path / "notes"
    notes.touch()
    broker = EmbeddedBroker(log)
    Deployment(broker=broker).publish(*(event(step=step) for step in range(1, EVENTS + 1)))
    broker.close()

    deaths = 0
    command = [sys.executable, "-c", PROCESS, str(log), str(notes), str(KILLER), way]
    # One that ends by itself has seen nothing to do for a moment; that may have been between two reads.
    for _ in range(MOST_DEATHS + EVENTS):
        if subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode:
            deaths += 1
            assert deaths <= MOST_DEATHS
        elif answered(log) == EVENTS:
            break

    assert deaths >= MAX_CRASHES
    assert len(notes.read_text().splitlines()) == deaths
    after = Deployment(broker=EmbeddedBroker(log))
    answers: dict[str, object] = {f"wf-{n}:{n:x}": {"n": n} for n in range(1, EVENTS + 1)}
    killed = f"wf-{KILLER}:{KILLER:x}"
    assert after.results() == {**answers, killed: "PoisonEvent"}
    (letter,) = after.dead_letters(PAY)
    said = {name: value for name, value in letter.headers if name.startswith("afl.dlq.")}
    assert letter.key == killed.encode()
    assert (said["afl.dlq.reason"], said["afl.dlq.error_class"]) == (b"PoisonEvent", b"PoisonEvent")
    assert (said["afl.dlq.attempt"], said["afl.dlq.tries"]) == (b"1", str(MAX_CRASHES).encode())
