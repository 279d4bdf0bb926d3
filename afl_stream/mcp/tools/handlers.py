"""`afl_manage_handlers`: the handlers that are registered in the store, for agents that follow the registry."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from afl.core.handlers.registration import DEFAULT_TIMEOUT_MS
from afl.core.text.near_names import close_names
from afl.core.values import plain_values
from afl.engine.model.entities import HandlerRegistration
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.stored_handlers import StoredHandlers, StoringRegistrar
from afl_stream.mcp.bounds import STEP_VALUE_CHARS, bounded_values, page_within
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.tool import ArgumentNeeded, Arguments, Names, Result, Tool, Values

_NAME = Field(default="", max_length=500, description="The qualified name of the event facet, such as billing.Charge.")


class LookArguments(Arguments):
    """What to look at."""

    action: Literal["list", "get"] = Field(description="list: all registrations; get: that of a facet.")
    facet_name: str = _NAME
    limit: int = Field(default=50, ge=1, le=200, description="For list: registrations of a page.")
    offset: int = Field(default=0, ge=0, description="For list: next_offset of the page before.")


class ManageArguments(LookArguments):
    """What to look at, or to change."""

    action: Literal["list", "get", "register", "remove"] = Field(  # type: ignore[assignment]  # more actions
        description="list and get look. register: insert or replace the handler of a facet; remove: events wait then."
    )
    module_uri: str = Field(
        default="", max_length=2_000, description="For register: a module such as shop.handlers, or file:///opt/pay.py."
    )
    entrypoint: str = Field(default="handle", min_length=1, max_length=200, description="Its function.")
    version: str = Field(default="1.0.0", max_length=200)
    checksum: str | None = Field(
        default=None, max_length=200, description="A changed one loads the module again; without one its digest."
    )
    timeout_ms: int = Field(
        default=DEFAULT_TIMEOUT_MS, ge=0, le=2**31, description="How long it may take; 0: as long as it takes."
    )
    requirements: Names = Field(default=[], description="What it needs, for people.")
    metadata: Values = Field(default={}, description="What the handler finds as _handler_metadata.")


class Registration(BaseModel):
    """The code that answers a facet's events."""

    facet_name: str
    module_uri: str
    entrypoint: str
    version: str
    checksum: str
    timeout_ms: int
    requirements: list[str]
    metadata: dict[str, Any]
    retry: str
    updated_ms: int


class Registry(Result):
    """Registrations of the store."""

    action: str
    handlers: list[Registration]
    total: int = Field(description="Registrations in the store.")
    next_offset: int | None = None


def _look(deployment: Deployment, arguments: LookArguments) -> Registry:
    with deployment.store() as store:
        found = StoredHandlers(store).stored()
    if arguments.action == "get":
        wanted = _wanted(found, arguments.facet_name)
        return Registry(action="get", handlers=[registration_of(wanted)], total=len(found))
    page = [registration_of(one) for one in found[arguments.offset :][: arguments.limit]]
    shown = list(page_within(page, lambda one: len(one.model_dump_json())))
    end = arguments.offset + len(shown)
    return Registry(action="list", handlers=shown, total=len(found), next_offset=end if end < len(found) else None)


def _manage(deployment: Deployment, arguments: ManageArguments) -> Registry:
    if arguments.action in ("list", "get"):
        return _look(deployment, arguments)
    if not arguments.facet_name:
        raise ArgumentNeeded("facet_name", arguments.action)
    if arguments.action == "remove":
        with deployment.whole_store() as store:
            registry = StoredHandlers(store)
            wanted = _wanted(registry.stored(), arguments.facet_name)
            registry.remove(wanted.facet_name)
            return Registry(action="remove", handlers=[registration_of(wanted)], total=len(registry.stored()))
    if not arguments.module_uri:
        raise ArgumentNeeded("module_uri", arguments.action)
    registrar = StoringRegistrar()
    registrar.register_handler(
        arguments.facet_name,
        arguments.module_uri,
        arguments.entrypoint,
        arguments.version,
        arguments.checksum,
        arguments.timeout_ms,
        arguments.requirements,
        plain_values(arguments.metadata, "metadata"),
    )
    with deployment.whole_store(create=True) as store:
        registry = StoredHandlers(store)
        for registration in registrar.registered:
            registry.save(registration)
        found = registry.stored()
    return Registry(
        action="register", handlers=[registration_of(_wanted(found, arguments.facet_name))], total=len(found)
    )


def _wanted(found: list[HandlerRegistration], facet_name: str) -> HandlerRegistration:
    """Return the registration of a facet. Raises NotFound."""
    for registration in found:
        if registration.facet_name == facet_name:
            return registration
    near = close_names(facet_name, [registration.facet_name for registration in found], 3)
    raise NotFound("registration of", facet_name or "no facet", near=near)


def registration_of(stored: HandlerRegistration) -> Registration:
    """Return a registration as results have it."""
    metadata = bounded_values(stored.metadata, STEP_VALUE_CHARS, lambda _name: f"afl://handlers/{stored.facet_name}")
    return Registration(
        facet_name=stored.facet_name,
        module_uri=stored.module_uri,
        entrypoint=stored.entrypoint,
        version=stored.version,
        checksum=stored.checksum,
        timeout_ms=stored.timeout_ms,
        requirements=list(stored.requirements),
        metadata=metadata,
        retry=stored.retry,
        updated_ms=stored.updated,
    )


TOOLS = (
    Tool(
        name="afl_manage_handlers",
        title="Look at registered handlers",
        description="List the handlers that are registered in the store, or get that of a facet. Changing them needs a "
        "server with --write.",
        arguments=LookArguments,
        result=Registry,
        run=_look,
    ),
)
WRITING_TOOLS = (
    Tool(
        name="afl_manage_handlers",
        title="Look at registered handlers, and change them",
        description="List, get, register or remove the handlers of event facets in the store. Agents and runners that "
        "follow the registry load a registered module and run it: register only code that you trust. The module is "
        "not loaded here.",
        arguments=ManageArguments,
        result=Registry,
        run=_manage,
        writes=True,
        destructive=True,
        idempotent=True,
    ),
)
