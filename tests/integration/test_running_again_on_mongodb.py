"""Retry, re-run and reset on MongoDB: the scenarios of tests/scenarios/test_running_again.py, unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.integration.mongo_deployment import deployments_on, scenarios_of
from tests.scenarios import test_running_again

#: One for each thing that a store has a part in.
QUICK: Final = (
    "desk",
    "test_a_retry_sends_the_event_again_and_the_run_ends_as_if_nothing_had_failed",
    "test_a_rerun_asks_for_what_depends_on_the_step_and_older_answers_are_superseded",
    "test_a_reset_begins_again_with_the_same_inputs",
    "test_the_same_command_twice_is_done_once",
)


@pytest.fixture(autouse=True, params=["replica set", pytest.param("standalone", marks=pytest.mark.long)])
def _on_mongodb(request: pytest.FixtureRequest) -> Iterator[None]:
    fixture = "mongodb_url" if request.param == "replica set" else "standalone_mongodb_url"
    with deployments_on(request.getfixturevalue(fixture)):
        yield


_ALL = scenarios_of(test_running_again)
globals().update({name: _ALL[name] for name in QUICK})
