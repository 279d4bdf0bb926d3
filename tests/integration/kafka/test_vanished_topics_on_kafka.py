"""A facet's topic deleted under an agent of two facets: the other is handled, and the topic again when it is back."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Final

import pytest

from afl_stream.exit_codes import ExitCode
from tests.eventually import eventually
from tests.integration.kafka.test_audit_on_kafka import without_tuning
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S, Processes
from tests.worlds.world import Deployments

pytestmark = pytest.mark.long

#: Two looks at the topics' ids, and their answers.
NOTICED_WITHIN_S: Final = 10

TWO = """
namespace two {
  event facet One(n: Long) => (n: Long)
  event facet Other(n: Long) => (n: Long)
  workflow Both(n: Long) andThen {
    a = One(n = $.n)
    b = Other(n = $.n)
  }
}
"""
HANDLERS = """
def register_handlers(runner):
    runner.register("two.One", lambda payload: {"n": payload["n"]})
    runner.register("two.Other", lambda payload: {"n": payload["n"]})
"""


def is_read(deployment: Deployment, facet: str) -> None:
    """Show that the agent reads the facet: a garbage record becomes a dead letter."""
    topic = deployment.topology.facet(facet)
    before = len(deployment.dead_letters(topic))
    deployment.queue(topic, b"no event", key=b"wf:1")
    deployment.flush()
    eventually(lambda: len(deployment.dead_letters(topic)) == before + 1, DEADLINE_S)


@pytest.mark.parametrize("words", [[], ["--group", "workers"]], ids=["a group each", "one group"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_agent_continues_without_a_vanished_topic_and_takes_it_up_again(
    words: list[str], protocol: str, deployments: Deployments
) -> None:
    deployment = deployments(TWO, protocol=protocol)
    (deployment.config.store_path.parent.parent / "both.py").write_text(HANDLERS)
    agent = deployment.processes.command("agent", "--handlers", "./both.py", *words)
    is_read(deployment, "two.One")
    is_read(deployment, "two.Other")

    topic = deployment.topology.facet("two.One")
    deployment.transport.admin().delete_topic(topic)
    agent.when_it_says("continues with its other facets until the topic exists again")
    is_read(deployment, "two.Other")
    deployment.client.apply_topics(deployment.programs)
    agent.when_it_says(f"topics that exist again and are read: {topic}")
    is_read(deployment, "two.One")

    agent.send(signal.SIGTERM)
    assert agent.exit_code() == ExitCode.OK, agent.log


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_audit_in_a_group_continues_without_a_vanished_topic_and_takes_it_up_again(
    protocol: str, deployments: Deployments, processes: Processes, tmp_path: Path
) -> None:
    deployment, file = deployments(TWO, protocol=protocol), tmp_path / "audit.jsonl"
    # Clients as they are by default: they hear of the topic from its broker before the group does.
    environment = without_tuning(deployment.processes.environment)
    audit = processes.start("audit", "afl_stream", "audit", "--file", str(file), environment=environment)

    def is_audited(facet: str, key: str) -> None:
        """Show that the audit reads the facet: a garbage record becomes a line."""
        deployment.queue(deployment.topology.facet(facet), b"no event", key=key.encode())
        deployment.flush()
        eventually(lambda: audit.check_alive() and file.exists() and f'"{key}"' in file.read_text(), DEADLINE_S)

    is_audited("two.One", "one:1")
    is_audited("two.Other", "other:1")

    topic = deployment.topology.facet("two.One")
    deployment.transport.admin().delete_topic(topic)
    # Longer than it takes the group to notice, or the audit to be told.
    gone_s = time.monotonic()
    number = 2
    while time.monotonic() - gone_s < NOTICED_WITHIN_S:
        is_audited("two.Other", f"other:{number}")
        number += 1
    deployment.client.apply_topics(deployment.programs)
    is_audited("two.One", "one:2")

    audit.send(signal.SIGTERM)
    assert audit.exit_code() == ExitCode.OK, audit.log
    assert file.read_text().count('"one:1"') == 1
