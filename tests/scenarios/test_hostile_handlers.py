"""A handler's objects harm no process: their errors fail their step, under every poller, runner and agent."""

from __future__ import annotations

import pytest

from afl.core.text.exception_text import exception_traceback
from afl.engine.model.store import WorkflowRow
from tests.eventually import eventually
from tests.scenarios.execution_models import MODELS, Model
from tests.scenarios.handlers.hostile import HOSTILE, PROGRAM, facet_of

MODULE = "tests.scenarios.handlers.hostile"
DEADLINE_S = 60.0


@pytest.mark.parametrize("kind", MODELS)
def test_what_a_handler_makes_becomes_its_steps_failure_and_nothing_else(kind: str) -> None:
    try:
        rows = _played(MODELS[kind](PROGRAM))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told as text
        # pytest would show the arguments of each frame, and some are such objects.
        raise AssertionError(exception_traceback(error)) from None

    found = {name: None if row.error is None else row.error.type for name, row in rows.items()}
    assert found == {handler.__name__: failure for handler, failure in HOSTILE.items()}
    assert rows["subclasses"].outputs == {"value": ["text", 7, [1, 2], "red", {"a": [1, 2]}]}
    assert all(len(row.error.message) < 11_000 for row in rows.values() if row.error is not None)


def _played(model: Model) -> dict[str, WorkflowRow]:
    try:
        model.registrar.register_module(MODULE)
        runs = {handler.__name__: model.start(f"hostile.Run{facet_of(handler)}", {}) for handler in HOSTILE}
        model.work()

        return _ended(model, runs)
    finally:
        model.close()


def _ended(model: Model, runs: dict[str, str]) -> dict[str, WorkflowRow]:
    rows: dict[str, WorkflowRow] = {}

    def look() -> bool:
        for name, workflow_id in runs.items():
            if name not in rows:
                row = model.row(workflow_id)
                if row is not None and row.status in ("COMPLETED", "ERROR"):
                    rows[name] = row
        return len(rows) == len(runs)

    try:
        eventually(look, DEADLINE_S, interval_s=0.01)
    except AssertionError:
        raise AssertionError(f"without an end: {', '.join(runs.keys() - rows.keys())}") from None
    return rows
