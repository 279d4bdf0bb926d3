"""Outcomes of a control record, as a table: the first row whose condition holds decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from afl.engine.execution.execution import Execution
from afl.engine.execution.timers import TIMEOUT
from afl.engine.model.records import StepRecord
from afl.engine.model.store import ErrorRecord
from afl.engine.states import EventState


class Outcome(StrEnum):
    """The outcome of a record on control, commands or external."""

    #: The step moved on, or its partial result was stored.
    APPLIED = "applied"
    #: Already answered, or already started in just this way: nothing happens, counted. The first one wins.
    DUPLICATE = "duplicate"
    #: For an older attempt of the step, or one whose deadline has passed: recorded for subscribers.
    SUPERSEDED = "superseded"
    #: The workflow has ended: recorded for subscribers.
    LATE = "late"
    #: The workflow is known, the step has not sent this event yet: parked.
    EARLY = "early"
    #: Nothing is known of the workflow: parked, it may be about to start.
    UNKNOWN = "unknown"
    #: An external event that waits for a step, or for its workflow: in the store.
    QUEUED = "queued"
    #: The answer token is missing or wrong: dead-lettered.
    REFUSED = "refused"
    #: It came too early, and no more of those are kept: dead-lettered.
    SURPLUS = "surplus"
    #: The record cannot be read, or is not for this topic: dead-lettered.
    UNREADABLE = "unreadable"
    #: Written under a key that is not its workflow's: goes on to the partition, and the evaluator, of its workflow.
    FORWARDED = "forwarded"
    #: A command that cannot be carried out: dead-lettered, and answered on the lifecycle topic.
    REJECTED = "rejected"


#: States of an event whose answer is waited for: most answers find their step in one of them.
ASKED = frozenset({EventState.CREATED, EventState.DISPATCHED, EventState.PROCESSING})
#: Outcomes that keep the record in the store until its step or workflow appears.
PARKED = frozenset({Outcome.EARLY, Outcome.UNKNOWN})
#: Outcomes that subscribers of the lifecycle topic learn of.
RECORDED = frozenset({Outcome.SUPERSEDED, Outcome.LATE})


class Case(NamedTuple):
    """An answer, and what is known of its workflow and step."""

    execution: Execution | None
    step: StepRecord | None
    #: None: the answer names no attempt, and is for the current one.
    attempt: int | None
    #: Whether the token, where tokens are on, is the one that the event carried.
    token_is_right: bool = True
    #: The workflow had ended and was purged: there is no execution any more.
    is_purged: bool = False
    #: The step was run again since, as another.
    is_run_again: bool = False

    @property
    def is_answered(self) -> bool:
        """Return whether this very attempt already has its answer, after which there may be a further attempt."""
        step = self.step
        if step is None or self.attempt not in (None, step.attempt):
            return False
        if step.event_state in ASKED:
            return False
        if step.event_state in (EventState.COMPLETED, EventState.ERROR):
            return True
        failure = _failure_before_next(step)
        return failure is not None and failure.type != TIMEOUT

    @property
    def is_expired(self) -> bool:
        """Return whether this very attempt had no answer before its deadline."""
        step = self.step
        if step is None or step.event_state in ASKED or self.attempt not in (None, step.attempt):
            return False
        failure = _failure_before_next(step)
        return step.event_state == EventState.EXPIRED or (failure is not None and failure.type == TIMEOUT)

    def done_twice(self, group: str | None) -> tuple[str, tuple[str, str]] | None:
        """Return the facet and the two groups that answer it, if another group than the duplicate's has answered.

        All work is done twice then. A duplicate from the same group is a redelivery.
        """
        step = self.step
        if step is None or step.facet is None or not step.answered_by or not group or group == step.answered_by:
            return None
        return step.facet.name, (step.answered_by, group)

    @property
    def is_sent(self) -> bool:
        """Return whether the step has sent the event of this attempt, or a later one."""
        step = self.step
        # A step whose event could not be sent has an attempt, and no event.
        return step is not None and bool(step.event_state) and (self.attempt or 1) <= step.attempt


def _failure_before_next(step: StepRecord) -> ErrorRecord | None:
    """Return the failure of a step's last attempt while it has not sent its next event; None at any other time."""
    if step.retry is None or step.event_state not in ("", EventState.RETRYING):
        return None
    return step.retry.error


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: this outcome, if the condition holds."""

    outcome: Outcome
    when: Callable[[Case], bool]
    meaning: str


#: In this order; the last row takes the rest.
ANSWER_RULES: tuple[Rule, ...] = (
    Rule(Outcome.LATE, lambda c: c.is_purged, "the workflow has ended, and was purged since"),
    Rule(Outcome.UNKNOWN, lambda c: c.execution is None, "no workflow of this id is in the store"),
    Rule(Outcome.REFUSED, lambda c: not c.token_is_right, "the answer token is missing or wrong"),
    Rule(Outcome.DUPLICATE, lambda c: c.is_answered, "this attempt has been answered: the first answer won"),
    Rule(
        Outcome.SUPERSEDED,
        lambda c: (
            c.is_run_again
            or c.is_expired
            or (c.step is not None and c.attempt is not None and c.attempt < c.step.attempt)
        ),
        "the step has been asked again since, or this attempt's deadline has passed: only the current attempt counts",
    ),
    Rule(
        Outcome.LATE,
        lambda c: c.execution is not None and c.execution.is_ended,
        "the workflow has ended and waits for no answer",
    ),
    Rule(Outcome.EARLY, lambda c: not c.is_sent, "the step has not sent this event yet"),
    Rule(Outcome.APPLIED, lambda _: True, "the step waits for just this answer"),
)

#: The meaning of each outcome of an answer, for people.
MEANINGS: Mapping[Outcome, str] = {
    **{rule.outcome: rule.meaning for rule in ANSWER_RULES},
    Outcome.SURPLUS: "the step has not sent this event yet, and no more answers are parked",
}


def judge(case: Case) -> Outcome:
    """Return the outcome of the answer."""
    for rule in ANSWER_RULES:
        if rule.when(case):
            return rule.outcome
    raise AssertionError("the last row takes the rest")
