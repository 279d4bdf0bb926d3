"""In which worlds a scenario runs: in all of them, or in those that its module or a mark names.

    WORLDS = EMBEDDED  # of all tests of a module

    @in_worlds(DURABLE)
    def test_...

A scenario runs in fewer worlds where it has no meaning in the others: it crashes a broker, or a restart would find an
empty memory. A variant has the markers of the servers that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

MEMORY: Final = pytest.param("embedded-memory")
SQLITE: Final = pytest.param("embedded-sqlite")
MONGO: Final = pytest.param("embedded-mongo", marks=pytest.mark.mongo)
#: Another path of the same store: the server has no transactions.
STANDALONE_MONGO: Final = pytest.param("embedded-standalone-mongo", marks=[pytest.mark.mongo, pytest.mark.long])
#: The same, for the few scenarios in which that path is what counts.
STANDALONE_MONGO_QUICK: Final = pytest.param("embedded-standalone-mongo", marks=pytest.mark.mongo)
KAFKA: Final = pytest.param("kafka-sqlite", marks=pytest.mark.kafka)
KAFKA_MONGO: Final = pytest.param("kafka-mongo", marks=[pytest.mark.kafka, pytest.mark.mongo, pytest.mark.long])

#: Every broker with every store: for what the loop promises on all of them.
EVERYWHERE: Final = (MEMORY, SQLITE, MONGO, STANDALONE_MONGO, KAFKA, KAFKA_MONGO)

#: Every store on the embedded broker, and Kafka: for what depends on the store or on the broker, and not on both.
EVERY_STORE_AND_KAFKA: Final = (MEMORY, SQLITE, MONGO, STANDALONE_MONGO, KAFKA)

_MONGO_LONG: Final = pytest.param("embedded-mongo", marks=[pytest.mark.mongo, pytest.mark.long])
_KAFKA_LONG: Final = pytest.param("kafka-sqlite", marks=[pytest.mark.kafka, pytest.mark.long])

#: Each broker and each kind of store, the servers in a long run only: what a module has that says nothing else.
EACH_ONCE: Final = (MEMORY, SQLITE, _MONGO_LONG, _KAFKA_LONG)
#: The broker is in the test's hands: it expires members, cuts its log, or is made to fail.
EMBEDDED: Final = (MEMORY, SQLITE, _MONGO_LONG)
#: What was written outlives the process.
DURABLE: Final = (SQLITE, MONGO, STANDALONE_MONGO, _KAFKA_LONG)
#: Both of these: the broker is in the test's hands, and its log outlives the process.
EMBEDDED_DURABLE: Final = (SQLITE, MONGO, STANDALONE_MONGO)
#: The broker is in the test's hands, and every store counts.
EMBEDDED_EVERY_STORE: Final = (MEMORY, SQLITE, MONGO, STANDALONE_MONGO)
#: The store is a file, which the test writes into.
FILES: Final = (SQLITE, _KAFKA_LONG)


class Crashing(NamedTuple):
    """Where a party crashes, and after how many passes."""

    point: str
    passes: int

    def __str__(self) -> str:
        return f"{self.point}-{self.passes}"


def with_values(
    world: ParameterSet, values: Iterable[object], is_quick: Callable[[object], bool] = lambda value: True
) -> list[ParameterSet]:
    """One world with each of these values, for a scenario that takes other values in other worlds.

        @pytest.mark.parametrize(("world", "place"), with_values(SQLITE, PLACES), indirect=["world"])

    Those that are not quick are for the long run.
    """
    (name,) = world.values
    return [
        pytest.param(name, value, marks=[*world.marks, *(() if is_quick(value) else (pytest.mark.long,))])
        for value in values
    ]


def in_worlds(worlds: Sequence[ParameterSet]) -> pytest.MarkDecorator:
    """Run a test in these worlds only."""
    return pytest.mark.parametrize("world", worlds, indirect=True)
