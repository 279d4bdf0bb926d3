"""Public views of stored data: steps and events as separate objects for the caller, and their conversion back."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from itertools import dropwhile
from typing import Final, NamedTuple, cast

from afl.core.ids import event_id_of
from afl.core.text.exception_text import exception_class, exception_text
from afl.engine.model.store import ErrorRecord, StepDocument
from afl.engine.states import STEP_TRANSITIONS, EventState, StepState
from afl.engine.types import (
    AttributeValue,
    BlockId,
    FacetAttributes,
    StatementId,
    StepId,
    Value,
    VersionInfo,
    WorkflowId,
    copy_value,
    infer_type_hint,
)
from afl.stores.documents import decode_value
from afl.stores.public.persistence import EventDefinition
from afl.stores.public.step import StepDefinition, StepTransition
from afl.stores.public.stored_values import kept_value, kept_values

#: The states of a step that has the answer to its event.
_PAST_EVENT: Final = frozenset(dropwhile(lambda state: state != StepState.STATEMENT_BLOCKS_BEGIN, STEP_TRANSITIONS)) | {
    StepState.STATEMENT_COMPLETE,
    StepState.STATEMENT_ERROR,
}


class StepNotes(NamedTuple):
    """Data of a public step that a document has no place for. It is valid for one revision of the document only."""

    revision: int
    #: Given names of types that differ from the inferred ones.
    param_hints: Mapping[str, str]
    return_hints: Mapping[str, str]
    versions: tuple[str, str, str]
    original_state: str
    changed: bool
    request_transition: bool
    push_me: bool
    timestamp: int | None

    @classmethod
    def decode(cls, content: bytes) -> StepNotes:
        """Return the notes that `encode_value` wrote."""
        notes = cls(*cast(list, decode_value(content)))  # type: ignore[type-arg]  # the fields, in their order
        workflow, step_schema, runtime = notes.versions
        return notes._replace(versions=(workflow, step_schema, runtime))


def view_step(document: StepDocument, notes: StepNotes | None = None) -> StepDefinition:
    """Return a step as a public object that belongs to the caller."""
    if notes is not None and notes.revision != document.revision:
        notes = None
    state = document.state
    step = StepDefinition(
        id=StepId(document.id),
        object_type=document.object_type,
        workflow_id=WorkflowId(document.workflow_id),
        statement_id=None if document.statement_id is None else StatementId(document.statement_id),
        container_type=document.container_type,
        container_id=None if document.container_id is None else StepId(document.container_id),
        block_id=None if document.block_id is None else BlockId(document.block_id),
        root_id=None if document.root_id is None else StepId(document.root_id),
        state=state,
        transition=StepTransition(state, state, error=view_error(document.error)),
        facet_name=document.facet_name,
        attributes=FacetAttributes(
            params=_view_attributes(document.params, notes.param_hints if notes else {}),
            returns=_view_attributes(document.returns, notes.return_hints if notes else {}),
        ),
        foreach_var=document.foreach_var,
        foreach_value=copy_value(document.foreach_value),
        timestamp=document.created_at_ms or None,
        attempt=document.attempt,
    )
    if notes is not None:
        step.version = VersionInfo(*notes.versions)
        step.timestamp = notes.timestamp
        step.transition = StepTransition(
            notes.original_state,
            state,
            changed=notes.changed,
            request_transition=notes.request_transition,
            push_me=notes.push_me,
            error=step.transition.error,
        )
    return step


def document_of(
    step: StepDefinition, *, number: int, revision: int, before: StepDocument | None
) -> tuple[StepDocument, StepNotes]:
    """Return a public step as a document that shares no mutable object with it.

    `before` is the previous document: it keeps the fields that a public step does not show (its number, its event).
    Raises ValueRefused with the attribute whose value is not an AFL value.
    """
    params, param_hints = _plain_attributes(step.attributes.params, f"step {step.id}, params")
    returns, return_hints = _plain_attributes(step.attributes.returns, f"step {step.id}, returns")
    document = StepDocument(
        id=step.id,
        workflow_id=step.workflow_id,
        number=number if before is None else before.number,
        revision=revision,
        object_type=step.object_type,
        state=step.state,
        statement_id=step.statement_id,
        facet_name=step.facet_name,
        container_id=step.container_id,
        container_type=step.container_type,
        block_id=step.block_id,
        root_id=step.root_id,
        params=params,
        returns=returns,
        attempt=step.attempt,
        event_state="" if before is None else _event_state(step, before),
        error=_record_error(step, before),
        foreach_index=None if before is None else before.foreach_index,
        foreach_var=step.foreach_var,
        foreach_value=kept_value(step.foreach_value, f"step {step.id}, foreach_value"),
        created_at_ms=step.timestamp or 0,
        deadline_ms=None if before is None else before.deadline_ms,
        retry=None if before is None else before.retry,
    )
    notes = StepNotes(
        revision=revision,
        param_hints=param_hints,
        return_hints=return_hints,
        versions=(step.version.workflow_version, step.version.step_schema_version, step.version.runtime_version),
        original_state=step.transition.original_state,
        changed=step.transition.changed,
        request_transition=step.transition.request_transition,
        push_me=step.transition.push_me,
        timestamp=step.timestamp,
    )
    return document, notes


def _event_state(step: StepDefinition, before: StepDocument) -> str:
    """Return the state of a public step's event: moving the step on from there counts as its answer."""
    state = before.event_state
    if not state or EventState.is_terminal(state) or step.state not in _PAST_EVENT:
        return state
    return EventState.ERROR if step.is_error else EventState.COMPLETED


