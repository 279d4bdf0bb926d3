"""The public names of the engine: which of two is meant, and that none is loaded before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import afl.runtime
from afl.evaluation import block


def test_of_two_classes_of_one_name_the_package_has_that_of_blocks() -> None:
    assert afl.runtime.StatementDefinition is block.StatementDefinition


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

    assert set(loaded.split()) == {"afl.core", "afl.core.lazy_names", "afl.core.release", "afl.runtime"}
