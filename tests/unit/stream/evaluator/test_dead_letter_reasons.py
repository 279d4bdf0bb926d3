"""The reasons of evaluators' dead letters are a closed set: counters have each from the start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from inspect import getsource
from pathlib import Path
from types import ModuleType

import pytest

import afl_stream.evaluator
from afl_stream.errors import IdRefused, NewerFormat, SchemaUnavailable, Unreadable
from afl_stream.evaluator.monitoring.dead_letter_reasons import REASONS, REFUSING
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.event_errors import EventDropped
from afl_stream.wire.dead_letters import reason_of

#: The modules that judge records: what they raise on purpose refuses one, or makes it wait.
JUDGES = (
    "answers",
    "external.continuing",
    "external.early_room",
    "external.external_events",
    "operator_commands",
    "parked.parking_limits",
    "run_commands",
    "runs",
    "schedules.commands",
    "sensitive.outgoing",
    "unit_of_work",
)
#: What is waited for, or concerns the batch and not a record; a record that cannot be read has its Reason.
NO_REFUSAL = {
    "BatchOfItsOwn",
    "EarlierCommitFailed",
    "ServiceEnded",
    *(k.__name__ for k in (NewerFormat, SchemaUnavailable, Unreadable)),
}


def leaves(kind: type[Exception]) -> Iterator[type[Exception]]:
    """Return the classes under this one that nothing of ours is derived from."""
    under = [each for each in kind.__subclasses__() if each.__module__.startswith(("afl.", "afl_stream."))]
    for each in under:
        yield from leaves(each)
    if not under:
        yield kind


@pytest.mark.parametrize("family", [*REFUSALS, EventDropped], ids=lambda kind: kind.__name__)
def test_every_refusal_has_a_reason_that_is_known(family: type[Exception]) -> None:
    assert {kind.__name__ for kind in leaves(family)} - set(REASONS) == set()


def raised_in(module: ModuleType) -> set[str]:
    """Return the names of our exceptions that a module raises."""
    calls = [node.exc for node in ast.walk(ast.parse(getsource(module))) if isinstance(node, ast.Raise)]
    names = {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    return {name for name in names if getattr(vars(module).get(name), "__module__", "builtins").startswith("afl")}


@pytest.mark.parametrize("name", JUDGES)
def test_what_a_module_that_judges_records_raises_has_a_reason_that_is_known(name: str) -> None:
    module = import_module(f"{afl_stream.evaluator.__name__}.{name}")

    assert raised_in(module) - NO_REFUSAL - set(REASONS) == set()


def test_every_module_that_makes_dead_letters_is_looked_at() -> None:
    (folder,) = map(Path, afl_stream.evaluator.__path__)
    making = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if ".dead_letter(" in path.read_text(encoding="utf-8")
    }

    # These give up what others have refused.
    assert making - set(JUDGES) == {"batch_outputs", "parked.parked_answers", "workflow_failure"}


def test_each_reason_is_there_once() -> None:
    assert len(set(REASONS)) == len(REASONS)
    assert reason_of(IdRefused("workflow_id", "", "a name")) in REASONS
    assert all(issubclass(kind, Exception) for kind in REFUSING)
