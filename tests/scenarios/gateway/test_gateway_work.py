"""Workers take events over HTTP, and answer them."""

from __future__ import annotations

import threading
from typing import Any

from afl.core.clock import ManualClock
from tests.eventually import eventually
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


def test_a_poll_waits_for_an_event(shop: Shop) -> None:
    with shop.gateway() as worker:
        assert worker.poll(wait_s=0) == []
        found: list[Any] = []
        polling = threading.Thread(target=lambda: found.extend(worker.poll(wait_s=10)))
        polling.start()
        worker.start("Checkout", "r-1", order="17")
        polling.join(15)

        assert [event["payload"]["order"] for event in found] == ["17"]


def test_a_failure_fails_the_step_with_its_type_and_message(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="17")
        answer = worker.lease("fail", worker.take(), type="CardDeclined", message="no money")
        assert answer.json() == {"leased": True}
        shown = worker.ended("r-1")

    assert shown["status"] == "ERROR"
    assert "no money" in shown["error"]["message"]


def test_an_update_is_a_part_of_the_result(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="17")
        event = worker.take()
        assert worker.lease("update", event, partial={"receipt": "early"}).json() == {"leased": True}
        worker.complete(event)

        assert worker.ended("r-1")["outputs"] == {"receipt": "early"}


def test_a_result_with_an_undeclared_key_is_refused_and_the_lease_goes_on(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="17")
        event = worker.take()
        refused = worker.lease("complete", event, result={"receit": "r17"})

        assert refused.status_code == 400
        assert "receit" in refused.json()["error"]
        assert worker.complete(event, receipt="r17") == {"leased": True}


def test_a_lease_that_runs_out_gives_the_event_to_the_next_poll_with_its_tries_counted(shop: Shop) -> None:
    clock = ManualClock()
    with shop.gateway(clock=clock, lease_s=60) as worker:
        worker.start("Checkout", "r-1", order="17")
        first = worker.take()
        clock.advance(61_000)
        second = worker.take()

        assert (second["event_id"], second["tries"]) == (first["event_id"], 2)
        assert worker.lease("heartbeat", first).status_code == 409
        # Both answer: the first answer counts, and the other one changes nothing.
        assert worker.complete(first, receipt="first") == {"leased": False}
        assert worker.complete(second, receipt="second") == {"leased": True}
        assert worker.ended("r-1")["outputs"] == {"receipt": "first"}


def test_a_heartbeat_extends_a_lease(shop: Shop) -> None:
    clock = ManualClock()
    with shop.gateway(clock=clock, lease_s=60) as worker:
        worker.start("Checkout", "r-1", order="17")
        event = worker.take()
        clock.advance(50_000)
        beat = worker.lease("heartbeat", event).json()
        clock.advance(50_000)

        assert beat == {"until_ms": event["until_ms"] + 50_000, "cancelled": False, "stopping": False}
        assert worker.lease("heartbeat", event).status_code == 200
        assert worker.complete(event, receipt="r17") == {"leased": True}


def test_after_so_many_leases_that_ran_out_the_step_fails(shop: Shop) -> None:
    clock = ManualClock()
    with shop.gateway(clock=clock, max_tries=2) as worker:
        worker.start("Checkout", "r-1", order="17")
        for _ in range(2):
            worker.take()
            clock.advance(61_000)
        shown = worker.ended("r-1")

    assert shown["status"] == "ERROR"
    assert "ran out" in shown["error"]["message"]


def test_an_event_that_is_given_back_counts_no_try(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="17")
        first = worker.take()
        assert worker.lease("release", first).json() == {"leased": True}
        second = worker.take()

        assert (second["event_id"], second["tries"]) == (first["event_id"], 1)


def test_a_deferred_answer_is_taken_by_another_gateway(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="17")
        event = worker.take()
        assert worker.lease("defer", event).json() == {"leased": True}
        eventually(lambda: not worker.gateway.agents[0].agent.has_work, 10)

    with shop.gateway() as worker:
        assert worker.poll(wait_s=0.3) == []
        assert worker.complete(event, receipt="late") == {"leased": False}
        assert worker.ended("r-1")["outputs"] == {"receipt": "late"}


