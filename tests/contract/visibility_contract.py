"""Searches over workflows do the same in every store. Inherit, and give a `store` fixture."""

from __future__ import annotations

from typing import Any, Final

import pytest

from afl.engine.model.store import (
    COMPLETED,
    ERROR,
    PAUSED,
    Batch,
    ErrorRecord,
    ProgramUse,
    RunningChange,
    WorkflowFilter,
    WorkflowPlace,
    WorkflowRow,
)
from tests.contract.store_rows import WholeStore, change, step_document, workflow_row

#: An error whose text has what searches in documents may trip over: quotes, wildcards, a line's end, other letters.
AWKWARD: Final = 'card "50%_off"\nrefused: größe'


def put(store: WholeStore, workflow_id: str, at_ms: int, *facets: str, **fields: Any) -> WorkflowRow:
    """Write a workflow that was created at that time, with a step for each facet."""
    row = workflow_row(workflow_id, created_at_ms=at_ms)._replace(**fields)
    steps = [
        step_document(f"{workflow_id}:{number}", number=number)._replace(facet_name=facet)
        for number, facet in enumerate(facets)
    ]
    store.commit_batch(Batch(changes=[change(row, *steps)]))
    return row


def found(store: WholeStore, limit: int = 100, after: WorkflowPlace | None = None, **wanted: Any) -> list[str]:
    """Return the ids of what is found, in order."""
    return [row.id for row in store.find_workflows(WorkflowFilter(**wanted), after=after, limit=limit)]


