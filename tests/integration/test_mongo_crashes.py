"""Crashes on MongoDB, at any step of the loop and of a commit, on both kinds of server, lose and repeat nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.integration.mongo_deployment import deployments_on
from tests.scenarios.loop_harness import Deployment
from tests.scenarios.shop import SHOP
from tests.scenarios.test_loop_crashes import Place, crash_and_go_on, places

#: A commit by transaction, and one by commit document, have different steps.
TRANSACTION_POINTS: Final = {"store.written", "store.committed"}
DOCUMENT_POINTS: Final = {"store.compared", "store.written", "store.applied", "store.committed"}
#: What a short run has time for: around the commit.
_QUICK: Final = {*DOCUMENT_POINTS, "control.applied", "control.persisted"}


def places_with(points: set[str]) -> list[object]:
    """Where the loop can crash, on a store that has these points; all but a few in the long run only."""
    elsewhere = [place for place in places() if not place.point.startswith("store.")]
    own = [Place(party="evaluator", point=point, passes=passes) for point in sorted(points) for passes in (0, 2)]
    return [
        place if place.point in _QUICK and not place.passes else pytest.param(place, marks=pytest.mark.long)
        for place in (*own, *elsewhere)
    ]


@pytest.mark.parametrize("place", places_with(TRANSACTION_POINTS), ids=str)
def test_a_crash_anywhere_around_transactions_loses_nothing_and_does_nothing_twice(
    place: Place, mongodb_url: str, tmp_path: Path
) -> None:
    with deployments_on(mongodb_url):
        crash_and_go_on(Deployment(tmp_path, SHOP), place)


@pytest.mark.parametrize("place", places_with(DOCUMENT_POINTS), ids=str)
def test_a_crash_anywhere_around_commit_documents_loses_nothing_and_does_nothing_twice(
    place: Place, standalone_mongodb_url: str, tmp_path: Path
) -> None:
    with deployments_on(standalone_mongodb_url):
        crash_and_go_on(Deployment(tmp_path, SHOP), place)
