"""Values of filters that no dead letter can have: told where the filters choose none, with those that may be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.core.text.near_names import close_names, did_you_mean
from afl_stream.commands.facet_names import no_topic_of

if TYPE_CHECKING:
    from afl_stream.commands.dlq.choosing import Choice
    from afl_stream.commands.invocation import Invocation
    from afl_stream.dead_letters import DeadLetters


def remark_on_unmatched(invocation: Invocation, letters: DeadLetters, choice: Choice) -> None:
    """Say which reason is none, which facet has no topic, and which run or step the store does not have."""
    terminal = invocation.terminal()
    if terminal.as_json:
        return
    for note in _notes_on_ids(invocation, letters, choice):
        terminal.remark(note)
    if not (choice.reasons or choice.facet):
        return
    from afl_stream.agent import metrics as agents
    from afl_stream.evaluator.monitoring import dead_letter_reasons as evaluators

    every = letters.find()
    # Releases, and subscribers, have reasons of their own.
    reasons = sorted({*evaluators.REASONS, *agents.REASONS, *(letter.reason for letter in every)})
    for reason in choice.reasons:
        if reason not in reasons:
            meant = did_you_mean(close_names(reason, reasons, 3))
            terminal.remark(f"no dead letter has a reason {reason}{f'; {meant}' if meant else ''}")
    if choice.facet:
        facets = sorted({*letters.facets(), *(letters.subject_of(letter).facet for letter in every)} - {""})
        if choice.facet not in facets:
            terminal.remark(no_topic_of(choice.facet, facets))


def _notes_on_ids(invocation: Invocation, letters: DeadLetters, choice: Choice) -> list[str]:
    """Return what the store does not have, unless a dead letter names it: it may be of a run that never began."""
    from afl_stream.commands.runs.unknown_ids import unknown_ids
    from afl_stream.dead_letters import LetterFilter

    wanted = LetterFilter(workflow_id=choice.workflow_id, step_id=choice.step_id)
    ids = [found for found in (choice.workflow_id, choice.step_id) if found]
    if not ids or letters.find(wanted):
        return []
    unknown = unknown_ids(invocation.settings(), letters.transport, ids)
    return list(dict.fromkeys(each.note for each in unknown))
