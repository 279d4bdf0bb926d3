"""Handlers of an agent: what a handler is given, what it may return, and how a facet finds its handler."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from afl.core.handlers.calling import FACET_NAME_KEY, METADATA_KEY, Handler, HandlerOver, short_name
from afl.core.handlers.modules import ModuleLoader
from afl_stream.agent.handler_modules import HandlerRegistration
from afl_stream.errors import ConfigError, StreamError


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The rule by which a handler is retried before its step fails.

    `max_attempts` counts the first try too. The backoff before try n + 1 is `backoff_s * factor ** (n - 1)`, at most
    `max_backoff_s`. `retry_on` names the exceptions that are retried. Tries are not attempts of the step: all of them
    have the same event id.
    """

    max_attempts: int
    backoff_s: float = 1.0
    factor: float = 2.0
    max_backoff_s: float = 60.0
    retry_on: tuple[type[Exception], ...] = (Exception,)

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ConfigError("RetryPolicy", "max_attempts", self.max_attempts, "1 or more, the first try included")

    def wait_s(self, tries: int, error: BaseException) -> float | None:
        """Return the backoff after this many failed tries, or None when there is no further try."""
        # By its type: an exception of a handler may lie about its class.
        if tries >= self.max_attempts or not issubclass(type(error), self.retry_on):
            return None
        return float(min(self.backoff_s * self.factor ** (tries - 1), self.max_backoff_s))


class HandlerContext:
    """The event's context for its handler. Besides returning its answer it may send partial results with `update`.

    `event_id` is the idempotency key: every copy of the event has it. `deadline_ms` is since the epoch.
    """

    __slots__ = (
        "_is_cancelled", "_is_over", "_is_stopping", "_send_update", "answer_token", "attempt", "deadline_ms",
        "event_id", "execution_id", "facet", "headers", "step_id", "workflow_id",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - the facts of an event, by name
        self,
        *,
        facet: str,
        event_id: str,
        step_id: str,
        workflow_id: str,
        execution_id: str,
        attempt: int,
        deadline_ms: int | None,
        answer_token: str | None,
        headers: Mapping[str, bytes | None],
        send_update: Callable[[Mapping[str, object]], None],
        is_stopping: Callable[[], bool],
        is_over: Callable[[], bool],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.facet = facet
        self.event_id = event_id
        self.step_id = step_id
        self.workflow_id = workflow_id
        self.execution_id = execution_id
        self.attempt = attempt
        self.deadline_ms = deadline_ms
        self.answer_token = answer_token
        self.headers = headers
        self._send_update = send_update
        self._is_stopping = is_stopping
        self._is_over = is_over
        self._is_cancelled = is_cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether the answer is not needed any more, because the workflow was cancelled or reset.

        It is read from the lifecycle topic at each question, at most twice a second.
        """
        return self._is_cancelled()

    @property
    def is_stopping(self) -> bool:
        """Whether the handler should end: its agent drains, its partition was revoked, or its time is up."""
        return self._is_stopping() or self._is_over()

    def update(self, partial: Mapping[str, object]) -> None:
        """Send a partial result; the step continues to wait. Raises HandlerOver after the answer."""
        if self._is_over():
            raise HandlerOver(self.step_id)
        self._send_update(partial)


class RunTimeEstimate:
    """The run time of one handler, estimated from the latest runs. Unknown before the first run."""

    __slots__ = ("mean_s",)

    def __init__(self) -> None:
        self.mean_s = float("inf")

    def note(self, duration_s: float) -> None:
        """Add the duration of another run."""
        mean_s = self.mean_s
        self.mean_s = duration_s if mean_s == float("inf") else mean_s + (duration_s - mean_s) / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One registered handler. `find` returns the function to call, looked up at each call."""

    name: str
    find: Callable[[], Handler]
    timeout_s: float | None = None
    retry: RetryPolicy | None = None
    metadata: Mapping[str, object] | None = None
    run_time: RunTimeEstimate = field(default_factory=RunTimeEstimate)

    def payload(self, facet: str, payload: Mapping[str, object]) -> dict[str, object]:
        """Return the payload for the handler: its own copy, with the facet's name and the registered metadata."""
        own = {**payload, FACET_NAME_KEY: facet}
        if self.metadata:
            own[METADATA_KEY] = dict(self.metadata)
        return own


@dataclass(slots=True)
class RouteTable:
    """The routes by name: a facet finds the route of its qualified name, else that of its short name."""

    routes: dict[str, Route] = field(default_factory=dict)

    def find(self, facet: str) -> Route | None:
        found = self.routes.get(facet)
        return found if found is not None else self.routes.get(short_name(facet))

    def resolve(self, known_facets: Iterable[str]) -> list[str]:
        """Return the qualified facets that these routes handle. A short name means each known facet that ends in it.

        Raises NoSuchFacet for a name without a namespace when no known facet ends in it.
        """
        known = sorted(set(known_facets))
        facets: dict[str, None] = {}
        for name in self.routes:
            if "." in name:
                facets[name] = None
                continue
            meant = [facet for facet in known if short_name(facet) == name]
            if not meant:
                raise NoSuchFacet(name, known)
            facets.update(dict.fromkeys(meant))
        return list(facets)


class NoSuchFacet(StreamError):
    """A handler was registered under a short name, and no facet of that name has a topic."""

    def __init__(self, name: str, known: list[str]) -> None:
        near = difflib.get_close_matches(name, [short_name(facet) for facet in known], 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known[:10]) or 'none'}"
        super().__init__(f"no topic belongs to a facet {name} of any namespace: {hint}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The handler's time was up. What it does later has no effect."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class NotRun:
    """The handler was not called, and will not be called."""


Outcome: TypeAlias = Returned | Raised | TimedOut | NotRun


def loaded_route(registration: HandlerRegistration, loader: ModuleLoader, retry: RetryPolicy | None = None) -> Route:
    """Return the route to a function of a module, and load the module now. Raises HandlerModuleError."""
    place = (registration.module_uri, registration.entrypoint, registration.checksum)
    loader.function(*place)
    return Route(
        name=registration.facet_name,
        find=lambda: loader.function(*place),
        timeout_s=seconds(registration.timeout_ms),
        retry=retry,
        metadata=registration.metadata,
    )


def seconds(timeout_ms: int | None) -> float | None:
    """Return the time limit of one run; None or 0: no limit."""
    return timeout_ms / 1000 if timeout_ms else None
