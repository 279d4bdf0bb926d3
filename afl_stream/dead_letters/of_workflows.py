"""The dead letters of one run, by step: refused answers, events that no agent could handle, refused commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from afl_stream.dead_letters.desk import DeadLetters
from afl_stream.dead_letters.letters import DeadLetter, LetterFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowLetters:
    """The dead letters of one run, each list from the oldest to the newest.

    `by_step` has those that name a step: answers and events. `others` are commands and external events, and records
    whose key names the run and that say no more.
    """

    workflow_id: str
    by_step: Mapping[str, tuple[DeadLetter, ...]] = field(default_factory=dict)
    others: tuple[DeadLetter, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.by_step or self.others)


def letters_of_workflow(
    letters: DeadLetters, workflow_id: str, *, since_ms: int | None = None, with_dropped: bool = False
) -> WorkflowLetters:
    """Return the dead letters of a run. `since_ms`, the start of the run, spares reading what is older.

    Replayed letters are among them: `DeadLetter.is_replayed` says so. Raises what `DeadLetters.find` does.
    """
    chosen = LetterFilter(workflow_id=workflow_id, since_ms=since_ms, dropped=None if with_dropped else False)
    by_step: dict[str, list[DeadLetter]] = {}
    others: list[DeadLetter] = []
    for letter in letters.find(chosen):
        step_id = letters.subject_of(letter).step_id
        (by_step.setdefault(step_id, []) if step_id else others).append(letter)
    return WorkflowLetters(
        workflow_id=workflow_id,
        by_step={step_id: tuple(found) for step_id, found in by_step.items()},
        others=tuple(others),
    )
