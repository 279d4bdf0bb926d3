"""The commands `afl-stream handlers ...`: their options and help. The code of a command is loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from afl_stream.commands.arguments import common, facets_option, find_modules_here
from afl_stream.commands.invocation import Invocation
from afl_stream.exit_codes import ExitCode


@click.group(short_help="Show and change the registered handlers.")
def handlers() -> None:
    """Show and change the handlers that are registered in the store.

    `afl-stream agent --registry` and RegistryRunner use them, and follow each change.
    """


@handlers.command("list")
@common
def handlers_list(invocation: Invocation) -> ExitCode:
    """List the registered handlers.

    \b
    Examples:
      afl-stream handlers list
      afl-stream handlers list --json | jq -r '.[].facet_name'
    """
    from afl_stream.commands.registrations import list_handlers

    return list_handlers(invocation)


@handlers.command("register")
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
@facets_option
@click.option(
    "--checksum", metavar="TEXT", help="A changed checksum loads the module again; by default a digest of its text."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a handler may take; 0: as long as it takes.",
)
@click.option(
    "--version", default="1.0.0", show_default=True, metavar="TEXT", help="The handlers' version, for people."
)
@click.option("--metadata", metavar="JSON", help="An object that the handlers find as _handler_metadata; @FILE or -.")
@common
def handlers_register(invocation: Invocation, modules: Sequence[str], **options: Any) -> ExitCode:
    """Register the handlers of each MODULE, written as for `agent --handlers`. The module is loaded to see what it has.

    Register a module again after a change of its text: agents then load it again. A path is stored in full, so it must
    be the same file on every machine that runs handlers.

    \b
    Examples:
      afl-stream handlers register shop.handlers
      afl-stream handlers register ./pay.py --facet billing.Pay --timeout 5
      afl-stream handlers register shop.billing:refund=billing.Refund --metadata '{"region": "eu"}'
    """
    find_modules_here()
    from afl_stream.commands.registrations import register_handlers

    return register_handlers(invocation, modules, **options)


@handlers.command("remove")
@click.argument("facets", nargs=-1, required=True, metavar="FACET...")
@common
def handlers_remove(invocation: Invocation, facets: Sequence[str]) -> ExitCode:
    """Remove the registration of each FACET. Running handlers are answered; events that have not started wait.

    \b
    Examples:
      afl-stream handlers remove billing.Refund
    """
    from afl_stream.commands.registrations import remove_handlers

    return remove_handlers(invocation, facets)
