"""The group `topics`."""

from __future__ import annotations

from typing import Final

import click

from afl.core.process.click_groups import LazyGroup

_COMMANDS: Final = {
    "plan": ("afl_stream.commands.topics.plans:topics_plan", "Show which topics are missing or differ."),
    "apply": ("afl_stream.commands.topics.plans:topics_apply", "Create the topics that are missing."),
    "acls": ("afl_stream.commands.topics.acls:topics_acls", "Show or apply the least rights of a role."),
}


@click.group("topics", cls=LazyGroup, table=_COMMANDS)
def topics_group() -> None:
    """Plan and create topics, and the rights to them. No other command or service creates a topic."""
