"""The command `erase`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from afl.core.clock import epoch_ms
from afl_stream.commands.arguments import common
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_store
from afl_stream.commands.refusals import CommandRefused, no_such_run
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.sensitive.key_files import KeyFolder
    from afl_stream.settings.config import StreamConfig


@click.command("erase")
@click.argument("workflow_id", shell_complete=run_ids)
@click.option("--force", is_flag=True, help="Erase the data of a run that has not ended, or that this store has not.")
@common
def erase_command(invocation: Invocation, workflow_id: str, force: bool) -> ExitCode:
    """Erase the sensitive data of the run WORKFLOW_ID, wherever they are, by dropping their key.

    What was encrypted with it, in the store, in topics, in dead letters, in backups of both, can never be read again:
    it reads as erased. Steps that still need it fail and say so. There is no way back, unless a backup of the keys
    exists: drop it there, too.

    \b
    Examples:
      afl-stream erase order-17
      afl-stream erase order-17 --json
    """
    from afl_stream.wire.messages import check_workflow_id

    config, terminal = invocation.settings(), invocation.terminal()
    check_workflow_id(workflow_id)
    keys = required_keys(config)
    if not force:
        _refuse_running(invocation, config, workflow_id)
    before = keys.drop(workflow_id, epoch_ms())
    was_erased = before is not None and before.is_erased
    if terminal.as_json:
        terminal.document(
            {"workflow_id": workflow_id, "erased": True, "had_key": before is not None, "was_erased": was_erased}
        )
    elif was_erased:
        terminal.line(f"the data of {workflow_id} were erased before")
    elif before is None:
        terminal.line(f"{workflow_id} had no encrypted data; none will be written under this id")
    else:
        terminal.line(f"the sensitive data of {workflow_id} are erased: their key is dropped")
    return ExitCode.OK


def required_keys(config: StreamConfig) -> KeyFolder:
    """Return the keys of the deployment. Raises CommandRefused where the settings name none."""
    from afl_stream.sensitive.deployment import deployment_keys

    keys = deployment_keys(config)
    if keys is None:
        raise CommandRefused(
            "no value is encrypted in this deployment: set sensitive.encrypt (AFL_SENSITIVE_ENCRYPT) to true, or "
            "keys.path (AFL_KEYS_PATH) to the folder of its keys"
        )
    return keys


def _refuse_running(invocation: Invocation, config: StreamConfig, workflow_id: str) -> None:
    from afl.engine.model.workflow_rows import ENDED_STATUSES

    with open_store(config) as store:
        row = store.load_workflow(workflow_id)
        if row is None and store.tombstone(workflow_id) is None:
            hint = "afl-stream status lists them; --force erases an id that is not here"
            raise no_such_run(store, workflow_id, hint)
    if row is not None and row.status not in ENDED_STATUSES:
        cancel = invocation.command_line("cancel", workflow_id)
        raise CommandRefused(
            f"run {workflow_id} has not ended, and its steps may need these data; cancel it first: {cancel}; or give "
            "--force: steps that need them will fail"
        )
