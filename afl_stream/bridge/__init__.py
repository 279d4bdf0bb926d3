"""AFL workflows and event-driven ones together: topics that either can publish to and wait on, nodes as agents.

The names of this package load when they are first used.
"""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.bridge.arrivals import Arrival as Arrival
    from afl_stream.bridge.bridge import Bridge as Bridge
    from afl_stream.bridge.errors import BridgeError as BridgeError
    from afl_stream.bridge.errors import BridgeInvalid as BridgeInvalid
    from afl_stream.bridge.publishing import PublishedEvent as PublishedEvent
    from afl_stream.bridge.raising import ForNoWorkflow as ForNoWorkflow
    from afl_stream.bridge.resources import BridgeCounts as BridgeCounts
    from afl_stream.bridge.topics import WorkflowTopic as WorkflowTopic

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "bridge",
    "errors",
)

_HOMES = {
    "afl_stream.bridge.arrivals": "Arrival",
    "afl_stream.bridge.bridge": "Bridge",
    "afl_stream.bridge.errors": "BridgeError BridgeInvalid",
    "afl_stream.bridge.publishing": "PublishedEvent",
    "afl_stream.bridge.raising": "ForNoWorkflow",
    "afl_stream.bridge.resources": "BridgeCounts",
    "afl_stream.bridge.topics": "WorkflowTopic",
}

__all__ = [
    "Arrival",
    "Bridge",
    "BridgeCounts",
    "BridgeError",
    "BridgeInvalid",
    "ForNoWorkflow",
    "PublishedEvent",
    "WorkflowTopic",
]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
