"""Dead letters of a deployment: what they say, how their records are sent again, and how letters are dropped."""

from __future__ import annotations

from afl_stream.dead_letters.desk import DeadLetters, Dropped, NoSuchLetter, Replayed
from afl_stream.dead_letters.letters import BadPlace, DeadLetter, Hop, LetterFilter, LetterPlace, LetterSubject
from afl_stream.dead_letters.of_workflows import WorkflowLetters, letters_of_workflow
from afl_stream.dead_letters.replays import NotReplayable, NotSent

__all__ = [
    "BadPlace",
    "DeadLetter",
    "DeadLetters",
    "Dropped",
    "Hop",
    "LetterFilter",
    "LetterPlace",
    "LetterSubject",
    "NoSuchLetter",
    "NotReplayable",
    "NotSent",
    "Replayed",
    "WorkflowLetters",
    "letters_of_workflow",
]

#: The modules that other packages import.
PUBLIC_MODULES = ("desk", "letters")
