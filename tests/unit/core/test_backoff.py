"""Waits between attempts: each longer than the one before, up to a bound."""

import pytest

from afl.core.backoff import Backoff, FailedAttempts
from afl_stream import RetryPolicy


def test_each_wait_is_twice_the_one_before_up_to_the_longest() -> None:
    backoff = Backoff(first_s=0.1, longest_s=5.0)

    assert [backoff.wait_s(failures) for failures in range(1, 10)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_a_success_begins_again_with_the_first_wait() -> None:
    attempts = FailedAttempts(Backoff(first_s=1, longest_s=60, factor=3))
    before = [attempts.next_wait_s() for _ in range(3)]

    attempts.reset()

    assert (before, attempts.next_wait_s(), attempts.count) == ([1, 3, 9], 1, 1)


@pytest.mark.parametrize(("first_s", "wait_s"), [(0.05, 5.0), (0.0, 0.0)])
def test_no_number_of_failures_is_too_large(first_s: float, wait_s: float) -> None:
    backoff = Backoff(first_s=first_s, longest_s=5.0)

    assert [backoff.wait_s(failures) for failures in (1_000, 1_025, 10**6)] == [wait_s] * 3


def test_a_factor_of_one_waits_the_same_each_time() -> None:
    assert {Backoff(2.0, 60.0, factor=1.0).wait_s(failures) for failures in (1, 7, 10**6)} == {2.0}


def test_a_retry_policy_of_many_attempts_still_tries_after_a_thousand() -> None:
    policy = RetryPolicy(max_attempts=5_000, backoff_s=1.0, max_backoff_s=30.0)

    assert policy.wait_s(2_000, ValueError()) == 30.0
