"""The users' face of every store: steps, events, tasks, locks and registrations as public objects."""

from collections.abc import Sequence, Set
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
from afl.stores.public.history import WorkflowHistory
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
    """The steps and events that one iteration made and changed, as public objects."""

    created_steps: list[StepDefinition] = field(default_factory=list)
    updated_steps: list[StepDefinition] = field(default_factory=list)
    created_events: list[EventDefinition] = field(default_factory=list)
    updated_events: list[EventDefinition] = field(default_factory=list)
    created_tasks: list[TaskDefinition] = field(default_factory=list)
    _created_ids: set[str] = field(default_factory=set, repr=False, compare=False)
    _updated_at: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def add_created_step(self, step: StepDefinition) -> None:
        """Note a new step; a second one with the same id is dropped."""
        if step.id not in self._created_ids:
            self._created_ids.add(step.id)
            self.created_steps.append(step)

    def add_updated_step(self, step: StepDefinition) -> None:
        """Note a changed step; a later change of the same step replaces the earlier one."""
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
        """Forget all changes noted so far."""
        for noted in (self.created_steps, self.updated_steps, self.created_events, self.updated_events):
            noted.clear()
        self.created_tasks.clear()
        self._created_ids.clear()
        self._updated_at.clear()


@runtime_checkable
class PersistenceAPI(Protocol):
    """The interface of a store for users."""

    def get_step(self, step_id: str) -> StepDefinition | None: ...
    def get_steps_by_block(self, block_id: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_workflow(self, workflow_id: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_state(self, state: str) -> Sequence[StepDefinition]: ...
    def get_steps_by_container(self, container_id: str) -> Sequence[StepDefinition]: ...
    def get_blocks_by_step(self, step_id: str) -> Sequence[StepDefinition]:
        """Return the block steps whose container is that step."""

    def get_workflow_root(self, workflow_id: str) -> StepDefinition | None:
        """Return the step without container and root."""

    def step_exists(self, statement_id: str, block_id: str | None) -> bool: ...
    def save_step(self, step: StepDefinition) -> None: ...
    def get_history(self, workflow_id: str, execution: int | None = None) -> WorkflowHistory:
        """Return the external events, waits and executions of a workflow, or of one of its executions."""

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
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        owner: str = "",
        lease_ms: int = 0,
        except_workflows: Set[str] = frozenset(),
    ) -> TaskDefinition | None:
        """Move the oldest matching pending task to running and return it; no two callers get the same one.

        With `lease_ms`, the owner has the claim for that long; `renew_leases` extends it. Tasks of
        `except_workflows` wait.
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
    """The store interface of pollers and runners besides `PersistenceAPI`: leases, and their own server records."""

    def get_task(self, task_id: str) -> TaskDefinition | None: ...
    def pending_task_names(self, task_list: str = "default") -> list[str]:
        """Return the names of the unclaimed tasks of a list."""

    def renew_leases(self, task_ids: Sequence[str], owner: str, lease_ms: int) -> list[str]:
        """Renew these claims for that long from now; return the ids of those that the owner has lost.

        `lease_ms` 0: without end.
        """

    def requeue_expired_tasks(self) -> list[str]:
        """Make the tasks whose lease has expired claimable again; return their ids."""

    def leased_tasks(self) -> list[TaskDefinition]:
        """Return the running tasks that are claimed for a limited time, expired or not."""

    def end_task(self, task_id: str, owner: str, state: str, error: dict[str, object] | None = None) -> bool:
        """Move a task that runs for this owner to its end state; False when it does not."""

    def give_task_back(self, task_id: str, owner: str) -> bool:
        """Make a task that runs for this owner claimable again; False when it does not run for it."""

    def get_server(self, server_id: str) -> ServerDefinition | None: ...
    def save_server(self, server: ServerDefinition) -> None: ...
    def update_server_ping(self, server_id: str, ping_ms: int) -> None: ...
    def get_all_servers(self) -> Sequence[ServerDefinition]: ...


class EngineStore(Store, PersistenceAPI, TaskStore, Upkeep, IdentifiedStore, Protocol):
    """A store with all its interfaces, as every adapter is."""

    def get_waiting_events(self, workflow_id: str) -> Sequence[EventDefinition]:
        """Return the unanswered events of a workflow's steps, in order of the steps' creation."""
