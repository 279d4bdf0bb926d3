"""The contract of every store with workers on tasks: claims that expire, and ends that come with an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from afl.core.clock import ManualClock
from afl.engine.model.entities import LockMetaData, TaskState
from afl.engine.model.store import Batch, TaskEnd
from afl.engine.states import EventState, StepState
from tests.contract.store_rows import WholeStore, change, in_threads, step_document, task, workflow_row


def stored(store: WholeStore, task_id: str = "t") -> tuple[str, str]:
    """State and owner of a task."""
    found = store.get_task(task_id)
    assert found is not None
    return found.state, found.owner


def event_states(store: WholeStore) -> set[str]:
    """Return the states of the event of step `w:a`, by all who tell it."""
    event = store.get_event("w:a#1")
    assert event is not None
    return {event.state, *(each.state for each in (*store.get_waiting_events("w"), *store.get_all_events()))}


class LeaseContract:
    """What every store must do: claims by lease."""

    def test_a_claim_names_its_owner_and_when_it_expires(self, store: WholeStore, clock: ManualClock) -> None:
        store.save_task(task("t", step_id="w:a"))

        claimed = store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)

        assert claimed is not None
        assert (claimed.owner, claimed.lease_expires) == ("one", clock.now_ms() + 5_000)
        assert store.get_task("t") == claimed

    def test_a_task_that_has_ended_tells_when_it_was_claimed_and_how_long_it_took(
        self, store: WholeStore, clock: ManualClock
    ) -> None:
        store.save_task(task("t", step_id="w:a"))
        claimed = store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)
        claimed_ms = clock.now_ms()
        assert claimed is not None
        assert claimed.claimed == claimed_ms

        clock.advance(700)
        store.renew_leases(["t"], "one", 5_000)
        clock.advance(50)
        store.end_task("t", "one", TaskState.COMPLETED)

        ended = store.get_task("t")
        assert ended is not None
        assert (ended.owner, ended.claimed, ended.updated) == ("one", claimed_ms, claimed_ms + 750)

    def test_an_event_is_processing_while_somebody_has_claimed_its_task(self, store: WholeStore) -> None:
        asked = step_document("w:a", state=StepState.EVENT_TRANSMIT)._replace(event_state=EventState.CREATED, attempt=1)
        store.commit_batch(Batch(changes=[change(workflow_row("w"), asked)], tasks=[task("w:a#1", step_id="w:a")]))
        assert event_states(store) == {EventState.CREATED}

        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)
        assert event_states(store) == {EventState.PROCESSING}

        store.give_task_back("w:a#1", "one")
        assert event_states(store) == {EventState.CREATED}

    @pytest.mark.parametrize("step_id", ["w:a", ""])
    def test_an_expired_claim_can_be_taken_over(self, store: WholeStore, clock: ManualClock, step_id: str) -> None:
        store.save_task(task("t", step_id=step_id))
        store.claim_task(["shop.Pay"], owner="dead", lease_ms=5_000)

        clock.advance(4_999)
        assert store.requeue_expired_tasks() == []
        assert store.claim_task(["shop.Pay"], owner="heir", lease_ms=5_000) is None
        clock.advance(1)
        assert store.requeue_expired_tasks() == ["t"]

        assert stored(store) == (TaskState.PENDING, "")
        assert store.claim_task(["shop.Pay"], owner="heir", lease_ms=5_000) is not None
        assert stored(store) == (TaskState.RUNNING, "heir")

    def test_a_renewed_claim_does_not_expire(self, store: WholeStore, clock: ManualClock) -> None:
        store.save_task(task("t", step_id="w:a"))
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)

        clock.advance(4_000)
        assert store.renew_leases(["t"], "one", 5_000) == []
        clock.advance(4_000)

        assert store.requeue_expired_tasks() == []
        assert stored(store) == (TaskState.RUNNING, "one")

    def test_a_claim_without_a_lease_never_expires(self, store: WholeStore, clock: ManualClock) -> None:
        store.save_task(task("t", step_id="w:a"))
        store.save_task(task("deferred", step_id="w:b", created=1))
        store.claim_task(["shop.Pay"])
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)
        assert store.renew_leases(["deferred"], "one", 0) == []

        clock.advance(1_000_000_000)

        assert store.requeue_expired_tasks() == []

    def test_only_the_owner_renews_a_claim(self, store: WholeStore) -> None:
        store.save_task(task("t", step_id="w:a"))
        store.save_task(task("ended", state=TaskState.CANCELED))
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)

        assert store.renew_leases(["t", "ended", "unknown"], "two", 5_000) == ["t", "ended", "unknown"]
        assert store.renew_leases(["t", "ended"], "one", 5_000) == ["ended"]

    def test_only_the_owner_gives_a_task_back(self, store: WholeStore) -> None:
        store.save_task(task("t", step_id="w:a"))
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)

        assert not store.give_task_back("t", "two")
        assert not store.give_task_back("unknown", "one")
        assert stored(store) == (TaskState.RUNNING, "one")
        assert store.give_task_back("t", "one")
        assert stored(store) == (TaskState.PENDING, "")
        assert not store.give_task_back("t", "one")
        assert store.claim_task(["shop.Pay"], owner="two", lease_ms=5_000) is not None

    def test_only_the_owner_ends_a_task(self, store: WholeStore) -> None:
        store.save_task(task("t", step_id="w:a"))
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)

        assert not store.end_task("t", "two", TaskState.COMPLETED)
        assert store.end_task("t", "one", TaskState.FAILED, {"message": "broken"})
        assert not store.end_task("t", "one", TaskState.COMPLETED)

        found = store.get_task("t")
        assert found is not None
        assert (found.state, found.error) == (TaskState.FAILED, {"message": "broken"})

    def test_a_batch_ends_tasks_whoever_has_them(self, store: WholeStore, clock: ManualClock) -> None:
        for task_id in ("claimed", "pending", "failed", "ended"):
            store.save_task(task(task_id, step_id=f"w:{task_id}"))
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)
        ended = replace(task("ended", step_id="w:ended"), state=TaskState.IGNORED)
        store.save_task(ended)
        ends = [
            TaskEnd("claimed", TaskState.COMPLETED),
            TaskEnd("pending", TaskState.CANCELED),
            TaskEnd("failed", TaskState.FAILED, "broken"),
            TaskEnd("ended", TaskState.COMPLETED),
            TaskEnd("unknown", TaskState.COMPLETED),
        ]

        store.commit_batch(Batch(task_ends=ends, now_ms=clock.now_ms()))

        assert stored(store, "claimed")[0] == TaskState.COMPLETED
        assert stored(store, "pending")[0] == TaskState.CANCELED
        failed = store.get_task("failed")
        assert failed is not None
        assert (failed.state, failed.error) == (TaskState.FAILED, {"message": "broken"})
        assert store.get_task("ended") == ended
        assert store.get_task("unknown") is None
        clock.advance(10_000)
        assert store.requeue_expired_tasks() == []
        assert store.claim_task(["shop.Pay"]) is None

    def test_the_end_of_a_task_lets_the_next_one_of_its_step_run(self, store: WholeStore) -> None:
        store.save_task(task("first", step_id="w:a", created=1))
        store.save_task(task("second", step_id="w:a", created=2))
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)
        assert store.claim_task(["shop.Pay"]) is None

        store.commit_batch(Batch(task_ends=[TaskEnd("first", TaskState.COMPLETED)]))

        second = store.claim_task(["shop.Pay"])
        assert second is not None
        assert second.uuid == "second"

    def test_the_names_of_waiting_tasks_are_known(self, store: WholeStore) -> None:
        for task_id, name in (("a", "shop.Pay"), ("b", "shop.Ship"), ("c", "shop.Pay"), ("d", "x.Pay")):
            store.save_task(task(task_id, name=name))
        store.save_task(replace(task("e", name="x.Elsewhere"), task_list_name="special"))
        store.claim_task(["x.Pay"])

        assert sorted(store.pending_task_names()) == ["shop.Pay", "shop.Ship"]
        assert store.pending_task_names("special") == ["x.Elsewhere"]
        assert store.pending_task_names("none") == []

    def test_the_lock_of_a_task_is_a_view_of_its_lease(self, store: WholeStore, clock: ManualClock) -> None:
        store.save_task(task("t", step_id="w:a"))
        assert store.check_lock("runner:task:t") is None
        store.claim_task(["shop.Pay"], owner="one", lease_ms=5_000)

        lock = store.check_lock("runner:task:t")
        assert lock is not None
        assert lock.expires_at == clock.now_ms() + 5_000
        assert lock.meta is not None
        assert (lock.meta.topic, lock.meta.step_id) == ("shop.Pay", "w:a")
        assert not store.acquire_lock("runner:task:t", 1_000)
        assert store.extend_lock("runner:task:t", 8_000)
        clock.advance(7_999)
        assert store.requeue_expired_tasks() == []
        assert store.release_lock("runner:task:t")
        assert stored(store) == (TaskState.PENDING, "")

    def test_the_lock_of_a_waiting_task_is_a_claim_of_it(self, store: WholeStore, clock: ManualClock) -> None:
        store.save_task(task("t", step_id="w:a"))
        store.save_task(task("other", step_id="w:a", name="shop.Ship"))

        assert store.acquire_lock("runner:task:t", 5_000, LockMetaData(handler="one"))

        assert stored(store) == (TaskState.RUNNING, "one")
        assert store.claim_task(["shop.Pay"]) is None
        # One task of a step runs at a time.
        assert not store.acquire_lock("runner:task:other", 5_000)
        assert stored(store, "other") == (TaskState.PENDING, "")
        assert store.renew_leases(["t"], "one", 5_000) == []
        clock.advance(5_000)
        assert store.check_lock("runner:task:t") is None
        assert store.acquire_lock("runner:task:t", 5_000, LockMetaData(handler="heir"))
        assert stored(store) == (TaskState.RUNNING, "heir")
        assert store.release_lock("runner:task:t")
        assert stored(store) == (TaskState.PENDING, "")

    def test_a_task_that_somebody_has_for_ever_cannot_be_locked(self, store: WholeStore) -> None:
        store.save_task(task("t", step_id="w:a"))
        store.claim_task(["shop.Pay"])

        assert not store.acquire_lock("runner:task:t", 5_000)
        assert store.check_lock("runner:task:t") is None

    def test_of_many_who_take_over_one_gets_the_task(self, store: WholeStore, clock: ManualClock) -> None:
        for number in range(20):
            store.save_task(task(f"t{number}", step_id=f"w:{number}"))
            store.claim_task(["shop.Pay"], owner="dead", lease_ms=1_000)
        clock.advance(1_000)
        claimed: list[str] = []

        def work() -> None:
            store.requeue_expired_tasks()
            while (found := store.claim_task(["shop.Pay"], owner="heir", lease_ms=1_000)) is not None:
                claimed.append(found.uuid)

        in_threads(work, 4)

        assert sorted(claimed) == sorted(f"t{number}" for number in range(20))

    def test_leased_tasks_are_those_that_are_claimed_for_a_time(self, store: WholeStore, clock: ManualClock) -> None:
        for name in ("short", "long", "for ever", "waiting"):
            store.save_task(task(name, step_id=f"w:{name}"))
        for lease_ms in (1_000, 60_000, 0):
            store.claim_task(["shop.Pay"], owner="one", lease_ms=lease_ms)
        clock.advance(2_000)

        assert sorted(each.uuid for each in store.leased_tasks()) == ["long", "short"]

    def test_a_lock_from_before_the_clock_was_set_back_is_free(self, store: WholeStore, clock: ManualClock) -> None:
        assert store.acquire_lock("sweep", 10_000)

        clock.set_back(30_000)
        assert not store.acquire_lock("sweep", 10_000)
        clock.set_back(60_000)
        assert store.acquire_lock("sweep", 10_000)
        assert not store.acquire_lock("sweep", 10_000)
