"""A poller's messages about handlers whose names are nearly those of facets whose tasks wait."""

import difflib

import pytest

from afl.workers.misspelt_handlers import MisspeltHandlers


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_facet_is_told_once_with_the_handler_that_is_most_like_it(caplog: pytest.LogCaptureFixture) -> None:
    typos = MisspeltHandlers()

    for _ in range(3):
        typos.look(["bank.Transferss", "bank.Transferr", "bank.Tranfer"], ["bank.Transfer"])

    assert told(caplog) == [
        "a handler is registered for bank.Transferr, which has no task, while a task of bank.Transfer waits; "
        "did you mean bank.Transfer?"
    ]


def test_two_letters_that_changed_places_are_told(caplog: pytest.LogCaptureFixture) -> None:
    MisspeltHandlers().look(["orders.Chrage"], ["orders.Charge"])

    assert len(told(caplog)) == 1


@pytest.mark.parametrize(
    ("handler", "facet"),
    [
        ("etl.Load1", "etl.Load2"),
        ("etl.Load1", "etl.Load12"),
        ("v1.Load", "v2.Load"),
        ("etl.Deploy", "etl.Destroy"),
        ("etl.LoadOrders", "etl.LoadUsers"),
    ],
)
def test_names_of_a_series_and_those_of_other_things_are_no_typos(
    caplog: pytest.LogCaptureFixture, handler: str, facet: str
) -> None:
    MisspeltHandlers().look([handler], [facet])

    assert told(caplog) == []


def test_many_names_that_are_alike_are_told_five_times_in_all(caplog: pytest.LogCaptureFixture) -> None:
    letters = "abcdefghijklmnopqrst"
    typos = MisspeltHandlers()

    for _ in range(10):
        typos.look([f"etl.HandleOrder{one}" for one in letters], [f"etl.HandleOrders{one}" for one in letters * 4])

    assert len(told(caplog)) == 5
    assert len(set(told(caplog))) == 5


def test_a_poll_compares_a_thousand_pairs_and_the_next_ones_the_rest(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    class Counting(difflib.SequenceMatcher[str]):
        def set_seq1(self, a: object) -> None:
            nonlocal compared
            compared += 1
            super().set_seq1(a)  # type: ignore[arg-type]

    monkeypatch.setattr(difflib, "SequenceMatcher", Counting)
    letters = "abcdefghijklmnopqrstuvwxyz"
    handlers = [f"a.{one}{two}Handler" for one in letters for two in letters[:11]]
    facets = [f"b.Quite{one}Other{two}Things{three}" for one in letters for two in letters for three in "xyz"][:900]
    typos = MisspeltHandlers()

    counts = []
    for _ in range(400):
        before = compared
        typos.look(handlers, [*facets, "a.aaHandlers"])
        counts.append(compared - before)

    assert max(counts) <= 1_000
    assert len(told(caplog)) == 1
    assert counts[-1] == 0
