"""A registry for the tests of this folder, which share it."""

from collections.abc import Iterator

import pytest

from tests.integration.registry.world import RegistryParties, started_registry
from tools.registry import RegistryServer


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """Provide a registry that the tests of this run share: use subjects of the test's own."""
    with started_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def parties() -> Iterator[RegistryParties]:
    """Make codecs and clients of a registry."""
    with RegistryParties() as made:
        yield made
