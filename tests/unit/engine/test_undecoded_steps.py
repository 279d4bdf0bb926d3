"""Loading a run leaves its complete steps in the store, or as that has them, until someone asks for one."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from afl.engine.errors import StoreUnavailable
from afl.engine.execution.execution import Execution
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.restore import restore_open
from afl.engine.execution.run_bounds import RunBounds, RunLimits
from afl.engine.execution.stored_steps import find_step
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.store import OpenRun, StepDocument, StoredStep
from afl.engine.types import Value
from afl.engine.workflow_cache import WorkflowCache
from afl.stores.sqlite.store import SqliteStore
from tests.unit.engine.running import Engine, compiled

_CHAIN = """
event facet Ask(n: Long) => (n: Long)
workflow W() => (sum: Long) andThen {
    a = Ask(n = 1)
    b = Ask(n = a.n)
    c = Ask(n = a.n + b.n)
    yield W(sum = c.n)
}
"""
_ELEMENTS = """
event facet Ask(n: Long) => (n: Long)
facet Both(n: Long) => (n: Long) andThen {
    a = Ask(n = $.n)
    b = Ask(n = a.n)
    yield Both(n = b.n)
}
workflow W(values: [Long]) => (all: [Long]) andThen foreach value in $.values {
    both = Both(n = $.value)
    last = Ask(n = both.n)
    yield W(all = [last.n])
}
"""


#: The yield reads steps that were complete long before.
_EARLY = """
event facet Ask(n: Long) => (n: Long)
workflow W() => (sum: Long, first: Long) andThen {
    a = Ask(n = 1)
    b = Ask(n = 10)
    c = Ask(n = b.n)
    d = Ask(n = c.n)
    yield W(sum = a.n + b.n + d.n, first = a.n)
}
"""
#: Each of its branches stands at another place, and one fails.
_BRANCHES = """
event facet Ask(n: Long) => (n: Long)
workflow W() => (sum: Long) andThen {
    a = Ask(n = 1)
    b = Ask(n = a.n)
    x = Ask(n = 10)
    y = Ask(n = x.n)
    z = Ask(n = y.n + a.n)
    yield W(sum = b.n + z.n)
}
"""


class _CountingStore(SqliteStore):
    """Counts how its runs are read, and can be out of reach for steps that are read late."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.whole_runs = 0
        self.read_late: list[str] = []
        self.is_away = False

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        self.whole_runs += 1
        return super().load_run(workflow_id)

    def load_open(self, workflow_id: str) -> OpenRun:
        found = super().load_open(workflow_id)

        def read(step_id: str) -> StepDocument:
            if self.is_away:
                raise StoreUnavailable(path="test", reason="it is away")
            self.read_late.append(step_id)
            return found.read(step_id)

        return found._replace(read=read)


def _more(facet: str, payload: Mapping[str, Value]) -> Mapping[str, Value]:
    number = payload["n"]
    assert facet == "n.Ask"
    assert isinstance(number, int)
    return {"n": number + 1}


def _environment() -> RunEnvironment:
    return RunEnvironment(TaskDispatch(), RunBounds(), None, 10, False, None, None)


def _read(store: SqliteStore, workflow_id: str) -> Execution:
    execution = WorkflowCache(store, TaskDispatch()).read(workflow_id)
    assert execution is not None
    return execution


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "runs.sqlite3")


@pytest.mark.parametrize("workflow_id", ["run-1", "a-longer-name.of-a-run"])
def test_the_first_load_of_any_run_leaves_complete_steps_undecoded(store: SqliteStore, workflow_id: str) -> None:
    engine = Engine(_CHAIN, store=store, workflow_id=workflow_id)
    engine.start()
    for path in ("a", "b"):
        engine.answer(path, {"n": 7})

    execution = _read(store, workflow_id)

    for path in ("a", "b"):
        step_id = engine.step(path).id
        assert step_id not in execution.steps
        late = execution.bounds.unread(step_id)
        assert late is not None
        assert late.returns == {"n": 7}
    assert execution.bounds.unread(engine.step("c").id) is None
    store.close()


def test_a_run_that_is_loaded_for_each_answer_gives_the_same_values(store: SqliteStore) -> None:
    engine = Engine(_CHAIN, store=store, hot_steps=0)

    # 1 + 1, that + 1, and their sum + 1.
    assert engine.run(agents=_more).outputs == {"sum": 2 + 3 + 1}
    store.close()


def test_bodies_and_elements_are_put_together_from_what_is_read_and_what_is_left(store: SqliteStore) -> None:
    engine = Engine(_ELEMENTS, store=store, hot_steps=0)

    # Each element is asked three times, and gets one more each time.
    assert engine.run({"values": [1, 2, 3]}, _more).outputs == {"all": [1 + 3, 2 + 3, 3 + 3]}
    store.close()


def test_a_yield_gets_the_values_of_steps_that_were_complete_long_before(tmp_path: Path) -> None:
    store = _CountingStore(tmp_path / "runs.sqlite3")
    engine = Engine(_EARLY, store=store, hot_steps=0)

    # a is 2, b is 11, d is two more than b.
    assert engine.run(agents=_more).outputs == {"sum": 2 + 11 + 13, "first": 2}
    store.close()


