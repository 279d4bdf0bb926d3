"""The commands `keys create`, `keys rotate`, `keys rewrap` and `keys list`."""

from __future__ import annotations

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.sensitive.erasing import required_keys
from afl_stream.exit_codes import ExitCode

_id_option = click.option(
    "--id", "key_id", metavar="ID", help="Name of the new key, letters and digits; by default drawn."
)


@click.group("keys")
def keys_group() -> None:
    """Make and change the master keys, which encrypt the key of each run's sensitive values."""


@keys_group.command("create", short_help="Make the first master key.")
@_id_option
@common
def create_command(invocation: Invocation, key_id: str | None) -> ExitCode:
    """Make the first master key, in the folder of the keys (keys.path), which only its owner may read.

    \b
    Examples:
      afl-stream keys create
      afl-stream keys create --id 2026
    """
    keys = required_keys(invocation.settings())
    if keys.has_master:
        raise CommandRefused(
            f"{keys.path} has a master key; a further one: {invocation.command_line('keys', 'rotate')}"
        )
    return _made(invocation, keys.add_master(key_id), f"master key in {keys.path}; keep a backup of that folder")


@keys_group.command("rotate", short_help="Make a new master key, and use it from now on.")
@_id_option
@common
def rotate_command(invocation: Invocation, key_id: str | None) -> ExitCode:
    """Make a new master key. Running processes take it for the next run's key; earlier keys stay, and are still read.

    \b
    Examples:
      afl-stream keys rotate
      afl-stream keys rotate --id 2027
    """
    keys = required_keys(invocation.settings())
    if not keys.has_master:
        raise CommandRefused(
            f"{keys.path} has no master key; make it with: {invocation.command_line('keys', 'create')}"
        )
    rewrap = invocation.command_line("keys", "rewrap")
    return _made(invocation, keys.add_master(key_id), f"is the master key now; earlier ones can go after: {rewrap}")


@keys_group.command("rewrap", short_help="Encrypt the keys of all runs with the current master key.")
@common
def rewrap_command(invocation: Invocation) -> ExitCode:
    """Encrypt the keys of all runs with the current master key: then no earlier one is needed. No value is touched.

    \b
    Examples:
      afl-stream keys rewrap
    """
    keys, terminal = required_keys(invocation.settings()), invocation.terminal()
    changed = keys.rewrap()
    if terminal.as_json:
        terminal.document({"rewrapped": changed})
    else:
        terminal.line(f"{changed:,} keys encrypted with the current master key")
    return ExitCode.OK


@keys_group.command("list", short_help="List the master keys, and count those of runs.")
@common
def list_command(invocation: Invocation) -> ExitCode:
    """List the ids of the master keys, the current one first, with how many keys of runs each encrypts.

    \b
    Examples:
      afl-stream keys list
    """
    keys, terminal = required_keys(invocation.settings()), invocation.terminal()
    counted = keys.counted()
    if terminal.as_json:
        terminal.document({"path": str(keys.path), "master": counted.by_master, "erased": counted.erased})
        return ExitCode.OK
    rows = [
        (name, "current" if number == 0 else "", f"{count:,}")
        for number, (name, count) in enumerate(counted.by_master.items())
    ]
    terminal.table(("master key", "", "keys of runs"), rows, right=("keys of runs",), whole=("master key",))
    terminal.remark(f"{counted.erased:,} erased; in {keys.path}")
    return ExitCode.OK


def _made(invocation: Invocation, key_id: str, text: str) -> ExitCode:
    terminal = invocation.terminal()
    if terminal.as_json:
        terminal.document({"id": key_id})
    else:
        terminal.line(f"{key_id}: {text}")
    return ExitCode.OK
