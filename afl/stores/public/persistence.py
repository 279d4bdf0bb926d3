"""The users' face of every store: steps, events, tasks, locks and registrations as public objects."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from afl.engine.model.entities import (
    HandlerRegistration,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
)
from afl.engine.model.store import Store
from afl.engine.model.store_identity import IdentifiedStore
from afl.engine.model.upkeep import Upkeep
from afl.engine.types import Value
from afl.stores.public.step import StepDefinition


@dataclass
class EventDefinition:
    """A step's event, as a public view."""

    id: str
    step_id: str
    workflow_id: str
    state: str
    event_type: str
    payload: dict[str, Value] = field(default_factory=dict)


@dataclass
class IterationChanges:
    """What one iteration made and changed, as public objects."""

    created_steps: list[StepDefinition] = field(default_factory=list)
    updated_steps: list[StepDefinition] = field(default_factory=list)
    created_events: list[EventDefinition] = field(default_factory=list)
    updated_events: list[EventDefinition] = field(default_factory=list)
    created_tasks: list[TaskDefinition] = field(default_factory=list)
    _created_ids: set[str] = field(default_factory=set, repr=False, compare=False)
    _updated_at: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def add_created_step(self, step: StepDefinition) -> None:
        """Note a new step; a second one of the same id is dropped."""
        if step.id not in self._created_ids:
            self._created_ids.add(step.id)
            self.created_steps.append(step)

    def add_updated_step(self, step: StepDefinition) -> None:
        """Note a changed step; a later change of the same step takes the place of the earlier one."""
        at = self._updated_at.get(step.id)
        if at is None:
            self._updated_at[step.id] = len(self.updated_steps)
            self.updated_steps.append(step)
        else:
            self.updated_steps[at] = step

    def add_created_event(self, event: EventDefinition) -> None:
        self.created_events.append(event)

    def add_updated_event(self, event: EventDefinition) -> None:
        self.updated_events.append(event)

    def add_created_task(self, task: TaskDefinition) -> None:
        self.created_tasks.append(task)

    @property
    def has_changes(self) -> bool:
        return bool(
            self.created_steps or self.updated_steps or self.created_events or self.updated_events or self.created_tasks
        )

    def clear(self) -> None:
        """Forget everything noted so far."""
        for noted in (self.created_steps, self.updated_steps, self.created_events, self.updated_events):
            noted.clear()
        self.created_tasks.clear()
        self._created_ids.clear()
        self._updated_at.clear()


@runtime_checkable
class PersistenceAPI(Protocol):
    """The users' face of a store."""

    def get_step(self, step_id: str) -> StepDefinition | None: ...
    def get_steps_by_block(self, block_id: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_workflow(self, workflow_id: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_state(self, state: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_container(self, container_id: str) -> Sequence[StepDefinition]: ...
    def get_blocks_by_step(self, step_id: str) -> Sequence[StepDefinition]:
        """The block steps whose container is that step."""

    def get_workflow_root(self, workflow_id: str) -> StepDefinition | None:
        """The step without container and root."""

    def step_exists(self, statement_id: str, block_id: str | None) -> bool: ...
    def save_step(self, step: StepDefinition) -> None: ...
    def get_event(self, event_id: str) -> EventDefinition | None: ...
    def save_event(self, event: EventDefinition) -> None: ...
    def commit(self, changes: IterationChanges) -> None:
        """Write everything in `changes`, all or nothing."""

    def get_runner(self, runner_id: str) -> RunnerDefinition | None: ...
    def save_runner(self, runner: RunnerDefinition) -> None: ...
    def get_runners_by_state(self, state: str) -> Sequence[RunnerDefinition]: ...
    def get_pending_tasks(self, task_list: str) -> Sequence[TaskDefinition]: ...
    def save_task(self, task: TaskDefinition) -> None: ...
    def claim_task(
        self, task_names: list[str], task_list: str = "default", *, owner: str = "", lease_ms: int = 0
    ) -> TaskDefinition | None:
        """Move the oldest matching pending task to running and return it; no two callers get the same one.

        With `lease_ms`, the claim is the owner's for that long; `renew_leases` holds it for longer.
        """

    def save_log(self, log: LogDefinition) -> None: ...
    def get_logs_by_runner(self, runner_id: str) -> Sequence[LogDefinition]: ...
    def acquire_lock(self, key: str, duration_ms: int, meta: LockMetaData | None = None) -> bool: ...
    def release_lock(self, key: str) -> bool: ...
    def check_lock(self, key: str) -> LockDefinition | None: ...
    def extend_lock(self, key: str, duration_ms: int) -> bool: ...
    def save_handler_registration(self, registration: HandlerRegistration) -> None: ...
    def get_handler_registration(self, facet_name: str) -> HandlerRegistration | None: ...
    def list_handler_registrations(self) -> Sequence[HandlerRegistration]: ...
    def delete_handler_registration(self, facet_name: str) -> bool: ...


class TaskStore(Protocol):
    """What pollers and runners need of a store besides `PersistenceAPI`: leases, and the record of themselves."""

    def get_task(self, task_id: str) -> TaskDefinition | None: ...
    def pending_task_names(self, task_list: str = "default") -> list[str]:
        """The names of the tasks of a list that wait to be claimed."""

    def renew_leases(self, task_ids: Sequence[str], owner: str, lease_ms: int) -> list[str]:
        """Hold these claims until that long from now; return the ids of those that are the owner's no longer.
        `lease_ms` 0: for ever.
        """

    def requeue_expired_tasks(self) -> list[str]:
        """Let the tasks be claimed again whose lease has run out; return their ids."""

    def leased_tasks(self) -> list[TaskDefinition]:
        """The running tasks that are claimed for a time, whether that has run out or not."""

    def end_task(self, task_id: str, owner: str, state: str, error: dict[str, object] | None = None) -> bool:
        """Move a task that runs for this owner to its end state; False when it does not."""

    def give_task_back(self, task_id: str, owner: str) -> bool:
        """Let others claim a task that runs for this owner; False when it does not."""

    def get_server(self, server_id: str) -> ServerDefinition | None: ...
    def save_server(self, server: ServerDefinition) -> None: ...
    def update_server_ping(self, server_id: str, ping_ms: int) -> None: ...
    def get_all_servers(self) -> Sequence[ServerDefinition]: ...


class EngineStore(Store, PersistenceAPI, TaskStore, Upkeep, IdentifiedStore, Protocol):
    """A store with all its faces, as every adapter is."""

    def get_waiting_events(self, workflow_id: str) -> Sequence[EventDefinition]:
        """The events of a workflow's steps that have no answer yet, in order of the steps' creation."""
