"""The loop on each version of Kafka that docs/deploying.md calls tested."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.core.handlers.context import HandlerContext
from afl.engine.model.store import COMPLETED
from tests.worlds.desk import ASK, DESK, REPORT
from tests.worlds.stores import SqliteStores
from tests.worlds.world import KafkaWorld
from tools.kafka import Broker
from tools.kafka.versions import TESTED

pytestmark = pytest.mark.long

#: The broker of all other tests is the newest: there the loop needs no test of its own.
_OLDER = sorted(TESTED)[:-1]


@pytest.fixture(params=_OLDER)
def broker(request: pytest.FixtureRequest, tmp_path: Path, broker_installed: None) -> Iterator[Broker]:
    with TESTED[request.param].start(tmp_path / "broker") as started:
        yield started


def _answer(payload: dict[str, object], _context: HandlerContext) -> dict[str, object]:
    return {"answer": f"re: {payload['question']}"}


@pytest.mark.timeout(240)
def test_an_agent_answers_a_workflow_on_an_older_broker(broker: Broker, tmp_path: Path) -> None:
    world = KafkaWorld(broker.bootstrap, "shop.", tmp_path / "world", SqliteStores)
    try:
        deployment = world.deployment(DESK)
        deployment.evaluator()
        deployment.worker({ASK: _answer})

        deployment.client.start(REPORT, {"subject": "first"}, workflow_id="w1")
        deployment.settle()

        assert deployment.workflow("w1").status == COMPLETED
        # What they committed is found again by those that come after them.
        deployment.crash_and_restart()
        deployment.evaluator()
        deployment.worker({ASK: _answer})
        deployment.client.start(REPORT, {"subject": "second"}, workflow_id="w2")
        deployment.settle()

        assert deployment.workflow("w2").status == COMPLETED
        assert len(deployment.events(ASK)) == len({event.id for event in deployment.events(ASK)})
    finally:
        world.close()
