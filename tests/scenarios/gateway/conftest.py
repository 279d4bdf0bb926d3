"""The shop that the tests of gateways work in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.gateway.world import Shop, open_shop


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("shop")) as opened:
        yield opened
