"""The registry of handlers in the deployment's store, for agents to follow and for people to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afl.core.clock import Clock, SystemClock
from afl.core.handlers.calling import Handler
from afl.core.handlers.modules import DEFAULT_ENTRYPOINT, HandlerModuleError, checksum_of, full_uri, module_of
from afl.core.handlers.registration import DEFAULT_TIMEOUT_MS, HandlerRegistration
from afl.core.handlers.retry import RetryPolicy, RetryRule
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import HandlerRegistration as StoredRegistration
from afl.stores.public.persistence import EngineStore
from afl_stream.agent.registry_agent import RegistryUnavailable


class StoredHandlers:
    """The registrations of a store, as `RegistryRunner` reads and writes them too."""

    def __init__(self, store: EngineStore, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()

    def registrations(self) -> Sequence[HandlerRegistration]:
        """Return all registrations. Raises RegistryUnavailable."""
        return [_as_read(registration) for registration in self.stored()]

    def stored(self) -> list[StoredRegistration]:
        """Return all registrations as they are stored, by name. Raises RegistryUnavailable."""
        try:
            found = self._store.list_handler_registrations()
        except StoreUnavailable as error:
            raise RegistryUnavailable(f"the registrations cannot be read: {error}") from error
        return sorted(found, key=lambda registration: registration.facet_name)

    def save(self, registration: HandlerRegistration) -> None:
        """Insert or replace a facet's registration. Without a time limit its handler may take any time."""
        now_ms = self._clock.now_ms()
        known = self._store.get_handler_registration(registration.facet_name)
        self._store.save_handler_registration(
            StoredRegistration(
                facet_name=registration.facet_name,
                module_uri=registration.module_uri,
                entrypoint=registration.entrypoint,
                version=registration.version,
                checksum=registration.checksum,
                timeout_ms=registration.timeout_ms or 0,
                requirements=list(registration.requirements),
                metadata=dict(registration.metadata),
                created=known.created if known is not None else now_ms,
                updated=now_ms,
                retry=registration.retry,
            )
        )

    def remove(self, facet_name: str) -> bool:
        """Remove a registration; return False when there was none."""
        return self._store.delete_handler_registration(facet_name)


class StoringRegistrar:
    """The registrar that a module's `register_handlers` gets when registrations are stored.

    It fills in what the module leaves open: the time limit, and as checksum the digest of the module's text, so that
    registering it again after a change reloads it.
    """

    def __init__(
        self,
        *,
        checksum: str | None = None,
        timeout_ms: int | None = DEFAULT_TIMEOUT_MS,
        version: str = "1.0.0",
        metadata: Mapping[str, object] | None = None,
        retry: str = "",
    ) -> None:
        """`retry` is the policy, as a text, of handlers that the module registers without one."""
        self._retry = retry
        self._checksum = checksum
        self._timeout_ms = timeout_ms
        self._version = version
        self._metadata = metadata
        #: The registrations, in order.
        self.registered: list[HandlerRegistration] = []

    def register(self, facet_name: str, handler: Handler, **_details: Any) -> None:
        """Refuse: another process could not find a function object by name. Raises HandlerModuleError."""
        raise HandlerModuleError(
            module_of(handler),
            f"it registers a function object for {facet_name}, which cannot be stored",
            "runner.register_handler(facet_name=..., module_uri=..., entrypoint=...)",
        )

    def register_handler(  # noqa: PLR0913 - a public signature
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = DEFAULT_ENTRYPOINT,
        version: str | None = None,
        checksum: str | None = None,
        timeout_ms: int | None = None,
        requirements: Sequence[str] | None = None,
        metadata: Mapping[str, object] | None = None,
        *,
        retry: RetryRule | None = None,
    ) -> None:
        """Note a registration. A path is noted in full: another process has another working directory.

        Raises HandlerModuleError for a retry rule that is no RetryPolicy: it is code, and cannot be stored.
        """
        if retry is not None and not isinstance(retry, RetryPolicy):
            found = f"it registers {facet_name} with a retry rule of its own, which cannot be stored"
            raise HandlerModuleError(module_uri, found, "a RetryPolicy")
        given = checksum if checksum is not None else self._checksum
        self.registered.append(
            HandlerRegistration(
                facet_name=facet_name,
                module_uri=full_uri(module_uri),
                entrypoint=entrypoint,
                version=version or self._version,
                checksum=checksum_of(module_uri) if given is None else given,
                timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms or None,
                requirements=tuple(requirements or ()),
                metadata=dict(metadata or self._metadata or {}),
                retry=self._retry if retry is None else str(retry),
            )
        )


def _as_read(stored: StoredRegistration) -> HandlerRegistration:
    return HandlerRegistration(
        facet_name=stored.facet_name,
        module_uri=stored.module_uri,
        entrypoint=stored.entrypoint,
        version=stored.version,
        checksum=stored.checksum,
        timeout_ms=stored.timeout_ms if stored.timeout_ms > 0 else None,
        requirements=tuple(stored.requirements),
        metadata=dict(stored.metadata),
        retry=stored.retry,
    )
