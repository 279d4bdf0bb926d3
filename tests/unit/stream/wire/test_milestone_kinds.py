"""Documents name the kinds of milestones that there are, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from afl_stream.evaluator.outcomes import Outcome
from afl_stream.wire import command_answers, milestone_kinds
from afl_stream.wire.messages import CONTINUED

ROOT = Path(__file__).parents[4]
_KIND = re.compile(r"\b(?:workflow|step|command|event|answer)\.[a-z_]+\b")


def kinds_of(module: object) -> set[str]:
    return {value for value in vars(module).values() if isinstance(value, str) and _KIND.fullmatch(value)}


KINDS = kinds_of(milestone_kinds) | kinds_of(command_answers) | {CONTINUED, *(f"answer.{o}" for o in Outcome)}


def test_the_schema_names_kinds_that_there_are() -> None:
    named = set(_KIND.findall((ROOT / "schemas" / "lifecycle.avsc").read_text()))

    assert len(named) >= 3
    assert named <= KINDS


def test_the_page_lists_every_milestone_of_runs_and_steps_and_no_other() -> None:
    page = (ROOT / "docs" / "lifecycle.md").read_text().partition("## Milestones")[2].partition("\n\nThe last three")[0]
    listed = {kind for line in page.splitlines() for kind in _KIND.findall(line.split("|")[1] if "|" in line else "")}

    assert listed == kinds_of(milestone_kinds) | {CONTINUED}
