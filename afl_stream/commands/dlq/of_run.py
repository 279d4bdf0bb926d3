"""The dead letters of one run, for commands that show runs: best effort, and quick to give up."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from afl_stream.commands.terminal import Terminal, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from afl_stream.commands.invocation import Invocation
    from afl_stream.dead_letters import DeadLetter, WorkflowLetters
    from afl_stream.settings.config import StreamConfig

#: How long a broker may take to answer, and how long reading may take: a run is shown without its letters then.
_TIMEOUT_S: Final = 5
#: How much earlier than its run a letter may be dated: the clocks of machines differ.
_CLOCKS_MS: Final = 60_000
#: Letters of one step that are shown, the newest.
_MOST_OF_STEP: Final = 3


def letters_of_run(
    invocation: Invocation, config: StreamConfig, workflow_id: str, since_ms: int
) -> tuple[WorkflowLetters, str]:
    """Return the dead letters of a run that began at `since_ms`, and "", or none and why they cannot be read now.

    The embedded log cannot be read while another process has it.
    """
    from afl.core.text.exception_text import exception_line
    from afl_stream.commands.invocation import NothingThere, open_transport
    from afl_stream.dead_letters import DeadLetters, WorkflowLetters, letters_of_workflow
    from afl_stream.errors import StreamError
    from afl_stream.transport import TransportError

    quick = dataclasses.replace(
        config,
        kafka=dataclasses.replace(config.kafka, connect_timeout_s=min(config.kafka.connect_timeout_s, _TIMEOUT_S)),
    )
    try:
        with open_transport(quick) as transport, DeadLetters(quick, transport, timeout_s=_TIMEOUT_S) as letters:
            return letters_of_workflow(letters, workflow_id, since_ms=max(0, since_ms - _CLOCKS_MS)), ""
    except (StreamError, TransportError, NothingThere) as error:
        look = invocation.command_line("dlq", "list", "--workflow", workflow_id)
        return WorkflowLetters(workflow_id=workflow_id), f"{exception_line(error)}; {look} has them"


def show_letters_of_steps(
    invocation: Invocation, terminal: Terminal, found: WorkflowLetters, step_ids: Iterable[str]
) -> None:
    """Write under each of these steps which answers to it were refused, or which of its events could not be handled."""
    for step_id in step_ids:
        letters = [letter for letter in found.by_step.get(step_id, ()) if letter.is_open]
        if not letters:
            continue
        terminal.line(f"dead letters of step {step_id}:")
        for letter in letters[-_MOST_OF_STEP:]:
            terminal.line(f"  {letter_text(letter)}")
            terminal.line(f"    {invocation.command_line('dlq', 'show', str(letter.place))}")
        if len(letters) > _MOST_OF_STEP:
            look = invocation.command_line("dlq", "list", "--step", step_id)
            terminal.line(f"  and {len(letters) - _MOST_OF_STEP:,} earlier ones: {look}")


def letter_text(letter: DeadLetter) -> str:
    """Return in one line when a record was given up, and why."""
    why = letter.error.removeprefix(f"{letter.reason}: ")
    return f"{time_text(letter.at_ms)} {letter.reason}: {why}"
