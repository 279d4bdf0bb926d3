"""The API keeps what its document says, whatever it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks

from tests.scenarios.dashboard.world import Shop, open_shop


@pytest.fixture
def document(shop: Shop) -> Any:
    return shop.browser().get("/api/openapi.json").json()


def test_every_operation_is_described_and_named_once(document: Any) -> None:
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]

    assert len(names) == len(set(names))
    assert {"listRuns", "showRun", "startRun", "cancel", "replay"} <= set(names)


def test_answers_are_as_the_document_says(shop: Shop, document: Any) -> None:
    browser = shop.browser()
    for path in ("/api/runs", "/api/runs/good-1", "/api/programs", "/api/topics", "/api/servers"):
        template = path.replace("good-1", "{run}")
        schema = document["paths"][template]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(browser.get(path).json(), schema)


def test_an_error_is_json_with_a_text(shop: Shop) -> None:
    for path, status in (("/api/runs/none-such", 404), ("/api/nothing", 404), ("/api/runs?limit=x", 400)):
        answer = shop.browser().get(path)
        assert answer.status_code == status
        assert answer.json()["error"]


#: What each answer is held to.
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def test_no_request_breaks_the_api(tmp_path: Path) -> None:
    """Call every operation with values of all kinds: none makes a mistake, and each answer is documented."""
    # A shop of its own: what it is asked for may pause everything.
    with open_shop(tmp_path) as shop:
        app = shop.application(waits=False, allowed_hosts="testserver")
        schema: Any = schemathesis.openapi.from_asgi("/api/openapi.json", app)
        called = sum(_call(found.ok()) for found in schema.get_all_operations())
    assert called > 100


def _call(operation: Any) -> int:
    called = 0

    @settings(
        max_examples=3,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def once(case: Any) -> None:
        nonlocal called
        called += 1
        case.validate_response(case.call(), checks=CHECKS)

    once()
    return called
