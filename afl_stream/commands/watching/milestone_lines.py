"""Milestones as lines: for people, and as JSON."""

from __future__ import annotations

from typing import Final

from afl.core.clock import epoch_ms
from afl.core.text.printable import printable
from afl_stream.commands.terminal import duration_text, time_text, value_text
from afl_stream.wire.headers import rfc3339
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.milestone_kinds import STEP_COMPLETED, STEP_FAILED, STEP_RETRYING, STEP_STARTED

#: Characters of an error or of outputs in a line.
_DETAIL_CHARS: Final = 200
#: Answers to single commands, which only their senders want.
_OF_COMMANDS: Final = ("command.", "workflow.described")

#: On a terminal, by what the kind ends with: what went wrong, what waits, and what is done.
_COLOURS: Final = {
    "error": "red",
    "failed": "red",
    "cancelled": "yellow",
    "paused": "yellow",
    "retrying": "yellow",
    "completed": "green",
}


def colour_of(milestone: Lifecycle) -> str:
    """Return the colour of a milestone's kind on a terminal; "" for none."""
    return _COLOURS.get(milestone.kind.rpartition(".")[2], "")


def is_shown(milestone: Lifecycle) -> bool:
    """Return whether a milestone tells something of a run, and not only of a command."""
    return not milestone.kind.startswith(_OF_COMMANDS)


def document_of(milestone: Lifecycle) -> dict[str, object]:
    """Return a milestone as JSON."""
    error = milestone.error
    return {
        "kind": milestone.kind,
        "time": rfc3339(milestone.at),
        "time_ms": milestone.at,
        "workflow_id": milestone.workflow_id,
        "workflow": milestone.workflow,
        "step_id": milestone.step_id,
        "facet": milestone.facet,
        "outputs": None if milestone.outputs is None else dict(milestone.outputs),
        "error": None if error is None else {"type": error.type, "message": error.message},
    }


class MilestoneLines:
    """The lines of milestones, in their order: a day is named where it begins, and ends of steps have durations."""

    def __init__(self, *, of_one_run: bool) -> None:
        """`of_one_run`: the run's id is left out of its lines."""
        self._of_one_run = of_one_run
        self._day = ""
        #: When each step that is at work was started.
        self._began_ms: dict[str, int] = {}

    def of(self, milestone: Lifecycle) -> list[str]:
        """Return the lines of a milestone, with the day before them if it is another one."""
        day, _, clock = time_text(milestone.at).partition(" ")
        lines = []
        if day != self._day and day != time_text(epoch_ms()).partition(" ")[0]:
            lines.append(day)
        self._day = day
        parts = [clock, *([] if self._of_one_run else [printable(milestone.workflow_id)]), milestone.kind]
        what = milestone.facet if milestone.kind.startswith("step.") else milestone.workflow
        if what:
            parts.append(printable(what))
        if detail := self._detail(milestone):
            parts.append(detail)
        return [*lines, "  ".join(parts)]

    def _detail(self, milestone: Lifecycle) -> str:
        step_id, outputs = milestone.step_id or "", milestone.outputs or {}
        error = milestone.error
        failure = "" if error is None else printable(f"{error.type}: {error.message}")[:_DETAIL_CHARS]
        if milestone.kind == STEP_STARTED:
            self._began_ms[step_id] = milestone.at
            return f"attempt {attempt}" if (attempt := outputs.get("attempt")) not in (None, 1) else ""
        if milestone.kind == STEP_RETRYING:
            next_at = outputs.get("next_at_ms")
            again = f", again at {time_text(next_at).rpartition(' ')[2]}" if isinstance(next_at, int) else ""
            return f"attempt {outputs.get('attempt')} failed: {failure}{again}"
        if milestone.kind in (STEP_COMPLETED, STEP_FAILED):
            began_ms = self._began_ms.pop(step_id, None)
            took = "" if began_ms is None else duration_text(max(milestone.at - began_ms, 0))
            return "  ".join(part for part in (took, failure, _values(outputs)) if part)
        return failure or _values(outputs)


def _values(outputs: object) -> str:
    return value_text(outputs, _DETAIL_CHARS) if outputs else ""
