"""The scenarios of test_scenarios_on_mongodb.py that a short run has no time for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.mongo_deployment import deployments_on, scenarios_of
from tests.integration.test_scenarios_on_mongodb import QUICK
from tests.scenarios import test_answer_outcomes, test_orphaned_outbox, test_rival_evaluators

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True, params=["replica set", "standalone"])
def _on_mongodb(request: pytest.FixtureRequest) -> Iterator[None]:
    fixture = "mongodb_url" if request.param == "replica set" else "standalone_mongodb_url"
    with deployments_on(request.getfixturevalue(fixture)):
        yield


_ALL = scenarios_of(test_answer_outcomes, test_orphaned_outbox, test_rival_evaluators)
globals().update({name: found for name, found in _ALL.items() if name == "desk" or name not in QUICK})
