"""Groups of commands that load the module of a command when it is called, and none for the help of the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are named in a table: name -> (`module:attribute`, line in the help of the group).

    The help lists the commands in the order of the table, which is the order in which a person needs them.
    """

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._table = table
        self.commands = _Loading(table)  # type: ignore[assignment]  # click only reads it

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return self.commands[cmd_name] if cmd_name in self._table else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])


class _Loading(Mapping[str, click.Command]):
    """The commands of a table. Each is loaded when it is first looked up."""

    def __init__(self, table: Mapping[str, tuple[str, str]]) -> None:
        self._table = table

    def __getitem__(self, name: str) -> click.Command:
        place, line = self._table[name]
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        command.short_help = line
        return command

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)
