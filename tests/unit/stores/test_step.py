"""The public view of a step."""

from afl.engine.states import StepState
from afl.engine.types import ObjectType, WorkflowId
from afl.stores.public.step import StepDefinition, StepTransition


def a_step(object_type: str = ObjectType.VARIABLE_ASSIGNMENT) -> StepDefinition:
    return StepDefinition.create(WorkflowId("w1"), object_type, facet_name="shop.Pay")


def test_a_new_step_asks_for_its_first_state() -> None:
    step = a_step()

    assert step.state == step.current_state == "state.statement.Created"
    assert step.is_requesting_state_change
    assert not step.transition.changed
    assert not step.transition.is_requesting_push
    assert step.select_next_state() == "state.facet.initialization.Begin"
    assert step.id != a_step().id


def test_a_block_step_goes_to_block_execution_first() -> None:
    assert a_step(ObjectType.AND_THEN).select_next_state() == "state.block.execution.Begin"


def test_requesting_a_state_change_marks_the_step_changed_and_taking_it_back_does_not() -> None:
    transition = StepTransition(StepState.CREATED, StepState.CREATED)

    transition.request_state_change(False)
    assert not transition.changed
    transition.request_state_change()
    assert transition.changed
    assert transition.is_requesting_state_change


def test_a_committed_transition_starts_over_from_the_current_state() -> None:
    step = a_step()
    step.change_state(StepState.FACET_INIT_BEGIN)
    step.transition.set_push_me(True)
    assert step.transition.original_state == StepState.CREATED

    step.transition.commit()
    step.transition.reset_for_iteration()

    assert step.transition == StepTransition(StepState.FACET_INIT_BEGIN, StepState.FACET_INIT_BEGIN)


def test_a_failed_step_keeps_its_error_and_goes_no_further() -> None:
    step, error = a_step(), ValueError("no funds")

    step.mark_error(error)

    assert step.is_error
    assert step.is_terminal
    assert step.transition.error is error
    assert step.transition.has_error
    assert step.transition.current_state == StepState.STATEMENT_ERROR
    assert step.select_next_state() is None


def test_a_completed_step_requests_nothing() -> None:
    step = a_step()

    step.mark_completed()

    assert step.is_complete
    assert not step.is_requesting_state_change
    assert step.select_next_state() is None


def test_a_return_hides_the_param_of_its_name_even_when_it_is_null() -> None:
    step = a_step()
    step.set_attribute("amount", 1)
    assert step.get_attribute("amount") == 1

    step.set_attribute("amount", None, is_return=True)

    assert step.get_attribute("amount") is None
    assert step.get_attribute("unknown") is None


def test_changing_a_clone_leaves_the_step_as_it_was() -> None:
    step = a_step()
    step.set_attribute("items", [1, {"a": 1}])
    copy = step.clone()
    assert copy == step

    copy.change_state(StepState.FACET_INIT_BEGIN)
    copy.version.workflow_version = "2.0"
    copy.set_attribute("more", 1)
    items = copy.get_attribute("items")
    assert isinstance(items, list)
    items[1]["a"] = 2

    assert step.state == step.transition.current_state == StepState.CREATED
    assert step.version.workflow_version == "1.0"
    assert step.get_attribute("items") == [1, {"a": 1}]
    assert step.get_attribute("more") is None
