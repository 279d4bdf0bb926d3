"""Workers take events over HTTP, and answer them."""

from __future__ import annotations

from tests.scenarios.gateway.world import CHARGE, Shop


def test_an_event_is_taken_answered_and_its_run_ends(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="17")
        event = worker.take()

        assert event["facet"] == CHARGE
        assert event["payload"] == {"order": "17", "amount": 10.0}
        assert event["tries"] == 1
        assert worker.complete(event, receipt="r17") == {"leased": True}
        shown = worker.ended("r-1")

    assert (shown["status"], shown["outputs"]) == ("COMPLETED", {"receipt": "r17"})
