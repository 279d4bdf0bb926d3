"""The tier of a test: decided here, by what the test needs.

`make test` runs what needs neither a broker nor a database, `make test-kafka` and `make test-mongo` what needs one of
them, `make test-long` what takes long by its nature. A test has the marker of a server because it asks for one of the
fixtures below, or stands in a folder of such tests; one that starts a server of its own says so with the marker. What
is forgotten is found: `Tiers` fails a test that reaches for a server without having its marker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

#: Fixtures of which each means a server, by the marker of the tests that ask for them.
FIXTURES: Final[Mapping[str, frozenset[str]]] = {
    "kafka": frozenset({"kafka_bootstrap", "broker_installed"}),
    "mongo": frozenset({"mongodb_url", "standalone_mongodb_url", "mongodb_of_either_kind"}),
}
#: Folders whose tests are all of one tier.
FOLDERS: Final[Mapping[str, Path]] = {
    "kafka": Path(__file__).parent / "integration" / "kafka",
    "mongo": Path(__file__).parent / "integration" / "mongo",
}
#: Words on the command line of a process that is a server, or starts one.
PROCESSES: Final[Mapping[str, frozenset[str]]] = {
    "kafka": frozenset({"kafka.Kafka", "tools.kafka"}),
    "mongo": frozenset({"secantusd-py", "tools.mongodb"}),
}
SERVERS: Final = tuple(FIXTURES)


def some_now(cases: Iterable[object], count: int) -> list[Any]:
    """Parameters of a test: so many of its cases in the tiers of every day, the others in the long one."""
    listed = list(cases)
    return [*listed[:count], *(pytest.param(case, marks=pytest.mark.long) for case in listed[count:])]


def in_one_run(cases: Iterable[object], count: int) -> list[Any]:
    """Random cases of a test: so many, for a run of all tests to end in its time; RANDOM_CASES=all has them all."""
    listed = list(cases)
    return listed if has_all_cases() else listed[:count]


def has_all_cases() -> bool:
    """Return whether this run takes all random cases, for as long as that may last."""
    return os.environ.get("RANDOM_CASES") == "all"


def servers_of(item: pytest.Item) -> Iterator[str]:
    """Return the servers that a test needs, by its fixtures and by where it stands."""
    asked_for = frozenset(getattr(item, "fixturenames", ()))
    for server in SERVERS:
        if asked_for & FIXTURES[server] or item.path.is_relative_to(FOLDERS[server]):
            yield server


class ServerNotMarked(Exception):
    """A test reaches for a server, and lacks the marker that keeps it out of the tiers without one."""

    def __init__(self, test: str, server: str, what: str) -> None:
        super().__init__(f"{test} {what}: mark it with @pytest.mark.{server}, or ask for a fixture of tests/tiers.py")


class Tiers:
    """Marks the tests that are collected, and holds them to it while they run."""

    def __init__(self) -> None:
        self._running: pytest.Item | None = None
        # Cannot be taken away again; between tests it does nothing.
        sys.addaudithook(self._watch)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            for server in servers_of(item):
                item.add_marker(server)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._running = item
        try:
            return (yield)
        finally:
            self._running = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Find what was asked for by name only, with `request.getfixturevalue`."""
        for server in SERVERS:
            if fixturedef.argname in FIXTURES[server]:
                self._reaches_for(server, f"asks for {fixturedef.argname}")

    def _watch(self, event: str, args: tuple[object, ...]) -> None:
        if event != "subprocess.Popen" or self._running is None:
            return
        command = args[1] if isinstance(args[1], Sequence) and not isinstance(args[1], str | bytes) else ()
        words = {os.path.basename(os.fsdecode(word)) for word in command if isinstance(word, str | bytes | os.PathLike)}
        for server in SERVERS:
            if found := words & PROCESSES[server]:
                self._reaches_for(server, f"starts {', '.join(sorted(found))}")

    def _reaches_for(self, server: str, what: str) -> None:
        running = self._running
        if running is not None and running.get_closest_marker(server) is None:
            raise ServerNotMarked(running.nodeid, server, what)
