"""The page docs/schemas.md, typed as it is printed, with a registry of its own address."""

from pathlib import Path

import pytest

from tests.architecture.page_tables import ROOT
from tests.architecture.shell_sessions import type_page
from tools.registry import RegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_what_schemas_md_has_people_type_ends_as_it_says(own_registry: RegistryServer, tmp_path: Path) -> None:
    type_page(
        (ROOT / "docs" / "schemas.md").read_text(),
        tmp_path,
        environment={},
        in_place_of={"http://127.0.0.1:8081/apis/ccompat/v7": own_registry.url},
        timeout_s=500,
    )
