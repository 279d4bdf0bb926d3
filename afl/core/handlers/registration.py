"""Registrations of handlers: a function, or a function of a module that is loaded by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from afl.core.handlers.allowed_modules import AllowedHandlers
from afl.core.handlers.calling import Handler
from afl.core.handlers.modules import DEFAULT_ENTRYPOINT, HandlerModuleError, ModuleLoader
from afl.core.handlers.retry import BadRetryPolicy, RetryPolicy, RetryRule
from afl.core.handlers.routes import Route, seconds

#: How long a handler may take that is registered in a store, when nothing else was said.
DEFAULT_TIMEOUT_MS: Final = 30_000


class Registered(Protocol):
    """A registration, wherever it is kept, with all that a route is made of."""

    @property
    def facet_name(self) -> str: ...
    @property
    def module_uri(self) -> str: ...
    @property
    def entrypoint(self) -> str: ...
    @property
    def checksum(self) -> str: ...
    @property
    def timeout_ms(self) -> int | None: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def retry(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerRegistration:
    """The function of a module that handles a facet. `timeout_ms` None: as long as it takes.

    `retry` is a retry policy as a text; see `RetryPolicy.parse`. Empty: none.
    """

    facet_name: str
    module_uri: str
    entrypoint: str = DEFAULT_ENTRYPOINT
    version: str = "1.0.0"
    checksum: str = ""
    timeout_ms: int | None = None
    requirements: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    retry: str = ""


def function_route(
    facet_name: str,
    handler: Handler,
    *,
    timeout_ms: int | None = None,
    retry: RetryRule | None = None,
    metadata: Mapping[str, Any] | None = None,
    names_facet: bool = True,
) -> Route:
    """Return the route to a function, synchronous or asynchronous. Raises TypeError for what cannot be called."""
    if not callable(handler):
        raise TypeError(f"the handler of {facet_name} is a {type(handler).__name__}, not callable")
    return Route(
        name=facet_name,
        find=lambda: handler,
        timeout_s=seconds(timeout_ms),
        retry=retry,
        metadata=metadata,
        names_facet=names_facet,
    )


def loaded_route(registration: Registered, loader: ModuleLoader, retry: RetryRule | None = None) -> Route:
    """Return the route to a function of a module, which is loaded now. Raises HandlerModuleError.

    `retry` takes precedence over the policy that is registered as a text.
    """
    place = (registration.module_uri, registration.entrypoint, registration.checksum)
    loader.function(*place)
    return Route(
        name=registration.facet_name,
        find=lambda: loader.function(*place),
        timeout_s=seconds(registration.timeout_ms),
        retry=retry if retry is not None else _policy_of(registration),
        metadata=registration.metadata,
    )


def _policy_of(registration: Registered) -> RetryPolicy | None:
    """Return the policy that is registered. Raises HandlerModuleError for a text that is none."""
    if not registration.retry:
        return None
    try:
        return RetryPolicy.parse(registration.retry)
    except BadRetryPolicy as error:
        found = f"it is registered with a retry policy that cannot be used: {error.field}: {error.found!r:.100}"
        raise HandlerModuleError(registration.module_uri, found, error.expected) from error


def allowed_route(
    registration: Registered, loader: ModuleLoader, allowed: AllowedHandlers, retry: RetryRule | None = None
) -> Route:
    """Return the route that a registry asks for, if its module and its function are allowed. Raises HandlerModuleError.

    Nothing of a module that is not allowed is loaded.
    """
    allowed.check(registration.module_uri)
    route = loaded_route(registration, loader, retry)
    module = loader.load(registration.module_uri, registration.checksum)
    allowed.check_function(registration.module_uri, module, getattr(module, registration.entrypoint, None))
    return route
