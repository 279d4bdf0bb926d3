"""Codecs and clients for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.integration.registry.world import RegistryParties


@pytest.fixture
def parties() -> Iterator[RegistryParties]:
    """Make codecs and clients of a registry."""
    with RegistryParties() as made:
        yield made
