"""The users' face of every store: steps, events, tasks, locks and registrations as public objects."""

from afl.stores.public.persistence import (
    EngineStore,
    EventDefinition,
    IterationChanges,
    PersistenceAPI,
    TaskStore,
)

__all__ = [
    "EngineStore",
    "EventDefinition",
    "IterationChanges",
    "PersistenceAPI",
    "TaskStore",
]
