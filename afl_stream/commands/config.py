"""The command `config`."""

from __future__ import annotations

import click

from afl.core.build import compiled_modules, described_build
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, described_store
from afl_stream.exit_codes import ExitCode


@click.command("config")
@common
def config_command(invocation: Invocation) -> ExitCode:
    """Show the settings as a command would use them, and how this installation is built. Secrets are masked.

    \b
    Examples:
      afl-stream config
      AFL_PREFIX=shop. afl-stream config --json
    """
    config, terminal = invocation.settings(), invocation.terminal()
    described = config.describe()
    if terminal.as_json:
        terminal.document(described)
    else:
        rows = [(key, _setting_text(value)) for key, value in described.items()]
        terminal.table(("setting", "value"), rows)
    terminal.remark(described_store(config))
    terminal.remark(described_build(compiled_modules()))
    return ExitCode.OK


def _setting_text(value: object) -> str:
    """Return a setting's value as it is written in a settings file."""
    if value is None or value == "":
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
