"""What a store keeps besides runs: registered handlers, tasks, locks, and the lines of its logs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from afl.engine.model.entities import HandlerRegistration, LockDefinition, LogDefinition, TaskDefinition
from afl_stream.dashboard.deployment import Deployment
from afl_stream.sensitive.redaction import REDACTED

#: Entities of a page.
PAGE: Final = 100
#: Names in a handler's metadata whose values are not shown.
_SECRET: Final = ("secret", "token", "password", "key", "credential")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPage:
    """A page of entities in the order of their keys, and the key behind which the next one begins."""

    entities: list[Any]
    next_after: str | None
    #: Keys of those that cannot be read, each with the reason.
    unreadable: list[str]

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "items": [asdict(entity) for entity in self.entities],
            "next_after": self.next_after,
            "unreadable": self.unreadable,
        }


def handlers(deployment: Deployment) -> list[HandlerRegistration]:
    """Return the registered handlers by their facets; what looks like a secret in their metadata is hidden."""
    found = sorted(deployment.store.list_handler_registrations(), key=lambda one: one.facet_name)
    for registration in found:
        registration.metadata = {
            name: REDACTED if any(word in name.lower() for word in _SECRET) else value
            for name, value in registration.metadata.items()
        }
    return found


def tasks(deployment: Deployment, after: str = "", state: str = "") -> EntityPage:
    """Return tasks without their data, which may hold sensitive values."""
    page = _page(deployment, TaskDefinition, after)
    for task in cast("list[TaskDefinition]", page.entities):
        task.data = None
    if state:
        page.entities[:] = [task for task in page.entities if task.state == state]
    return page


def locks(deployment: Deployment, after: str = "") -> EntityPage:
    """Return locks, also those that have expired and were not removed yet."""
    return _page(deployment, LockDefinition, after)


def logs(deployment: Deployment, after: str = "", run: str = "") -> EntityPage:
    """Return lines of the logs of runs; of one run all, in order of time."""
    if run:
        store = deployment.store
        row = store.load_workflow(run)
        entries = [] if row is None else list(store.get_logs_by_runner(row.runner_id or row.id))
        entries = [entry for entry in entries if entry.object_id == run]
        return EntityPage(
            entities=sorted(entries, key=lambda one: (one.time, one.order)), next_after=None, unreadable=[]
        )
    return _page(deployment, LogDefinition, after)


def _page(deployment: Deployment, kind: type, after: str) -> EntityPage:
    entries = deployment.store.examine(kind, after=after, limit=PAGE + 1)
    shown = entries[:PAGE]
    return EntityPage(
        entities=[entry.entity for entry in shown if entry.entity is not None],
        next_after=shown[-1].key if len(entries) > PAGE else None,
        unreadable=[f"{entry.key}: {entry.error}" for entry in shown if entry.entity is None],
    )


def as_document(entity: object) -> dict[str, object]:
    """Return an entity as JSON has it."""
    return asdict(cast(Any, entity))
