"""A few trials of each combination; `make stress` runs hundreds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.stress.__main__ import main
from tests.stress.matrix import Combination, run_combination
from tests.stress.pollers import Effect, Report
from tests.stress.programs import HANDLERS, SHAPES, program
from tests.stress.stores import Stores
from tests.stress.trials import run_trial


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    with ExitStack() as cleanup:
        yield Stores(tmp_path, os.environ.get("AFL_MONGODB_URL"), cleanup)


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("pollers", [1, 2, 4, 8])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_pollers_in_threads_do_each_event_once_and_lose_no_answer(
    store: str, pollers: int, shape: str, stores: Stores
) -> None:
    combination = Combination(store=store, pollers=pollers, mode="threads", shape=shape)

    assert run_combination(combination, 4, stores).wrong == []


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_pollers_in_processes_do_each_event_once_and_lose_no_answer(shape: str, stores: Stores) -> None:
    combination = Combination(store="sqlite", pollers=4, mode="processes", shape=shape)

    assert run_combination(combination, 5, stores).wrong == []


@pytest.mark.mongo
@pytest.mark.parametrize("mode", ["threads", pytest.param("processes", marks=pytest.mark.long)])
@pytest.mark.parametrize("store", ["mongodb", "standalone"])
def test_pollers_on_mongodb_do_each_event_once_and_lose_no_answer(store: str, mode: str, stores: Stores) -> None:
    for shape in SHAPES:
        combination = Combination(store=store, pollers=4, mode=mode, shape=shape)

        assert run_combination(combination, 3, stores).wrong == []


class ForgetfulAndHasty:
    """Pollers that handle the same event twice, and report one that does not exist."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def start(self) -> None:
        pass

    def stop(self) -> list[Report]:
        effects = [Effect(event_id="t0:x#1", answer={}), Effect(event_id="t0:x#1", answer={})]
        return [Report(server_id="nobody", effects=effects, failure="fell over")]


def test_a_trial_finds_what_is_wrong(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.stress.trials.DEADLINE_S", 0.0)
    with stores.new("memory") as (store, _):
        wrong = run_trial(store, program(), SHAPES["many"]("t0"), ForgetfulAndHasty(stores))

    assert "t0.0 has not ended after 0 s" in wrong
    assert "poller nobody: fell over" in wrong
    assert "event t0:x#1 was handled 2 times" in wrong
    assert "1 events were handled, expected 4" in wrong
    assert "server nobody is None" in wrong


def test_the_command_tells_of_each_combination_and_ends_with_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--trials", "1", "--store", "memory", "--pollers", "2"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line.split()[:6] for line in lines[:2]] == [
        ["memory", "2", "in", "threads", "on", "many"],
        ["memory", "2", "in", "threads", "on", "one"],
    ]
    assert lines[2].startswith('{"combinations": 2, "trials": 2, "wrong": 0, ')
    assert set(HANDLERS) == {"stress.Draw", "stress.Add"}
