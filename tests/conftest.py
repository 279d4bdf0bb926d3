"""Keeps the settings of the person who runs the tests out of the tests."""

import os
from collections.abc import Iterator, Mapping

import pytest

#: The servers of the run, and the worlds of scenarios.
pytest_plugins = ["tests.worlds.servers"]


@pytest.fixture(scope="session", autouse=True)
def settings_from_outside() -> Iterator[Mapping[str, str]]:
    """Take every AFL_ variable out of the environment; return them."""
    taken = {name: value for name, value in os.environ.items() if name.startswith("AFL_")}
    for name in taken:
        del os.environ[name]
    yield taken
    os.environ.update(taken)


@pytest.fixture(scope="session")
def bootstrap_from_outside(settings_from_outside: Mapping[str, str]) -> str | None:
    """Return the address of the person's broker."""
    return settings_from_outside.get("AFL_KAFKA_BOOTSTRAP") or None


@pytest.fixture(scope="session")
def mongodb_from_outside(settings_from_outside: Mapping[str, str]) -> str | None:
    """Return the address of the person's MongoDB."""
    return settings_from_outside.get("AFL_MONGODB_URL") or None
