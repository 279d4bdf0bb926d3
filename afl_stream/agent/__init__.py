"""The agent: takes events of facets from their topics, runs handlers and answers."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl.core.handlers.calling import Deferred as Deferred
    from afl.core.handlers.context import HandlerContext as HandlerContext
    from afl.core.handlers.modules import HandlerRegistrar as HandlerRegistrar
    from afl.core.handlers.retry import RetryPolicy as RetryPolicy
    from afl.core.handlers.typed import Facet as Facet
    from afl.core.handlers.typed import Json as Json
    from afl.core.handlers.typed import Record as Record
    from afl_stream.agent.agent import Agent as Agent
    from afl_stream.agent.agent import NoHandlers as NoHandlers
    from afl_stream.agent.resources import AgentConfig as AgentConfig

_HOMES = {
    "afl_stream.agent.agent": "Agent NoHandlers",
    "afl_stream.agent.resources": "AgentConfig",
    "afl.core.handlers.calling": "Deferred",
    "afl.core.handlers.context": "HandlerContext",
    "afl.core.handlers.modules": "HandlerRegistrar",
    "afl.core.handlers.retry": "RetryPolicy",
    "afl.core.handlers.typed": "Facet Json Record",
}

__all__ = [
    "Agent",
    "AgentConfig",
    "Deferred",
    "Facet",
    "HandlerContext",
    "HandlerRegistrar",
    "Json",
    "NoHandlers",
    "Record",
    "RetryPolicy",
]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "agent",
    "lost_offsets",
    "metrics",
    "observer",
    "records",
    "registry_agent",
    "reloading",
    "resources",
    "work",
)
