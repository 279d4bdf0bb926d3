"""Engines for tests of what survives a pause: one that keeps its memory, and two that lose it whenever they can."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from afl.engine.types import Value
from afl.evaluation.evaluator import ExecutionResult
from afl.stores.sqlite.store import SqliteStore
from tests.unit.engine.running import Engine

MakeEngine = Callable[[str], Engine]


class ForgetfulEngine(Engine):
    """Loses its memory before and after each answer."""

    def answer(self, path: str, result: Mapping[str, Value] | None = None) -> ExecutionResult:
        self.restart()
        self.evaluator.continue_step(self.step(path).id, result, is_checked=result is not None)
        self.restart()
        return self.resume()

    def fail(self, path: str, message: str = "broken", error_type: str = "Broken") -> ExecutionResult:
        self.restart()
        self.evaluator.fail_step(self.step(path).id, message, error_type)
        self.restart()
        return self.resume()


@pytest.fixture(params=["hot", "forgetful", "sqlite"])
def make_engine(request: pytest.FixtureRequest, tmp_path: Path) -> MakeEngine:
    """Make an engine for a program: with its memory, without, and without over a file."""
    kind = request.param

    def make(text: str) -> Engine:
        if kind == "hot":
            return Engine(text)
        if kind == "forgetful":
            return ForgetfulEngine(text)
        store = SqliteStore(tmp_path / "engine.db")
        request.addfinalizer(store.close)
        return ForgetfulEngine(text, store=store)

    return make
