"""The life of an event, and handlers of events that live in this process."""

from afl.evaluation.events import (
    EventDispatcher,
    EventHandler,
    EventManager,
    LocalEventHandler,
)

__all__ = [
    "EventDispatcher",
    "EventHandler",
    "EventManager",
    "LocalEventHandler",
]
