"""The group `schemas`: the Avro schemas of facets, before and after a program is changed."""

from __future__ import annotations

from typing import Final

import click

from afl.core.process.click_groups import LazyGroup

_COMMANDS: Final = {
    "generate": (
        "afl_stream.commands.schemas.generating:generate_command",
        "Write the schema of each facet's events.",
    ),
    "export": (
        "afl_stream.commands.schemas.exporting:export_command",
        "Write the schemas of payloads and results, in Avro or JSON Schema.",
    ),
    "register": (
        "afl_stream.commands.schemas.registering:register_command",
        "Register schemas with the schema registry.",
    ),
    "check": (
        "afl_stream.commands.schemas.checking:check_command",
        "Say what a changed program would break, before it is deployed.",
    ),
}


@click.group("schemas", cls=LazyGroup, table=_COMMANDS)
def schemas_group() -> None:
    """Generate, export, register and check the schemas of a program's events."""