class VisibilityContract:
    """What every store finds."""

    @pytest.fixture
    def shop(self, store: WholeStore) -> WholeStore:
        """Three workflows of three names, statuses, programs and times."""
        error = ErrorRecord("Declined", AWKWARD, "b:0", "shop.Checkout.pay", "shop.Pay", 7)
        outputs = {"text": 'Declined "p2",'}
        lines = {"order": 170, "lines": [1, {"x": None}]}
        put(store, "a", 1_000, "shop.Pay", "shop.Ship", status=PAUSED, program="p1", inputs={"order": 17, "vip": True})
        put(store, "b", 2_000, "shop.Pay", name="shop.Refund", status=ERROR, program="p2", error=error,
            inputs={"order": "17"})  # fmt: skip
        put(store, "c", 3_000, status=COMPLETED, program="p1", inputs=lines, outputs=outputs, ended_at_ms=4_000)
        return store

    def test_without_a_filter_all_are_found_newest_first(self, shop: WholeStore) -> None:
        assert found(shop) == ["c", "b", "a"]

    def test_what_is_found_is_the_whole_row(self, shop: WholeStore) -> None:
        assert shop.find_workflows(WorkflowFilter()) == [shop.load_workflow(one) for one in ("c", "b", "a")]

    @pytest.mark.parametrize(
        ("wanted", "ids"),
        [
            ({"statuses": [ERROR]}, ["b"]),
            ({"statuses": [PAUSED, COMPLETED]}, ["c", "a"]),
            ({"names": ["shop.Checkout"]}, ["c", "a"]),
            ({"names": ["shop.Refund", "shop.Nothing"]}, ["b"]),
            ({"programs": ["p2"]}, ["b"]),
            ({"programs": ["p1", "p3"]}, ["c", "a"]),
            ({"since_ms": 2_000}, ["c", "b"]),
            ({"before_ms": 2_000}, ["a"]),
            ({"since_ms": 2_000, "before_ms": 3_000}, ["b"]),
            ({"statuses": [PAUSED], "names": ["shop.Refund"]}, []),
        ],
    )
    def test_a_filter_finds_what_fits(self, shop: WholeStore, wanted: dict[str, Any], ids: list[str]) -> None:
        assert found(shop, **wanted) == ids

    @pytest.mark.parametrize(
        ("text", "ids"),
        [
            ("Declined", ["b"]),
            ("declINED", ["b"]),
            ('"50%_off"', ["b"]),
            ("5__", []),
            ("%", ["b"]),
            ("\nrefused", ["b"]),
            ("größe", ["b"]),
            ("shop.Checkout.pay", ["b"]),
            ("p2", []),
            ("\\", []),
        ],
    )
    def test_an_error_is_found_by_a_part_of_its_text(self, shop: WholeStore, text: str, ids: list[str]) -> None:
        assert found(shop, error_text=text) == ids

    @pytest.mark.parametrize(
        ("inputs", "ids"),
        [
            ({"order": [17]}, ["a"]),
            ({"order": [17.0]}, ["a"]),
            ({"order": ["17"]}, ["b"]),
            ({"order": ["17", 17]}, ["b", "a"]),
            ({"vip": [True]}, ["a"]),
            ({"vip": [1]}, []),
            ({"lines": [[1, {"x": None}]]}, ["c"]),
            ({"lines": [[1]]}, []),
            ({"order": [17], "vip": [True]}, ["a"]),
            ({"order": [17], "vip": [False]}, []),
            ({"amount": [17]}, []),
        ],
    )
    def test_an_input_is_found_by_its_value(self, shop: WholeStore, inputs: dict[str, Any], ids: list[str]) -> None:
        assert found(shop, inputs=inputs) == ids

    def test_a_facet_finds_the_workflows_with_a_step_that_calls_it(self, shop: WholeStore) -> None:
        put(shop, "d", 4_000, "shop.PayLater", "shop", inputs={"facet": "shop.Ship"})

        assert found(shop, facets=["shop.Pay"]) == ["b", "a"]
        assert found(shop, facets=["shop.Ship", "shop.PayLater"]) == ["d", "a"]
        assert found(shop, facets=["shop.Pay"], statuses=[ERROR]) == ["b"]

    def test_a_value_that_is_a_facets_name_is_not_a_call(self, store: WholeStore) -> None:
        row = workflow_row("w")
        listed = step_document("w:0", params={"names": ["x", "shop.Ship", "y"]})
        store.commit_batch(Batch(changes=[change(row, listed)]))

        assert found(store, facets=["shop.Ship"]) == []

    def test_pages_follow_each_other_and_give_each_workflow_once(self, store: WholeStore) -> None:
        for number in range(7):
            put(store, f"w{number}", 1_000 + number // 3, "shop.Pay", inputs={"n": number % 2})

        for wanted in ({}, {"inputs": {"n": [0]}}, {"facets": ["shop.Pay"]}, {"before_ms": 1_002}, {"since_ms": 1_001}):
            whole = found(store, **wanted)
            pages, after = [], None
            while page := store.find_workflows(WorkflowFilter(**wanted), after=after, limit=2):
                pages += [row.id for row in page]
                after = WorkflowPlace.of(page[-1])
            assert pages == whole

        assert found(store) == ["w6", "w5", "w4", "w3", "w2", "w1", "w0"]

    def test_many_that_do_not_fit_hide_none_that_does(self, store: WholeStore) -> None:
        # More than any store reads at once, all alike to a search of texts: 1 begins each of their values.
        rows = [workflow_row(f"w{n:04}", created_at_ms=n)._replace(inputs={"n": 1_000 + n}) for n in range(1_200)]
        rows.append(workflow_row("first", created_at_ms=0)._replace(inputs={"n": 1}))
        store.commit_batch(Batch(changes=[change(row) for row in rows]))

        assert found(store, inputs={"n": [1]}, limit=1) == ["first"]

    def test_uses_of_programs_are_counted_by_name_and_status(self, shop: WholeStore) -> None:
        put(shop, "d", 9_000, status=COMPLETED, program="p1")

        assert sorted(shop.program_uses()) == [
            ProgramUse("p1", "shop.Checkout", COMPLETED, 2, 3_000, 9_000),
            ProgramUse("p1", "shop.Checkout", PAUSED, 1, 1_000, 1_000),
            ProgramUse("p2", "shop.Refund", ERROR, 1, 2_000, 2_000),
        ]

    def test_the_kept_programs_are_listed(self, store: WholeStore) -> None:
        store.commit_batch(Batch(programs={"p1": b"{}", "p2": b"{}"}))

        assert sorted(store.program_fingerprints()) == ["p1", "p2"]

    def test_a_workflow_that_goes_on_is_found_in_its_new_status(self, shop: WholeStore) -> None:
        row = shop.load_workflow("a")
        assert row is not None
        goes_on = RunningChange(row, 1, True, (), 5, 6, 7_000, True)
        shop.commit_batch(Batch(changes=[goes_on]))

        assert found(shop, statuses=[PAUSED]) == []
        (moved,) = shop.find_workflows(WorkflowFilter(programs=["p1"], inputs={"order": [17]}))
        assert (moved.status, moved.steps, moved.updated_at_ms) == ("RUNNING", 5, 7_000)

    def test_what_a_caller_does_with_a_found_row_changes_nothing(self, shop: WholeStore) -> None:
        (row,) = shop.find_workflows(WorkflowFilter(inputs={"vip": [True]}))
        assert isinstance(row.inputs, dict)
        row.inputs["vip"] = False

        assert found(shop, inputs={"vip": [True]}) == ["a"]
