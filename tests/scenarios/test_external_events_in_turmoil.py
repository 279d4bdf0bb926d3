"""External events among crashes, rivals and a restless clock: none lost, none twice, in order, each timer once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from afl.engine.model.history import HistoryRow
from tests.scenarios.external_turmoil import ExternalTurmoil
from tests.tiers import in_one_run, some_now
from tests.worlds.world import World
from tests.worlds.worlds import MEMORY, MONGO, SQLITE, STANDALONE_MONGO_QUICK, in_worlds, with_values

#: Seeds of one test. MongoDB takes some seconds for each.
_AT_ONCE, _AT_ONCE_IN_MONGODB = 10, 3
#: How many seeds of a store are in the tiers of every day.
_ALWAYS_IN_MEMORY, _ALWAYS_IN_FILES, _ALWAYS_IN_MONGODB = 30, 10, 3


def _batches(count: int, in_a_run: int, at_once: int = _AT_ONCE) -> list[range]:
    batches = [range(first, first + at_once) for first in range(0, count, at_once)]
    return in_one_run(batches, -(-in_a_run // at_once))


#: All seeds of a store, of which a run of all tests has the first.
_IN_MEMORY, _IN_FILES = _batches(2_000, 200), _batches(500, 40)
_IN_MONGODB = _batches(100, 6, _AT_ONCE_IN_MONGODB)


def _is_of_every_day(always: int) -> Callable[[object], bool]:
    return lambda seeds: isinstance(seeds, range) and seeds.stop <= always


def _faults(world: World, seeds: range, *, restarts: bool) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        turmoil = ExternalTurmoil(world, seed, restarts=restarts)
        try:
            turmoil.run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        found += turmoil.faults()
        turmoil.deployment.close()
    return found


@pytest.mark.parametrize(
    ("world", "seeds"),
    with_values(MEMORY, _IN_MEMORY, _is_of_every_day(_ALWAYS_IN_MEMORY)),
    indirect=["world"],
    ids=str,
)
def test_events_are_heard_once_and_in_order_whatever_happens_to_evaluators(world: World, seeds: range) -> None:
    assert _faults(world, seeds, restarts=False) == []


@pytest.mark.parametrize(
    ("world", "seeds"),
    [
        *with_values(SQLITE, _IN_FILES, _is_of_every_day(_ALWAYS_IN_FILES)),
        *with_values(MONGO, _IN_MONGODB, _is_of_every_day(_ALWAYS_IN_MONGODB)),
        *with_values(STANDALONE_MONGO_QUICK, _IN_MONGODB, _is_of_every_day(0)),
    ],
    indirect=["world"],
    ids=str,
)
def test_events_are_heard_once_and_in_order_across_restarts_too(world: World, seeds: range) -> None:
    assert _faults(world, seeds, restarts=True) == []


def _told(world: World, seed: int, hot_steps: int) -> Mapping[str, tuple[object, list[HistoryRow]]]:
    """Return outputs and histories of a run in which nothing happens to the evaluator."""
    turmoil = ExternalTurmoil(world, seed, quiet=True, hot_steps=hot_steps)
    turmoil.run()
    assert turmoil.faults() == []
    return {w: (turmoil.outputs(w), turmoil.history(w)) for w in turmoil.workflow_ids}


@in_worlds([MEMORY])
@pytest.mark.parametrize("seed", some_now(in_one_run(range(80), 40), 10))
def test_hot_and_cold_workflows_tell_the_same_history(world: World, seed: int) -> None:
    assert _told(world, seed, hot_steps=0) == _told(world, seed, hot_steps=200_000)
