"""The number of records in a batch: fewer after slow ones, more after quick full ones, within its bounds."""

from afl_stream.evaluator.batches.batch_size import BatchSize


def test_the_first_batch_may_have_as_many_as_allowed() -> None:
    assert BatchSize(500, 0.1).records == 500


def test_a_slow_batch_is_followed_by_one_that_fits_the_time() -> None:
    size = BatchSize(500, 0.1)

    size.took(500, 0.125)

    assert size.records == 400


def test_one_very_slow_batch_halves_the_next_and_no_more() -> None:
    size = BatchSize(500, 0.1)

    size.took(500, 30.0)

    assert size.records == 250


def test_a_batch_that_was_slow_though_small_counts_too() -> None:
    size = BatchSize(500, 0.1)

    size.took(300, 0.15)

    assert size.records == 250


def test_however_slow_batches_are_fifty_records_are_taken_at_once() -> None:
    size = BatchSize(500, 0.1)

    for _ in range(20):
        size.took(size.records, 9.0)

    assert size.records == 50


def test_quick_full_batches_grow_up_to_the_bound() -> None:
    size = BatchSize(500, 0.1)
    size.took(500, 0.2)
    assert size.records == 250

    size.took(250, 0.04)
    size.took(500, 0.01)

    assert size.records == 500


def test_a_quick_batch_that_was_not_full_says_nothing() -> None:
    size = BatchSize(500, 0.1)
    size.took(500, 0.2)

    size.took(3, 0.001)

    assert size.records == 250


def test_a_bound_below_fifty_is_kept() -> None:
    size = BatchSize(7, 0.1)

    size.took(7, 0.5)
    assert size.records == 7

    size.took(7, 0.001)
    assert size.records == 7


def test_what_workflows_take_without_records_is_taken_from_the_records_time() -> None:
    size = BatchSize(500, 0.1)

    size.took(500, 0.125, turns_s=0.025)

    assert size.records == 375


def test_records_keep_half_of_the_time_however_long_workflows_take_without_any() -> None:
    size = BatchSize(500, 0.1)

    size.took(500, 9.0625, turns_s=9.0)
    assert size.records == 400

    size.took(400, 9.02, turns_s=9.0)
    assert size.records == 500


def test_a_batch_without_records_says_nothing_of_them() -> None:
    size = BatchSize(500, 0.1)

    size.took(0, 9.0, turns_s=1.0)

    assert size.records == 500