def _view_attributes(values: Mapping[str, Value], hints: Mapping[str, str]) -> dict[str, AttributeValue]:
    return {
        name: AttributeValue(name, copy_value(value), hints.get(name) or infer_type_hint(value))
        for name, value in values.items()
    }


def _plain_attributes(attributes: Mapping[str, object], path: str) -> tuple[dict[str, Value], dict[str, str]]:
    """Split attributes into their values and the type names that cannot be inferred."""
    values: dict[str, object] = {}
    hints: dict[str, str] = {}
    for name, attribute in attributes.items():
        value, hint = attribute, ""
        if isinstance(attribute, AttributeValue):
            value, hint = attribute.value, attribute.type_hint
        elif isinstance(attribute, Mapping) and "value" in attribute and "type_hint" in attribute:
            # The form of attributes in documents; callers have always been free to pass it in.
            value, hint = attribute["value"], str(attribute["type_hint"])
        values[name] = value
        if hint and hint != infer_type_hint(value):
            hints[name] = hint
    return kept_values(values, path), hints


def _record_error(step: StepDefinition, before: StepDocument | None) -> ErrorRecord | None:
    error = step.transition.error
    if error is None:
        return None
    if before is not None and before.error is not None and before.error.message == str(error):
        # An error that was read as an exception keeps, when it comes back, the fields that exceptions lack.
        return before.error
    kind, message = exception_class(error), exception_text(error)
    return ErrorRecord(type=kind, message=message, step_id=step.id, facet=step.facet_name)


def view_error(record: ErrorRecord | None) -> Exception | None:
    """Return a failure as an exception: of its own class if that is a builtin one, and always with its own text."""
    if record is None:
        return None
    error: Exception = builtins.RuntimeError(record.message)
    kind = getattr(builtins, record.type, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            same = kind(record.message)
        except TypeError:
            # Some need more than a text (UnicodeDecodeError); only their text matters.
            same = error
        if str(same) == record.message:
            error = same
    where = record.path or record.step_id
    error.add_note(f"{record.type}{f' at {where}' if where else ''}{f', line {record.line}' if record.line else ''}")
    return error


def view_event(document: StepDocument, *, dispatched: bool = False, claimed: bool = False) -> EventDefinition:
    """Return the event of a step's current attempt.

    `dispatched`: its record has left the outbox; `claimed`: its task is claimed.
    """
    state = document.event_state
    if state == EventState.CREATED and (claimed or dispatched):
        state = EventState.PROCESSING if claimed else EventState.DISPATCHED
    return EventDefinition(
        id=event_id_of(document.id, document.attempt),
        step_id=document.id,
        workflow_id=document.workflow_id,
        state=state,
        event_type=document.facet_name,
        payload=cast(dict[str, Value], {name: copy_value(value) for name, value in document.params.items()}),
    )
