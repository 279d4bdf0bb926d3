"""Stored entities."""

from dataclasses import MISSING, asdict, fields, is_dataclass

import pytest

from afl.engine.model import entities
from afl.engine.model.entities import (
    FlowDefinition,
    FlowIdentity,
    HandlerRegistration,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    NoteImportance,
    Parameter,
    RunnerDefinition,
    RunnerState,
    ServerDefinition,
    ServerState,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)

ENTITIES = [value for value in vars(entities).values() if is_dataclass(value) and isinstance(value, type)]


def a_workflow() -> WorkflowDefinition:
    return WorkflowDefinition("w", "Checkout", "n", "f", "flow", "start", "1.0")


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_entity_becomes_plain_maps_and_shares_no_default(entity: type) -> None:
    required = {field.name: field.name for field in fields(entity) if _is_required(field)}
    first, second = entity(**required), entity(**required)

    plain = asdict(first)

    assert list(plain) == [field.name for field in fields(entity)]
    for name, value in vars(first).items():
        assert not isinstance(value, list | dict) or value is not getattr(second, name)


def _is_required(field: object) -> bool:
    return (getattr(field, "default"), getattr(field, "default_factory")) == (MISSING, MISSING)  # noqa: B009


def test_nested_entities_become_nested_maps() -> None:
    runner = RunnerDefinition("r1", "w1", a_workflow(), parameters=[Parameter("sku", "A1", "String")])

    plain = asdict(runner)

    assert plain["workflow"]["name"] == "Checkout"
    assert plain["parameters"] == [{"name": "sku", "value": "A1", "type_hint": "String"}]
    assert plain["state"] == "created"


def test_a_flow_starts_with_empty_catalogues() -> None:
    flow = FlowDefinition("f1", FlowIdentity("Shop", "/shop", "f1"))

    assert (flow.facets, flow.compiled_sources, flow.inline) == ([], [], None)


def test_a_new_task_waits_on_the_default_list() -> None:
    task = TaskDefinition("t1", "shop.Pay", "r1", "w1", "", "s1")

    assert (task.state, task.task_list_name, task.data, task.created) == ("pending", "default", None, 0)


def test_a_new_server_is_starting_up() -> None:
    assert ServerDefinition("s1", "group", "service", "host").state == "startup"


def test_a_handler_registration_allows_half_a_minute() -> None:
    registration = HandlerRegistration("shop.Pay", "file:///pay.py")

    assert (registration.entrypoint, registration.version, registration.timeout_ms) == ("handle", "1.0.0", 30_000)


def test_a_log_entry_is_a_workflow_s_note_of_normal_importance() -> None:
    log = LogDefinition("l1", 0, "r1")

    assert (log.note_originator, log.note_type, log.note_importance) == ("workflow", "info", 5)


def test_a_lock_carries_what_it_is_for() -> None:
    lock = LockDefinition("k", 1, 2, LockMetaData(topic="shop.Pay"))

    assert asdict(lock)["meta"] == {"topic": "shop.Pay", "handler": None, "step_name": None, "step_id": None}


def test_a_canceled_task_has_one_l_and_a_cancelled_run_two() -> None:
    assert (TaskState.CANCELED, RunnerState.CANCELLED) == ("canceled", "cancelled")
    assert (ServerState.STARTUP, ServerState.SHUTDOWN) == ("startup", "shutdown")
    assert (NoteImportance.HIGH, NoteImportance.NORMAL, NoteImportance.LOW) == (1, 5, 10)
