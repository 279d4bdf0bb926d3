"""The commands `handlers list`, `handlers register` and `handlers remove`: the registry in the deployment's store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from afl.core.handlers.modules import HandlersArgument, ModuleLoader, path_of, register_module
from afl.core.handlers.registration import HandlerRegistration
from afl.core.text.near_names import close_names
from afl_stream.commands.arguments import common, facets_option, find_modules_here, retry_option
from afl_stream.commands.invocation import Invocation, open_store
from afl_stream.commands.refusals import NotFound
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.core.handlers.registration import HandlerRegistration


@click.group("handlers")
def handlers_group() -> None:
    """Show and change the handlers that are registered in the store.

    `afl-stream agent --registry` and RegistryRunner use them, and follow each change.
    """


@handlers_group.command("list")
@common
def handlers_list(invocation: Invocation) -> ExitCode:
    """List the registered handlers.

    \b
    Examples:
      afl-stream handlers list
      afl-stream handlers list --json | jq -r '.[].facet_name'
    """
    from afl_stream.commands.stored_handlers import StoredHandlers

    terminal = invocation.terminal()
    with open_store(invocation.settings()) as store:
        found = StoredHandlers(store).stored()
    if terminal.as_json:
        terminal.document([asdict(registration) for registration in found])
    elif not found:
        terminal.remark(f"nothing is registered: {invocation.command_line('handlers', 'register')} MODULE")
    else:
        rows = [
            (
                registration.facet_name,
                f"{registration.module_uri}:{registration.entrypoint}",
                registration.version,
                registration.checksum,
                f"{registration.timeout_ms / 1_000:g} s" if registration.timeout_ms > 0 else "none",
                registration.retry or "none",
            )
            for registration in found
        ]
        terminal.table(("facet", "handler", "version", "checksum", "time limit", "retries"), rows, whole=("facet",))
    return ExitCode.OK


@handlers_group.command("register", short_help="Register the handlers of each MODULE.")
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
@retry_option
@common
def handlers_register(
    invocation: Invocation,
    modules: Sequence[str],
    facets: Sequence[str],
    checksum: str | None,
    timeout_s: float,
    version: str,
    metadata: str | None,
    retry: str,
) -> ExitCode:
    """Register the handlers of each MODULE, written as for `agent --handlers`. The module is loaded to see what it has.

    Register a module again after a change of its text: agents then load it again. A path is stored in full, so it must
    be the same file on every machine that runs handlers.

    \b
    Examples:
      afl-stream handlers register shop.handlers
      afl-stream handlers register ./pay.py --facet billing.Pay --timeout 5
      afl-stream handlers register shop.billing:refund=billing.Refund --metadata '{"region": "eu"}'
      afl-stream handlers register ./pay.py --retry 'attempts=5, backoff=0.5, on=ConnectionError'
    """
    find_modules_here()
    from afl_stream.commands.inputs import json_object
    from afl_stream.commands.stored_handlers import StoredHandlers, StoringRegistrar

    terminal = invocation.terminal()
    registrar = StoringRegistrar(
        checksum=checksum,
        timeout_ms=round(timeout_s * 1_000) or None,
        version=version,
        metadata=json_object(metadata, "--metadata") if metadata is not None else None,
        retry=retry,
    )
    loader = ModuleLoader()
    for argument in modules:
        named = HandlersArgument.parse(argument)
        register_module(
            registrar, loader, named.module_uri, named.facets, entrypoint=named.entrypoint, otherwise=facets
        )
    settings = invocation.settings()
    _warn_of_refusals(invocation, settings.agent.allowed_handlers, registrar.registered)
    with open_store(settings, create=True) as store:
        registry = StoredHandlers(store)
        for registration in registrar.registered:
            registry.save(registration)
    names = [registration.facet_name for registration in registrar.registered]
    if terminal.as_json:
        terminal.document(names)
    else:
        terminal.remark(f"registered {', '.join(names)}")
    return ExitCode.OK


@handlers_group.command("remove")
@click.argument("facets", nargs=-1, required=True, metavar="FACET...")
@common
def handlers_remove(invocation: Invocation, facets: Sequence[str]) -> ExitCode:
    """Remove the registration of each FACET. Running handlers are answered; events that have not started wait.

    \b
    Examples:
      afl-stream handlers remove billing.Refund
    """
    from afl_stream.commands.stored_handlers import StoredHandlers

    terminal = invocation.terminal()
    with open_store(invocation.settings()) as store:
        registry = StoredHandlers(store)
        known = [registration.facet_name for registration in registry.stored()]
        for facet in facets:
            if facet not in known:
                raise NotFound("registration of", facet, near=close_names(facet, known, 3))
        removed = [facet for facet in facets if registry.remove(facet)]
    if terminal.as_json:
        terminal.document(removed)
    else:
        terminal.remark(f"removed {', '.join(removed)}")
    return ExitCode.OK


def _warn_of_refusals(invocation: Invocation, allowed_handlers: str, registered: Sequence[HandlerRegistration]) -> None:
    """Warn of modules that agents would not load with this command's settings and working directory."""
    from afl.core.handlers.allowed_modules import AllowedHandlers, HandlerNotAllowed

    allowed, terminal = AllowedHandlers(allowed_handlers.split(",")), invocation.terminal()
    for module_uri in dict.fromkeys(registration.module_uri for registration in registered):
        try:
            allowed.check(module_uri)
        except HandlerNotAllowed:
            shown = path_of(module_uri) or module_uri
            terminal.warn(
                f"warning: agents with these settings do not load {shown}: agent.allowed_handlers is "
                f"{allowed_handlers or 'empty'}; name the module there, or a folder around it"
            )
