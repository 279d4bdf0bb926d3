"""The identity of every store. Inherit, and give a `store` fixture."""

from __future__ import annotations

from afl.engine.model.store_identity import MARKS_KEPT
from tests.contract.store_rows import WholeStore, in_threads, start


class IdentityContract:
    """An id of its own, and marks that tell it from its copies."""

    def test_a_new_store_has_an_id_and_no_marks(self, store: WholeStore) -> None:
        identity = store.identity()

        assert identity.id
        assert identity.marks == ()
        assert store.identity() == identity

    def test_its_work_leaves_the_identity_as_it_is(self, store: WholeStore) -> None:
        before = store.identity()
        start(store, "w")

        assert store.identity() == before

    def test_the_newest_marks_are_kept_in_order(self, store: WholeStore) -> None:
        marks = [f"mark{number}" for number in range(MARKS_KEPT + 2)]
        for mark in marks:
            store.add_mark(mark)

        assert store.identity().marks == tuple(marks[2:])

    def test_marks_that_are_set_at_the_same_time_are_all_there(self, store: WholeStore) -> None:
        marks = [f"mark{number}" for number in range(8)]
        waiting = marks.copy()
        in_threads(lambda: store.add_mark(waiting.pop()), len(marks))

        assert sorted(store.identity().marks) == marks

    def test_another_id_has_no_marks_of_the_one_before(self, store: WholeStore) -> None:
        store.add_mark("mark")
        before = store.identity()

        renewed = store.renew_identity()

        assert renewed.id != before.id
        assert renewed.marks == ()
        assert store.identity() == renewed

    def test_where_it_is_can_be_said(self, store: WholeStore) -> None:
        assert store.location()
        assert "secret" not in store.location()
