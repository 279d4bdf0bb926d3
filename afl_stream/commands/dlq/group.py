"""The group `dlq`: the dead letters of a deployment."""

from __future__ import annotations

from typing import Final

import click

from afl.core.process.click_groups import LazyGroup

_COMMANDS: Final = {
    "list": ("afl_stream.commands.dlq.listing:list_command", "List dead letters."),
    "show": ("afl_stream.commands.dlq.showing:show_command", "Show one with its reason and its record."),
    "replay": ("afl_stream.commands.dlq.handling:replay_command", "Send records to their topics again."),
    "drop": ("afl_stream.commands.dlq.handling:drop_command", "Mark dead letters as needing nothing more."),
}


@click.group("dlq", cls=LazyGroup, table=_COMMANDS)
def dlq_group() -> None:
    """Find dead letters, look at one, replay them, or drop them.

    A dead letter is a record that could not be read or given a meaning: an event, an answer, a command, an external
    event. It is named by its place, TOPIC[PARTITION]@OFFSET, as `list` shows it; quote it in shells that expand
    brackets.
    """
