"""An agent in a process of its own drains on SIGTERM, and leaves on the log what its successor needs."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from afl_stream.embedded.transport import EmbeddedBroker
from afl_stream.exit_codes import ExitCode
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

ROOT = Path(__file__).parents[2]

#: Handles step 1 until the agent stops, every other step at once; notes what it starts in a file.
PROCESS = """
import sys
from pathlib import Path
from threading import Event
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.settings.config import AgentSettings, StreamConfig, TopicSettings
from afl_stream.embedded.transport import EmbeddedTransport

log, notes, wanted = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def handle(payload, context):
    with notes.open("a") as file:
        file.write(f"{payload['n']}\\n")
    while payload["n"] == 1 and not (wanted == "finish" and context.is_stopping):
        Event().wait(0.01)
    return {"n": payload["n"]}

stream = StreamConfig(
    topics=TopicSettings(control_partitions=1, event_partitions=1, replication=1),
    agent=AgentSettings(max_concurrent=2, grace_s=10 if wanted == "finish" else 0),
)
transport = EmbeddedTransport(log)
agent = Agent(AgentConfig(stream=stream), transport)
agent.register("billing.Pay", handle)
agent.install_signal_handlers()
code = agent.run()
transport.close()
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("wanted", "exit_code", "answered", "offset"),
    [
        pytest.param("finish", ExitCode.OK, {"wf-1:1", "wf-2:2"}, 2, id="in time"),
        pytest.param("go on", ExitCode.WORK_LEFT, {"wf-2:2"}, 0, id="too late"),
    ],
)
def test_sigterm_finishes_what_runs_within_the_grace_period_and_leaves_the_rest_uncommitted(
    tmp_path: Path, wanted: str, exit_code: int, answered: set[str], offset: int
) -> None:
    log, notes = tmp_path / "log.sqlite3", tmp_path / "notes"
    notes.touch()
    broker = EmbeddedBroker(log)
    Deployment(broker=broker).publish(event(step=1), event(step=2))
    broker.close()

    process = subprocess.Popen([sys.executable, "-c", PROCESS, str(log), str(notes), wanted], cwd=ROOT)
    eventually(lambda: set(notes.read_text().split()) == {"1", "2"} or process.poll() is not None)
    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == exit_code
    broker = EmbeddedBroker(log)
    after = Deployment(broker=broker)
    assert set(after.results()) == answered
    committed = after.committed()
    assert committed is not None
    assert committed.offset == offset
    broker.close()


def test_a_process_that_is_killed_leaves_its_events_to_the_next_one(tmp_path: Path) -> None:
    log, notes = tmp_path / "log.sqlite3", tmp_path / "notes"
    notes.touch()
    broker = EmbeddedBroker(log)
    Deployment(broker=broker).publish(event(step=1), event(step=2))
    broker.close()
    process = subprocess.Popen([sys.executable, "-c", PROCESS, str(log), str(notes), "finish"], cwd=ROOT)
    eventually(lambda: "1" in notes.read_text().split() or process.poll() is not None)
    process.kill()
    process.wait(30)

    broker = EmbeddedBroker(log)
    deployment = Deployment(broker=broker)
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {"again": payload["n"]})
    agent.run_once(1)
    agent.run_once(0)

    assert agent.counts.crashes_seen >= 1
    assert set(deployment.results()) == {"wf-1:1", "wf-2:2"}
    assert agent.close() == 0
    broker.close()
