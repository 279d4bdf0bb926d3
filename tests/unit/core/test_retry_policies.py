"""Retry policies: which errors are worth another try, how long it is waited for, and policies as texts."""

from decimal import InvalidOperation
from subprocess import TimeoutExpired

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.core.handlers.retry import BadRetryPolicy, RetryPolicy


class Declined(ConnectionError):
    """An error of this test's own."""


HERE = Declined.__module__


@pytest.mark.parametrize(
    ("policy", "again", "never"),
    [
        ({}, ValueError(), SystemExit()),
        ({"retry_on": (OSError,)}, Declined(), ValueError()),
        ({"retry_on": ("OSError", "builtins.ValueError")}, ValueError(), KeyError()),
        ({"retry_on": ("subprocess.SubprocessError",)}, TimeoutExpired("x", 1), TimeoutError()),
        ({"not_on": (ConnectionError,)}, OSError(), Declined()),
        ({"retry_on": ("OSError",), "not_on": (f"{HERE}.Declined",)}, ConnectionError(), Declined()),
        ({"not_on": ("ArithmeticError",)}, ValueError(), InvalidOperation()),
    ],
)
def test_errors_are_chosen_by_class_or_by_name_and_subclasses_are_meant_too(
    policy: dict[str, object], again: Exception, never: BaseException
) -> None:
    made = RetryPolicy(max_attempts=9, **policy)  # type: ignore[arg-type]  # fields of the table

    assert made.wait_s(1, again) == 1.0
    assert made.wait_s(1, never) is None


def test_the_last_attempt_has_no_wait_after_it() -> None:
    policy = RetryPolicy(max_attempts=3, jitter=1.0)

    assert policy.wait_s(2, ValueError()) is not None
    assert policy.wait_s(3, ValueError()) is None


@given(jitter=st.floats(0, 1), tries=st.integers(1, 50))
def test_jitter_shortens_a_wait_by_its_part_at_most(jitter: float, tries: int) -> None:
    whole = RetryPolicy(max_attempts=99).wait_s(tries, ValueError())
    drawn = RetryPolicy(max_attempts=99, jitter=jitter).wait_s(tries, ValueError())

    assert whole is not None
    assert drawn is not None
    assert whole * (1 - jitter) - 1e-9 <= drawn <= whole


def test_waits_with_jitter_differ() -> None:
    policy = RetryPolicy(max_attempts=99, jitter=0.5)

    assert len({policy.wait_s(1, ValueError()) for _ in range(20)}) > 1


def test_a_text_says_all_that_a_policy_has() -> None:
    text = "attempts=5, backoff=0.5,factor=3,max=30, jitter=0.2, on=ConnectionError|shop.cards.Busy, not=KeyError"

    assert RetryPolicy.parse(text) == RetryPolicy(
        max_attempts=5,
        backoff_s=0.5,
        factor=3.0,
        max_backoff_s=30.0,
        jitter=0.2,
        retry_on=("ConnectionError", "shop.cards.Busy"),
        not_on=("KeyError",),
    )
    assert RetryPolicy.parse("attempts=2") == RetryPolicy(max_attempts=2)


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(max_attempts=1),
        RetryPolicy(max_attempts=7, backoff_s=0.25, factor=1.5, max_backoff_s=9, jitter=0.125, retry_on=("A", "b.C")),
        RetryPolicy(max_attempts=2, not_on=("x.Y",)),
    ],
)
def test_a_policy_of_names_is_what_its_text_says(policy: RetryPolicy) -> None:
    back = RetryPolicy.parse(str(policy))

    assert str(back) == str(policy)
    assert back.wait_s(1, ValueError()) == policy.wait_s(1, ValueError()) or policy.jitter


def test_a_class_in_a_policys_text_is_named_with_its_module() -> None:
    assert "on=OSError|" in str(RetryPolicy(max_attempts=2, retry_on=(OSError, Declined)))
    assert RetryPolicy.parse(str(RetryPolicy(max_attempts=2, retry_on=(Declined,)))).wait_s(1, Declined()) == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text: found '', expected at least attempts=NUMBER"),
        ("backoff=1", "expected at least attempts=NUMBER"),
        ("attempts", "text: found 'attempts', expected NAME=VALUE of attempts, backoff, factor, max, jitter, on, not"),
        ("tries=3", "found 'tries=3', expected NAME=VALUE"),
        ("attempts=x", "attempts: found 'x', expected a number, 1 or more"),
        ("attempts=0", "max_attempts: found 0, expected 1 or more, the first try included"),
        ("attempts=2, backoff=-1", "backoff_s: found -1.0, expected seconds, 0 or more"),
        ("attempts=2, max=inf", "max_backoff_s: found inf, expected seconds, 0 or more"),
        ("attempts=2, factor=0.5", "factor: found 0.5, expected 1 or more"),
        ("attempts=2, jitter=1.5", "jitter: found 1.5, expected a part of the wait, 0 to 1"),
        ("attempts=2, on=a b", "on: found 'a b', expected names of exception classes, separated by |"),
        ("attempts=2, not=", "not: found '', expected names of exception classes"),
    ],
)
def test_a_text_that_is_no_policy_is_refused_with_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(BadRetryPolicy) as refused:
        RetryPolicy.parse(text)

    assert message in str(refused.value)