@pytest.mark.parametrize("order", [("a", "b", "x", "y", "z"), ("x", "y", "a", "z", "b"), ("x", "a", "y", "b", "z")])
def test_branches_may_stand_at_any_place_when_their_run_is_loaded(tmp_path: Path, order: tuple[str, ...]) -> None:
    store = _CountingStore(tmp_path / "runs.sqlite3")
    engine = Engine(_BRANCHES, store=store, hot_steps=0)
    engine.start()
    for path in order:
        asked = engine.step(path).document.params["n"]
        assert isinstance(asked, int)
        last = engine.answer(path, {"n": asked + 1})

    # a 2, b 3; x 11, y 12, z 15.
    assert last.outputs == {"sum": 3 + 15}
    store.close()


def test_a_run_in_which_a_branch_has_failed_is_read_whole(tmp_path: Path) -> None:
    store = _CountingStore(tmp_path / "runs.sqlite3")
    engine = Engine(_BRANCHES, store=store, hot_steps=0)
    engine.start()
    engine.answer("x", {"n": 11})
    engine.fail("a")
    store.whole_runs = 0
    # What was asked before is still answered; nothing new is asked.
    ended = engine.answer("y", {"n": 12})

    assert ended.status == "ERROR"
    assert engine.paths().count("b") == 0
    assert store.whole_runs > 0
    store.close()


def test_a_run_with_more_to_do_is_not_guessed_at(tmp_path: Path) -> None:
    """Under its new version `b` waits for `open`, and `late` was not made yet: as many statements, but others."""
    store = SqliteStore(tmp_path / "runs.sqlite3")
    asks = "event facet Ask(n: Long) => (n: Long)\n"
    body = "workflow W() => (n: Long) andThen {{\n  open = Ask(n = 1)\n{}  b = Ask(n = {})\n  yield W(n = b.n)\n}}\n"
    engine = Engine(asks + body.format("", "2"), store=store)
    engine.start()
    engine.answer("b", {"n": 3})
    moved = WorkflowCache(store, TaskDispatch()).plan(
        compiled(asks + body.format("  late = Ask(n = 9)\n", "open.n")), "n.W"
    )
    run, row = store.load_open("run"), engine.row()

    found = [restore_open(moved, each, run, _environment()) for each in (row, row._replace(runnable=True))]

    # At rest `late` would have been made, and one statement is complete either way.
    assert [each is None for each in found] == [False, True]
    store.close()


def test_an_answer_that_comes_again_finds_its_step_complete(tmp_path: Path) -> None:
    store = _CountingStore(tmp_path / "runs.sqlite3")
    engine = Engine(_CHAIN, store=store, hot_steps=0)
    engine.start()
    engine.answer("a", {"n": 2})
    execution = _read(store, "run")

    found = find_step(execution, engine.step("a").id)

    assert found is not None
    assert (found.is_terminal, found.returns) == (True, {"n": 2})
    assert find_step(execution, engine.step("a").id) is found
    store.close()


def test_a_store_that_is_away_when_a_step_is_read_late_fails_no_step(tmp_path: Path) -> None:
    store = _CountingStore(tmp_path / "runs.sqlite3")
    engine = Engine(_EARLY, store=store)
    engine.start()
    for path, value in (("a", 2), ("b", 11), ("c", 12)):
        engine.answer(path, {"n": value})
    engine.restart()
    store.is_away = True

    result = engine.answer("d", {"n": 13})
    assert isinstance(result.error, StoreUnavailable)
    assert engine.row().error is None
    store.is_away = False

    assert engine.resume().outputs == {"sum": 2 + 11 + 13, "first": 2}
    store.close()


def test_a_step_that_is_gone_when_it_is_read_is_no_failure_of_the_run_but_of_the_reading(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.sqlite3")
    engine = Engine(_EARLY, store=store)
    engine.start()
    engine.answer("a", {"n": 2})
    late = _read(store, "run").bounds.unread(engine.step("a").id)
    assert late is not None
    with sqlite3.connect(tmp_path / "runs.sqlite3") as other:
        other.execute("DELETE FROM step WHERE id = ?", (late.id,))
    other.close()

    with pytest.raises(StoreUnavailable, match=f"step {late.id} was there when its run was read, and is not now"):
        late.document()
    store.close()


def test_values_near_the_limit_are_measured_though_they_were_not_read(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.sqlite3")
    engine = Engine(
        """
event facet Ask(text: String) => (text: String)
workflow W() => (n: Long) andThen {
    a = Ask(text = "a")
    b = Ask(text = "b" ++ a.text)
    yield W(n = 1)
}
""",
        store=store,
    )
    engine.start()
    engine.answer("a", {"text": "x" * 30_000})

    execution = WorkflowCache(store, TaskDispatch(), run_limits=RunLimits(max_state_bytes=100_000)).read("run")

    assert execution is not None
    # Those of a, and b's parameter, which begins with another letter.
    assert 60_000 < execution.bounds.state_bytes < 61_000
    store.close()
