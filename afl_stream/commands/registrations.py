"""The commands `handlers list`, `handlers register` and `handlers remove`: the registry in the deployment's store."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict

from afl.core.handlers.allowed_modules import AllowedHandlers, HandlerNotAllowed
from afl.core.handlers.modules import HandlersArgument, ModuleLoader, path_of, register_module
from afl.core.handlers.registration import HandlerRegistration
from afl_stream.commands.inputs import json_object
from afl_stream.commands.invocation import Invocation, open_store
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.stored_handlers import StoredHandlers, StoringRegistrar
from afl_stream.exit_codes import ExitCode


def list_handlers(invocation: Invocation) -> ExitCode:
    """Show the registered handlers."""
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
            )
            for registration in found
        ]
        terminal.table(("facet", "handler", "version", "checksum", "time limit"), rows, whole=("facet",))
    return ExitCode.OK


def register_handlers(
    invocation: Invocation,
    modules: Sequence[str],
    *,
    facets: Sequence[str],
    checksum: str | None,
    timeout_s: float,
    version: str,
    metadata: str | None,
) -> ExitCode:
    """Register the handlers of the modules. All of them are checked before anything is stored."""
    terminal = invocation.terminal()
    registrar = StoringRegistrar(
        checksum=checksum,
        timeout_ms=round(timeout_s * 1_000) or None,
        version=version,
        metadata=json_object(metadata, "--metadata") if metadata is not None else None,
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


def _warn_of_refusals(invocation: Invocation, allowed_handlers: str, registered: Sequence[HandlerRegistration]) -> None:
    """Warn of modules that agents would not load with this command's settings and working directory."""
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


def remove_handlers(invocation: Invocation, facets: Sequence[str]) -> ExitCode:
    """Remove registrations; none if one of them does not exist."""
    terminal = invocation.terminal()
    with open_store(invocation.settings()) as store:
        registry = StoredHandlers(store)
        known = [registration.facet_name for registration in registry.stored()]
        for facet in facets:
            if facet not in known:
                raise NotFound("registration of", facet, near=difflib.get_close_matches(facet, known, 3))
        removed = [facet for facet in facets if registry.remove(facet)]
    if terminal.as_json:
        terminal.document(removed)
    else:
        terminal.remark(f"removed {', '.join(removed)}")
    return ExitCode.OK
