"""Keeps the settings of the person who runs the tests out of the tests."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def bootstrap_from_outside() -> Iterator[str | None]:
    """Take every AFL_ variable out of the environment; return the broker's address that was among them."""
    taken = {name: value for name, value in os.environ.items() if name.startswith("AFL_")}
    for name in taken:
        del os.environ[name]
    yield taken.get("AFL_KAFKA_BOOTSTRAP") or None
    os.environ.update(taken)
