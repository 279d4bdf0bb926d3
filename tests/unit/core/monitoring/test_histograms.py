"""Histograms count observations by size and label."""

from afl.core.monitoring.histograms import Histogram
from afl.core.monitoring.metrics import Distribution, histogram

SECONDS = histogram("afl_some_seconds", "some", "facet")


def test_each_observation_is_in_the_first_bucket_that_is_large_enough() -> None:
    found = Histogram(SECONDS, (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 1.0, 7.0):
        found.observe(value, "shop.Pay")

    assert found.family().values == {("shop.Pay",): Distribution((0.1, 1.0), (2, 2, 1), 0.05 + 0.1 + 0.5 + 1.0 + 7.0)}


def test_each_label_is_counted_on_its_own() -> None:
    found = Histogram(SECONDS, (1.0,))
    found.observe_all([(0.5, "a"), (2.0, "b"), (3.0, "b")])

    values = found.family().values
    assert values["a",] == Distribution((1.0,), (1, 0), 0.5)
    assert values["b",] == Distribution((1.0,), (0, 2), 5.0)


def test_a_metric_without_labels_has_one_distribution() -> None:
    found = Histogram(histogram("afl_other_seconds", "other"), (1.0,))
    found.observe(0.5)

    assert list(found.family().values) == [()]
