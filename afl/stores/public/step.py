"""The public view of a step: its identity, its state, and whether it may move on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from afl.engine.states import StepState, select_transitions
from afl.engine.types import (
    ANY_TYPE,
    AttributeValue,
    BlockId,
    FacetAttributes,
    ObjectType,
    StatementId,
    StepId,
    VersionInfo,
    WorkflowId,
    copy_value,
    step_id,
)


@dataclass
class StepTransition:
    """The control of a step's way through its states.

    `request_transition` requests the next state, `push_me` requests another run in the same one, `changed` marks the
    step to be stored, `error` is the reason of its failure.
    """

    original_state: str
    current_state: str
    changed: bool = False
    request_transition: bool = False
    push_me: bool = False
    error: Exception | None = None

    @classmethod
    def initial(cls) -> StepTransition:
        """Return the transition of a step that was just created: it requests its first state."""
        return cls(StepState.CREATED, StepState.CREATED, request_transition=True)

    @property
    def is_requesting_state_change(self) -> bool:
        """Return whether the step requests its next state."""
        return self.request_transition

    @property
    def is_requesting_push(self) -> bool:
        """Return whether the step requests another run in its state."""
        return self.push_me

    @property
    def has_error(self) -> bool:
        """Return whether an error is kept here."""
        return self.error is not None

    def request_state_change(self, request: bool = True) -> None:
        """Request the next state, or withdraw the request."""
        self.request_transition = request
        if request:
            self.changed = True

    def change_and_transition(self) -> None:
        """Mark the step as changed and request its next state."""
        self.changed = True
        self.request_transition = True

    def set_push_me(self, push: bool) -> None:
        """Request another run in the same state, or withdraw the request."""
        self.push_me = push

    def set_error(self, error: Exception) -> None:
        """Keep the reason of the step's failure, and mark the step as changed."""
        self.error = error
        self.changed = True

    def reset_for_iteration(self) -> None:
        """Forget the previous iteration's request for another run."""
        self.push_me = False

    def commit(self) -> None:
        """Treat the current state as the stored one."""
        self.original_state = self.current_state
        self.changed = False
        self.request_transition = False


@dataclass
class StepDefinition:
    """One step of a run: a call, a yield, a block, or the run itself.

    `container_id` is the step that owns the block around it, `block_id` the block whose statement it is, `root_id` the
    step of the run. `timestamp` is the time of its creation, in milliseconds since the epoch. `attempt` counts its
    events.
    """

    id: StepId
    object_type: str
    workflow_id: WorkflowId
    statement_id: StatementId | None = None
    container_type: str | None = None
    container_id: StepId | None = None
    block_id: BlockId | StepId | None = None
    root_id: StepId | None = None
    state: str = StepState.CREATED
    transition: StepTransition = field(default_factory=StepTransition.initial)
    facet_name: str = ""
    attributes: FacetAttributes = field(default_factory=FacetAttributes)
    version: VersionInfo = field(default_factory=VersionInfo)
    foreach_var: str | None = None
    foreach_value: object = None
    timestamp: int | None = None
    attempt: int = 0

    @classmethod
    def create(
        cls,
        workflow_id: WorkflowId,
        object_type: str,
        facet_name: str = "",
        statement_id: StatementId | None = None,
        container_id: StepId | None = None,
        container_type: str | None = None,
        block_id: BlockId | StepId | None = None,
        root_id: StepId | None = None,
    ) -> StepDefinition:
        """Return a new step with a fresh id, in state Created."""
        return cls(
            id=step_id(),
            object_type=object_type,
            workflow_id=workflow_id,
            statement_id=statement_id,
            container_type=container_type,
            container_id=container_id,
            block_id=block_id,
            root_id=root_id,
            facet_name=facet_name,
        )

    @property
    def current_state(self) -> str:
        """The current state."""
        return self.state

    @property
    def is_complete(self) -> bool:
        """Return whether it has completed."""
        return StepState.is_complete(self.state)

    @property
    def is_error(self) -> bool:
        """Return whether it has failed."""
        return StepState.is_error(self.state)

    @property
    def is_terminal(self) -> bool:
        """Return whether it is finished, successfully or not."""
        return StepState.is_terminal(self.state)

    @property
    def is_block(self) -> bool:
        """Return whether it runs the statements of a block."""
        return ObjectType.is_block(self.object_type)

    @property
    def is_statement(self) -> bool:
        """Return whether it is a call or a yield."""
        return ObjectType.is_statement(self.object_type)

    @property
    def is_requesting_state_change(self) -> bool:
        """Return whether it requests its next state."""
        return self.transition.is_requesting_state_change

    def change_state(self, new_state: str) -> None:
        """Move to a state; the caller must follow the table."""
        self._enter(new_state)
        self.transition.changed = True

    def request_state_change(self, request: bool = True) -> None:
        """Request the next state, or withdraw the request."""
        self.transition.request_state_change(request)

    def mark_error(self, error: Exception | None = None) -> None:
        """Move to Error and keep the reason."""
        self._enter(StepState.STATEMENT_ERROR)
        self.transition.changed = True
        self.transition.request_transition = False
        if error is not None:
            self.transition.set_error(error)

    def mark_completed(self) -> None:
        """Move to Complete, permanently."""
        self._enter(StepState.STATEMENT_COMPLETE)
        self.transition.changed = True
        self.transition.request_transition = False

    def select_next_state(self) -> str | None:
        """Return the next state for this kind of step, None at the end."""
        return select_transitions(self.object_type).get(self.state)

    def clone(self) -> StepDefinition:
        """Return a copy with the same id that shares no mutable object with this one."""
        return replace(
            self,
            transition=replace(self.transition),
            attributes=FacetAttributes(
                params=_copy_attributes(self.attributes.params),
                returns=_copy_attributes(self.attributes.returns),
            ),
            version=replace(self.version),
            foreach_value=copy_value(self.foreach_value),
        )

    def set_attribute(self, name: str, value: object, is_return: bool = False) -> None:
        """Set a param, or a return if `is_return` is set."""
        if is_return:
            self.attributes.set_return(name, value)
        else:
            self.attributes.set_param(name, value)

    def get_attribute(self, name: str) -> object:
        """Return the return of that name, else the param, else None. A return that is null hides the param."""
        attributes = self.attributes
        if name in attributes.returns:
            return attributes.returns[name].value
        return attributes.get_param(name)

    def _enter(self, state: str) -> None:
        self.state = state
        self.transition.current_state = state


def _copy_attributes(attributes: dict[str, AttributeValue]) -> dict[str, AttributeValue]:
    # An explicit hint "Any" stays so for null; for any other value it was inferred before.
    return {
        key: AttributeValue(attribute.name, copy_value(attribute.value), attribute.type_hint or ANY_TYPE)
        for key, attribute in attributes.items()
    }
