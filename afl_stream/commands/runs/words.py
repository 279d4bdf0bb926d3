"""Words of the commands that look back: what an answer was, and exact times."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from afl_stream.visibility.records import Answer

_SAID: Final = {"continue": "answered", "fail": "failed", "update": "reported"}


def said_of(answer: Answer) -> str:
    """Return what an answer was, in a word."""
    return "refused" if answer.refused else _SAID.get(answer.answer, answer.answer)


def exact_time(at_ms: int) -> str:
    """Return a local time with its milliseconds, so that records of one second are told apart."""
    return datetime.fromtimestamp(at_ms / 1000).isoformat(sep=" ", timespec="milliseconds")
