"""The group `store` of the `afl-stream` command: checking the store, and purging it."""

from __future__ import annotations

from typing import Any

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.exit_codes import ExitCode


@click.group(short_help="Check the store, and purge finished runs.")
def store() -> None:
    """Check the store, and purge finished runs. Both may run while the deployment is at work."""


@store.command("check")
@common
def store_check(invocation: Invocation) -> ExitCode:
    """Check the whole store: for steps without workflow, events without step, rows of other releases, lanes without an
    owner, ...

    Writes nothing, and may run while evaluators do. Prints a line for each finding: what is wrong, where, what was
    found and what would be right. Ends with 0 without findings, with 1 otherwise.

    \b
    Examples:
      afl-stream store check
      afl-stream store check --json | jq '.findings[].kind'
    """
    from afl_stream.commands.store import check_store

    return check_store(invocation)


@store.command("purge")
@click.option("--older-than", metavar="TIME", help="Runs that ended longer ago: 30d, 12h. By default store.retention.")
@click.option("--workflow", "workflow_ids", multiple=True, metavar="ID", help="This run; repeat for several.")
@click.option("--dry-run", is_flag=True, help="Only say which runs it would be.")
@common
def store_purge(invocation: Invocation, **options: Any) -> ExitCode:
    """Delete finished runs with their steps, tasks, log entries and parked answers.

    A tombstone of each run stays: its id is not used again, and answers to it count as late. A run that has not ended,
    or whose records still wait to be published, is kept. Evaluators do the same by themselves if store.retention is
    set. The next purge continues an interrupted one.

    \b
    Examples:
      afl-stream store purge --older-than 30d --dry-run
      afl-stream store purge --older-than 30d
      afl-stream store purge --workflow order-17
    """
    from afl_stream.commands.store import PurgeOptions, purge_store

    return purge_store(invocation, PurgeOptions(**options))