def test_no_more_events_are_held_than_the_setting_says(shop: Shop) -> None:
    with shop.gateway(max_held=3) as worker:
        for number in range(8):
            worker.start("Checkout", f"r-{number}", order=str(number))
        desk = worker.gateway.desk(CHARGE)
        eventually(lambda: sum(desk.counts) == 3, 10)
        held = worker.poll(max=10)
        assert len(held) == 3
        assert worker.poll(max=10, wait_s=0.3) == []
        seen = []
        while held:
            assert sum(desk.counts) <= 3
            event = held.pop()
            seen.append(event["payload"]["order"])
            worker.complete(event, receipt="r")
            held += worker.poll(max=10, wait_s=0.5)

    assert sorted(seen) == [str(number) for number in range(8)]


def test_a_facet_that_nobody_polls_holds_up_no_other(shop: Shop) -> None:
    with shop.gateway(facets=f"{CHARGE}, shop.Login", max_held=1) as worker:
        for number in range(3):
            worker.start("Checkout", f"r-{number}", order="17")
        worker.start("Enter", "e-1", password="hush")
        worker.complete(worker.take("shop.Login"), ok=True)

        assert worker.ended("e-1")["status"] == "COMPLETED"


def test_workers_get_sensitive_values_and_those_who_look_do_not(shop: Shop) -> None:
    with shop.gateway(facets="shop.Login") as worker:
        worker.start("Enter", "e-1", password="hush")
        event = worker.take("shop.Login")
        waiting = worker.http.get("/v1/runs/e-1").text
        worker.start("Secret", "s-1", code="4711")
        ended = worker.ended("s-1")

    assert event["payload"] == {"password": "hush"}
    assert "hush" not in waiting
    assert ended["outputs"] == {"code": "[sensitive]"}


def test_a_step_is_answered_and_an_event_is_raised_from_outside(shop: Shop) -> None:
    with shop.gateway(facets="shop.Login") as worker:
        worker.start("Checkout", "r-1", order="17")
        worker.start("News", "n-1")
        shop.wait_for("r-1", "PAUSED")
        step = worker.http.get("/v1/runs/r-1").json()["waiting"][0]["step_id"]
        answered = worker.http.post(f"/v1/steps/{step}/answer", json={"result": {"receipt": "by hand"}})
        raised = worker.http.post("/v1/runs/n-1/events/news", json={"data": {"text": "rain"}, "id": "n"})

        assert (answered.status_code, raised.status_code) == (202, 202)
        assert worker.ended("r-1")["outputs"] == {"receipt": "by hand"}
        assert worker.ended("n-1")["outputs"] == {"data": {"text": "rain"}}


def test_a_facet_that_is_not_served_is_refused_by_name(shop: Shop) -> None:
    with shop.gateway() as worker:
        refused = worker.http.post("/v1/facets/shop.Login/poll", json={})

    assert refused.status_code == 404
    assert "shop.Login" in refused.json()["error"]
    assert CHARGE in refused.json()["error"]


def test_a_drain_gives_back_what_waits_and_takes_answers_of_what_is_leased(shop: Shop) -> None:
    with shop.gateway(grace_s=10) as worker:
        worker.start("Checkout", "r-1", order="1")
        leased = worker.take()
        worker.start("Checkout", "r-2", order="2")
        eventually(lambda: worker.gateway.desk(CHARGE).counts == (1, 1), 10)
        worker.gateway.begin_stop()
        eventually(lambda: worker.gateway.desk(CHARGE).counts == (0, 1), 10)
        assert worker.complete(leased, receipt="r1") == {"leased": True}
        assert worker.gateway.stop()

    with shop.gateway() as worker:
        event = worker.take()
        assert (event["payload"]["order"], event["tries"]) == ("2", 1)
        assert worker.poll(wait_s=0.3) == []
