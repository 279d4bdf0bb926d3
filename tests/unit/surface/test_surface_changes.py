"""Changes of a step's transition, the collection of an iteration, and the commands of the engine and its publisher."""

from __future__ import annotations

from importlib import import_module

import pytest

from afl.runtime import EventDefinition, IterationChanges, StepDefinition, StepTransition, TaskDefinition
from afl.runtime.states import EventState, StepState
from afl.runtime.types import ObjectType, WorkflowId


def a_transition(*, changed: bool = False, request_transition: bool = False) -> StepTransition:
    return StepTransition(StepState.CREATED, StepState.FACET_INIT_BEGIN, changed, request_transition)


def a_step() -> StepDefinition:
    return StepDefinition.create(WorkflowId("w"), ObjectType.VARIABLE_ASSIGNMENT)


def an_event(event_id: str) -> EventDefinition:
    return EventDefinition(event_id, "s", "w", EventState.CREATED, "shop.Pay")


def test_a_new_transition_asks_for_the_first_state_and_has_changed_nothing() -> None:
    found = StepTransition.initial()

    assert (found.original_state, found.current_state) == (StepState.CREATED, StepState.CREATED)
    assert (found.request_transition, found.changed, found.push_me, found.error) == (True, False, False, None)


def test_a_change_with_a_transition_is_both() -> None:
    transition = a_transition()

    transition.change_and_transition()

    assert (transition.changed, transition.request_transition) == (True, True)


def test_a_step_asks_to_be_run_again_until_the_next_iteration() -> None:
    transition = a_transition(changed=True)

    transition.set_push_me(True)
    assert transition.is_requesting_push

    transition.reset_for_iteration()
    assert not transition.is_requesting_push
    assert transition.changed


def test_a_kept_error_is_a_change() -> None:
    transition, error = a_transition(), ValueError("broken")

    transition.set_error(error)

    assert (transition.error, transition.has_error, transition.changed) == (error, True, True)


def test_a_committed_transition_starts_at_its_state() -> None:
    transition = a_transition(changed=True, request_transition=True)

    transition.commit()

    assert transition.original_state == StepState.FACET_INIT_BEGIN
    assert (transition.changed, transition.request_transition) == (False, False)


def test_a_step_is_completed_failed_and_moved_on() -> None:
    step = a_step()
    assert step.select_next_state() == StepState.FACET_INIT_BEGIN

    step.mark_completed()
    assert (step.state, step.transition.current_state) == (StepState.STATEMENT_COMPLETE,) * 2
    assert not step.is_requesting_state_change
    assert step.select_next_state() is None

    step.mark_error(ValueError("broken"))
    assert (step.state, step.transition.current_state) == (StepState.STATEMENT_ERROR,) * 2
    assert str(step.transition.error) == "broken"


def test_changes_collect_each_new_step_once_and_the_last_state_of_a_changed_one() -> None:
    changes, first, second = IterationChanges(), a_step(), a_step()
    newer = first.clone()
    newer.facet_name = "shop.Pay"

    changes.add_created_step(first)
    changes.add_created_step(first.clone())
    for step in (first, second, newer):
        changes.add_updated_step(step)

    assert changes.created_steps == [first]
    assert changes.updated_steps[0] is newer
    assert changes.updated_steps[1] is second


def test_changes_collect_events_and_tasks_and_are_cleared() -> None:
    changes = IterationChanges()
    assert not changes.has_changes

    changes.add_created_event(an_event("new"))
    changes.add_updated_event(an_event("changed"))
    changes.add_created_task(TaskDefinition("t", "shop.Pay", "r", "w", "f", "s"))

    assert changes.has_changes
    assert [event.id for event in changes.created_events] == ["new"]
    assert [event.id for event in changes.updated_events] == ["changed"]
    assert [task.uuid for task in changes.created_tasks] == ["t"]
    step = a_step()
    changes.add_created_step(step)
    changes.clear()
    assert not changes.has_changes
    changes.add_created_step(step)
    assert changes.created_steps == [step]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("afl.publisher", "SourcePublisher PublishError"),
        ("afl.runtime.agent_poller", "AgentPoller AgentPollerConfig"),
        ("afl.runtime.registry_runner", "RegistryRunner RegistryRunnerConfig"),
        ("afl.runtime.mongo_store", "MongoStore"),
        ("afl.workers.service.__main__", "main"),
        ("afl.runtime.storage", "get_storage_backend"),
    ],
)
def test_a_module_has_its_names(module: str, names: str) -> None:
    found = import_module(module)

    assert [name for name in names.split() if not hasattr(found, name)] == []
