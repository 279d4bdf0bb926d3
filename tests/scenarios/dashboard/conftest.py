"""The shop that all tests of the dashboard look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.dashboard.world import Shop, open_shop


@pytest.fixture(scope="package")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("shop")) as opened:
        yield opened
