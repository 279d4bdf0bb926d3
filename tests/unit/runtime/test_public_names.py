"""Every public name of the engine can be imported: from the package, from its module, and no sooner than it is used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import afl.runtime
from afl.engine.model import entities
from afl.evaluation import block

#: What users of `afl.runtime` rely on, by the module that has it.
NAMES = {
    "types": "StepId BlockId EventId WorkflowId StatementId ObjectType AttributeValue FacetAttributes VersionInfo "
    "generate_id step_id block_id event_id workflow_id",
    "states": "StepState EventState STEP_TRANSITIONS BLOCK_TRANSITIONS YIELD_TRANSITIONS SCHEMA_TRANSITIONS "
    "EVENT_TRANSITIONS get_next_state select_transitions",
    "step": "StepDefinition StepTransition",
    "persistence": "PersistenceAPI IterationChanges EventDefinition",
    "memory_store": "MemoryStore",
    "block": "StatementDefinition StepAnalysis BlockAnalysis",
    "dependency": "DependencyGraph",
    "expression": "ExpressionEvaluator EvaluationContext evaluate_args",
    "evaluator": "Evaluator ExecutionContext ExecutionResult ExecutionStatus",
    "telemetry": "Telemetry TelemetryEvent",
    "events": "EventManager EventDispatcher LocalEventHandler",
    "errors": "RuntimeError InvalidStepStateError StepNotFoundError BlockNotFoundError DependencyNotSatisfiedError "
    "EvaluationError ReferenceError InvalidTransitionError ConcurrencyError EventError VersionMismatchError",
    "dao": "FlowDefinitionDAO WorkflowDefinitionDAO RunnerDefinitionDAO StepDefinitionDAO EventDefinitionDAO "
    "TaskDefinitionDAO LogDefinitionDAO ServerDefinitionDAO KeyLockDAO DataServices",
}
HANDLERS = {
    "initialization": "StatementBeginHandler FacetInitializationBeginHandler FacetInitializationEndHandler",
    "scripts": "FacetScriptsBeginHandler FacetScriptsEndHandler StatementScriptsBeginHandler "
    "StatementScriptsEndHandler",
    "blocks": "MixinBlocksBeginHandler MixinBlocksContinueHandler MixinBlocksEndHandler StatementBlocksBeginHandler "
    "StatementBlocksContinueHandler StatementBlocksEndHandler",
    "capture": "MixinCaptureBeginHandler MixinCaptureEndHandler StatementCaptureBeginHandler "
    "StatementCaptureEndHandler",
    "completion": "EventTransmitHandler StatementEndHandler StatementCompleteHandler",
    "block_execution": "BlockExecutionBeginHandler BlockExecutionContinueHandler BlockExecutionEndHandler",
    "base": "StateHandler",
}
CHANGERS = {
    "base": "StateChanger",
    "step_changer": "StepStateChanger",
    "block_changer": "BlockStateChanger",
    "yield_changer": "YieldStateChanger",
}


def pairs(names: dict[str, str]) -> list[tuple[str, str]]:
    return [(module, name) for module, listed in names.items() for name in listed.split()]


@pytest.mark.parametrize(("module", "name"), pairs(NAMES))
def test_a_name_is_the_same_in_the_package_and_in_its_module(module: str, name: str) -> None:
    assert getattr(afl.runtime, name) is getattr(import_module(f"afl.runtime.{module}"), name)


@pytest.mark.parametrize(
    "name", [name for name, thing in vars(entities).items() if getattr(thing, "__module__", "") == entities.__name__]
)
def test_every_entity_is_in_the_package(name: str) -> None:
    alias = "EntityStatementDefinition" if name == "StatementDefinition" else name

    assert getattr(afl.runtime, alias) is getattr(entities, name)


def test_of_two_classes_of_one_name_the_package_has_that_of_blocks() -> None:
    assert afl.runtime.StatementDefinition is block.StatementDefinition


@pytest.mark.parametrize("name", afl.runtime.__all__)
def test_everything_that_the_package_lists_is_there(name: str) -> None:
    assert getattr(afl.runtime, name) is not None
    assert name in dir(afl.runtime)


@pytest.mark.parametrize(("module", "name"), pairs(HANDLERS))
def test_handlers_are_found_in_their_modules(module: str, name: str) -> None:
    assert isinstance(getattr(import_module(f"afl.runtime.handlers.{module}"), name), type)


@pytest.mark.parametrize(("module", "name"), pairs(CHANGERS))
def test_changers_are_found_in_their_modules(module: str, name: str) -> None:
    assert isinstance(getattr(import_module(f"afl.runtime.changers.{module}"), name), type)


def test_every_state_of_every_table_has_its_handler() -> None:
    from afl.runtime import BLOCK_TRANSITIONS, SCHEMA_TRANSITIONS, STEP_TRANSITIONS, YIELD_TRANSITIONS, StepState
    from afl.runtime.handlers import STATE_HANDLERS

    for table in (STEP_TRANSITIONS, BLOCK_TRANSITIONS, YIELD_TRANSITIONS, SCHEMA_TRANSITIONS):
        assert {*table, *table.values()} <= set(STATE_HANDLERS)
    assert StepState.STATEMENT_ERROR not in STATE_HANDLERS


def test_a_step_is_driven_by_the_changer_of_its_kind() -> None:
    from afl.runtime import (
        ExecutionContext,
        IterationChanges,
        MemoryStore,
        ObjectType,
        StepDefinition,
        Telemetry,
        WorkflowId,
    )
    from afl.runtime.changers import create_state_changer, get_state_changer

    context = ExecutionContext(MemoryStore(), Telemetry(), IterationChanges(), "w")

    def changer(object_type: str) -> str:
        step = StepDefinition.create(WorkflowId("w"), object_type)
        return type(get_state_changer(step, context)).__name__

    assert changer(ObjectType.VARIABLE_ASSIGNMENT) == changer(ObjectType.WORKFLOW) == "StepStateChanger"
    assert changer(ObjectType.AND_THEN) == "BlockStateChanger"
    assert changer(ObjectType.YIELD_ASSIGNMENT) == "YieldStateChanger"
    assert changer(ObjectType.SCHEMA_INSTANTIATION) == "SchemaStateChanger"
    assert create_state_changer is get_state_changer


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        afl.runtime.Nothing  # type: ignore[attr-defined]  # noqa: B018 - asking for it is the test


def test_what_type_checkers_see_is_what_is_there() -> None:
    tree = ast.parse(Path(str(afl.runtime.__file__)).read_text())
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname for node in branch.body if isinstance(node, ast.ImportFrom) for alias in node.names}

    assert {name for name in seen if name and name[0] != "_"} | {"EntityStatementDefinition"} == set(
        afl.runtime.__all__
    )


def test_importing_the_package_loads_none_of_its_modules() -> None:
    script = "import sys, afl.runtime; print(*[m for m in sys.modules if m.startswith('afl.')])"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert set(loaded.split()) == {"afl.core", "afl.core.lazy_names", "afl.runtime"}
