"""The memory store keeps the contract, and what is its own."""

from __future__ import annotations

import pytest

from afl.core.clock import ManualClock
from afl.engine.model.entities import TaskState
from afl.engine.model.store import Batch
from afl.stores.memory.store import MemoryStore
from tests.contract.public_face_contract import PublicFaceContract
from tests.contract.store_contract import StoreContract
from tests.contract.store_rows import WholeStore, outbox_record, public_step, start, step_document, task
from tests.contract.visibility_contract import VisibilityContract
from tests.contract.waiting_contract import WaitingContract


class TestMemoryStore(StoreContract, PublicFaceContract, VisibilityContract, WaitingContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> WholeStore:
        return MemoryStore(clock=clock)


def test_the_newest_state_of_a_task_is_seen_in_the_stores_own_map() -> None:
    store = MemoryStore()
    store.save_task(task("t"))

    store.claim_task(["shop.Pay"])

    assert store._tasks["t"].state == TaskState.RUNNING


def test_a_cleared_store_is_empty_but_numbers_continue() -> None:
    store = MemoryStore("tenant.")
    start(store, "w", step_document("w:a"))
    store.save_step(public_step())
    store.save_task(task("t"))
    store.acquire_lock("k", 100)
    first = store.commit_batch(Batch(outbox=[outbox_record("a")]))

    store.clear()

    assert (store.step_count(), store.event_count(), store.outbox(), store.get_all_locks()) == (0, 0, [], [])
    assert store.load_workflow("w") is None
    assert store.claim_task(["shop.Pay"]) is None
    assert store.commit_batch(Batch(outbox=[outbox_record("b")])) == first + 1
    assert store.prefix() == "tenant."


def test_documents_are_kept_as_they_are() -> None:
    store = MemoryStore()
    document = step_document("w:a")
    start(store, "w", document)

    assert store.load_steps("w")[0] is document


def test_expired_locks_are_listed_until_they_are_looked_at() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    store.acquire_lock("k", 10)
    clock.advance(10)

    assert [lock.key for lock in store.get_all_locks()] == ["k"]
    assert store.check_lock("k") is None
    assert store.get_all_locks() == []
