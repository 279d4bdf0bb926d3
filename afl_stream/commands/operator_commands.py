"""The commands by which operators act on runs: `cancel`, `retry`, `rerun` and `reset`.

A refused command ends with 2: at once if the store is at hand, else on Kafka by the evaluator's answer.
"""

from __future__ import annotations

from typing import Any

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.exit_codes import ExitCode

_reason = click.option("--reason", default="", help="The reason, kept with the run.")


@click.command("cancel", short_help="Cancel a run.")
@click.argument("workflow_id")
@_reason
@common
def cancel_command(invocation: Invocation, **options: Any) -> ExitCode:
    """Ask for the run WORKFLOW_ID to be cancelled, whatever it waits for.

    Later answers have no effect. A handler can ask its context whether its run was cancelled.

    \b
    Examples:
      afl-stream cancel order-17 --reason "ordered twice"
    """
    from afl_stream.commands.answers import cancel

    return cancel(invocation, **options)


@click.command("retry", short_help="Retry what has failed in a run.")
@click.argument("target", metavar="WORKFLOW_OR_STEP")
@_reason
@common
def retry_command(invocation: Invocation, **options: Any) -> ExitCode:
    """Ask for what has failed to be retried: all of a run, or a failed step, or what failed inside a step.

    A cancelled run continues where it was. Complete steps stay as they are, and steps that the failure had stopped
    continue. Events are sent again with a higher attempt; answers to the earlier ones do not count.

    \b
    Examples:
      afl-stream retry order-17
      afl-stream retry order-17:0a1b2c3d4e5f60718293a4b5 --reason "the bank is back"
    """
    from afl_stream.commands.running_again import retry

    return retry(invocation, **options)


@click.command("rerun", short_help="Run a step again, and what depends on it.")
@click.argument("step_id")
@_reason
@common
def rerun_command(invocation: Invocation, **options: Any) -> ExitCode:
    """Ask for the step STEP_ID to be run again, whatever its result, with all steps that depend on it.

    The run must have ended, or wait. The earlier steps stay in the store. Steps that do not depend on this one are not
    run again, and continue to wait for their answers.

    \b
    Examples:
      afl-stream rerun order-17:0a1b2c3d4e5f60718293a4b5 --reason "wrong price"
    """
    from afl_stream.commands.running_again import rerun

    return rerun(invocation, **options)


@click.command("reset", short_help="Run a run again from its start.")
@click.argument("workflow_id")
@_reason
@common
def reset_command(invocation: Invocation, **options: Any) -> ExitCode:
    """Ask for the run WORKFLOW_ID to begin again, with the same inputs and program, whatever its result.

    \b
    Examples:
      afl-stream reset order-17
    """
    from afl_stream.commands.running_again import reset

    return reset(invocation, **options)


OPERATOR_COMMANDS = (cancel_command, retry_command, rerun_command, reset_command)
