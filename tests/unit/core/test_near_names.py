"""Names that resemble a wanted one: which ones, how many, and how alike they have to be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from afl.core.text.near_names import close_names, most_alike


@pytest.mark.parametrize(
    ("wanted", "max_names", "min_likeness", "found"),
    [
        # Likeness: twice the characters in common, by the characters of both.
        ("retyr", 1, 0.8, ["retry"]),  # 2 * 4 / 10
        ("retyr", 1, 0.81, []),
        ("re", 3, 0.5, ["retry", "rerun", "reset"]),  # 2 * 2 / 7, each of them
        ("re", 3, 0.6, []),
        ("reset", 1, 1.0, ["reset"]),
        ("", 3, 0.1, []),
    ],
)
def test_close_names_are_those_with_the_likeness(
    wanted: str, max_names: int, min_likeness: float, found: list[str]
) -> None:
    names = iter(["retry", "rerun", "reset"])

    assert sorted(close_names(wanted, names, max_names, min_likeness)) == sorted(found)


def test_one_name_is_given_unless_more_are_asked_for() -> None:
    assert close_names("retr", ["retry", "retro"]) in (["retry"], ["retro"])
    assert sorted(close_names("retr", ["retry", "retro"], 2)) == ["retro", "retry"]


def test_a_better_name_comes_first() -> None:
    assert close_names("charge", ["chargers", "charges"], 2) == ["charges", "chargers"]


@pytest.mark.parametrize(
    ("wanted", "min_likeness", "found"),
    [
        ("shop.Chrage", 0.83, "billing.Charge"),  # the last parts: 2 * 5 / 12
        ("shop.Chrage", 0.84, None),
        ("billing.Refund", 0.83, None),  # alike in the namespace only
    ],
)
def test_the_last_parts_decide_which_name_is_most_alike(wanted: str, min_likeness: float, found: str | None) -> None:
    assert most_alike(wanted, ["billing.Ship", "billing.Charge"], min_likeness) == found


def test_the_first_of_two_names_that_are_equally_alike_is_taken() -> None:
    assert most_alike("Charge", ["a.Charges", "b.Charges"], 0.8) == "a.Charges"


def test_a_correct_program_does_not_load_what_compares_names() -> None:
    text = "import sys, afl.compiler, afl_stream.settings.config; print('difflib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert run.stdout == "False\n"
