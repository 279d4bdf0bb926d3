"""What the loop promises on SQLite and in memory, on MongoDB: outcomes of answers, orphaned records, rivals.

The tests are those of tests/scenarios, unchanged; here their deployments keep their stores in MongoDB. The others of
those modules are in test_more_scenarios_on_mongodb.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.integration.mongo_deployment import deployments_on, scenarios_of
from tests.scenarios import test_answer_outcomes, test_orphaned_outbox, test_rival_evaluators

#: One for each thing that a store has a part in; a wire takes its time.
QUICK: Final = (
    "desk",
    "test_duplicate_answers_do_nothing_the_first_one_wins",
    "test_early_answers_are_parked_and_applied_when_their_step_asks",
    "test_unknown_answers_are_dead_lettered_when_they_expire",
    "test_a_workflow_that_met_every_outcome_still_completes",
    "test_the_next_owner_publishes_what_a_dead_writer_left_before_it_reads",
    "test_a_writers_own_lane_is_swept_after_ten_seconds_by_one_of_the_others",
    "test_a_frozen_evaluator_that_comes_back_changes_nothing_and_says_why",
    "test_a_position_that_somebody_else_has_moved_is_given_up_and_read_again",
    "test_an_answer_that_stale_memory_would_apply_a_second_time_is_a_duplicate",
)


@pytest.fixture(autouse=True, params=["replica set", pytest.param("standalone", marks=pytest.mark.long)])
def _on_mongodb(request: pytest.FixtureRequest) -> Iterator[None]:
    fixture = "mongodb_url" if request.param == "replica set" else "standalone_mongodb_url"
    with deployments_on(request.getfixturevalue(fixture)):
        yield


_ALL = scenarios_of(test_answer_outcomes, test_orphaned_outbox, test_rival_evaluators)
globals().update({name: _ALL[name] for name in QUICK})
