"""The gateway keeps what its document says, whatever it is asked, and lets in who may come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from starlette.testclient import TestClient

from afl_stream.gateway.openapi import openapi_document
from afl_stream.settings.gateway import GatewaySettings
from afl_stream.web.access import Access, AccessRefused
from tests.scenarios.gateway.world import CHARGE, PROGRAM, Shop, open_shop, program

#: What each answer is held to.
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def test_no_request_breaks_the_gateway(tmp_path: Path) -> None:
    """Call every operation with values of all kinds: none makes a mistake, and each answer is documented."""
    with open_shop(tmp_path) as shop, shop.gateway(max_wait_s=0, allowed_hosts="testserver", answer_s=0.5) as worker:
        schema: Any = schemathesis.openapi.from_asgi("/v1/openapi.json", worker.http.app)
        called = sum(_call(found.ok()) for found in schema.get_all_operations())

    assert called >= 20


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


def test_answers_are_as_the_document_says(shop: Shop) -> None:
    paths = openapi_document()["paths"]

    def check(template: str, method: str, status: str, answer: Any) -> None:
        assert str(answer.status_code) == status, answer.text
        schema = paths[template][method]["responses"][status]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), schema)

    with shop.gateway() as worker:
        started = worker.http.post("/v1/runs", json={"workflow": "Checkout", "inputs": {"order": "1"}, "id": "r-1"})
        check("/v1/runs", "post", "202", started)
        polled = worker.http.post(f"/v1/facets/{CHARGE}/poll", json={"wait_s": 10})
        check("/v1/facets/{facet}/poll", "post", "200", polled)
        event = polled.json()["events"][0]
        check("/v1/leases/heartbeat", "post", "200", worker.lease("heartbeat", event))
        completed = worker.lease("complete", event, result={"receipt": "r"})
        check("/v1/leases/complete", "post", "200", completed)
        check("/v1/runs/{run}", "get", "200", worker.http.get("/v1/runs/r-1?wait_s=10"))


@pytest.mark.parametrize(
    ("path", "members", "told"),
    [
        ("/v1/leases/complete", {}, "lease: found nothing, expected a text"),
        ("/v1/leases/complete", {"lease": "nonsense"}, "lease"),
        ("/v1/leases/complete", {"lease": "l1.e30"}, "lease"),
        (f"/v1/facets/{CHARGE}/poll", {"max": 0}, "max: found the integer 0, expected a whole number, 1 to 1,000"),
        (f"/v1/facets/{CHARGE}/poll", {"max": "3"}, "max: found the text '3', expected a whole number"),
        (
            f"/v1/facets/{CHARGE}/poll",
            {"most": 1},
            "most: found an unknown parameter, expected one of lease_s, max, wait_s",
        ),
        ("/v1/runs", {}, "workflow: found nothing, expected a text"),
        ("/v1/runs", {"workflow": "Checkout", "inputs": [1]}, "inputs: found an array of 1, expected a JSON object"),
        ("/v1/runs", {"workflow": "Checkout", "if_exists": "take"}, "if_exists"),
        ("/v1/runs/r-1/migrate", {}, "to"),
        ("/v1/runs/r-1/migrate", {"to": "0"}, "give 4 digits of the program's id or more, or current"),
        ("/v1/steps/r-1:0a/answer", {}, "body: found neither result nor error, expected one of them"),
        ("/v1/steps/r-1:0a/answer", {"result": {}, "error": {}}, "body: found both result and error, expected one"),
        ("/v1/steps/r-1:0a/answer", {"error": {"kind": "x"}}, "error.kind: found an unknown parameter"),
    ],
)
def test_a_mistake_is_named(shop: Shop, path: str, members: Any, told: str) -> None:
    with shop.gateway() as worker:
        answer = worker.http.post(path, json=members)

    assert answer.status_code == 400
    assert told in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"[" * 100_000, "body: found values nested too deeply to be read, expected a JSON object"),
        (b"[]", "body: found an array of 0, expected a JSON object"),
        (b"null", "body: found nothing, expected a JSON object"),
        (b'{"workflow":', "body: found 12 bytes, expected a JSON object (Expecting value: line 1 column 13 (char 12))"),
    ],
)
def test_a_body_that_cannot_be_read_is_told(shop: Shop, body: bytes, told: str) -> None:
    with shop.gateway() as worker:
        answer = worker.http.post("/v1/runs", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["error"]) == (400, told)


def test_a_run_that_does_not_exist_is_not_found(shop: Shop) -> None:
    with shop.gateway() as worker:
        answers = [
            worker.http.get("/v1/runs/none-such"),
            worker.http.post("/v1/runs/none-such/migrate", json={"to": "current"}),
            worker.http.post("/v1/runs/none-such/migrate", json={"to": program(PROGRAM).fingerprint}),
        ]

    assert [answer.status_code for answer in answers] == [404] * 3
    assert all("none-such" in answer.json()["error"] for answer in answers)


def test_a_waiting_run_moves_to_the_version_that_is_deployed_now(shop: Shop) -> None:
    following = program(PROGRAM.replace("data = heard.data", 'data = heard.data ++ "!"'))
    with shop.gateway() as worker:
        worker.start("News", "n-1")
        shop.wait_for("n-1", "PAUSED")
        shop.local.deploy(following)
        moved = worker.http.post("/v1/runs/n-1/migrate", json={"to": "current", "reason": "louder"})
        again = worker.http.post("/v1/runs/n-1/migrate", json={"to": following.fingerprint[:12]})
        worker.http.post("/v1/runs/n-1/events/news", json={"data": "hear"})
        ended = worker.ended("n-1")

    assert (moved.status_code, moved.json()) == (
        202, {"workflow_id": "n-1", "program": following.fingerprint, "answered": True}
    )  # fmt: skip
    assert again.status_code == 409, again.text
    assert ended["outputs"] == {"data": "hear!"}


def test_a_version_that_does_not_fit_is_refused_with_what_does_not(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("News", "n-1")
        shop.wait_for("n-1", "PAUSED")
        shop.local.deploy(program(PROGRAM.replace("heard", "other")))
        refused = worker.http.post("/v1/runs/n-1/migrate", json={"to": "current"})
        unknown = worker.http.post("/v1/runs/n-1/migrate", json={"to": "0123456789"})

    assert (refused.status_code, refused.json()["type"]) == (409, "VersionDoesNotFit")
    assert "heard" in refused.json()["error"]
    assert unknown.status_code == 404
    assert shop.status("n-1") == "PAUSED"


def test_a_start_says_what_it_does_if_a_run_has_its_id(shop: Shop) -> None:
    start = {"workflow": "Checkout", "inputs": {"order": "1"}, "id": "r-1"}
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="1")
        other = {**start, "inputs": {"order": "2"}}
        answers = [
            worker.http.post("/v1/runs", json=body)
            for body in (start, other, {**other, "if_exists": "use"}, {**start, "if_exists": "refuse"})
        ]

    assert [answer.status_code for answer in answers] == [202, 409, 202, 409]
    assert [answers[at].json()["type"] for at in (1, 3)] == ["AlreadyExists", "IdInUse"]


def test_elsewhere_it_needs_tokens() -> None:
    with pytest.raises(AccessRefused, match=r"gateway\.token_file"):
        Access.of_gateway(GatewaySettings(), "0.0.0.0")


def test_each_role_may_do_its_own(shop: Shop, tmp_path: Path) -> None:
    tokens = {role: role * 20 for role in ("read", "work", "operate", "migrate")}
    file = tmp_path / "tokens"
    file.write_text("".join(f"{role}-er {role} {token}\n" for role, token in tokens.items()))
    file.chmod(0o600)
    calls = {
        "read": ("GET", "/v1/runs/r-1", None),
        "work": ("POST", f"/v1/facets/{CHARGE}/poll", {}),
        "operate": ("POST", "/v1/runs", {"workflow": "Checkout", "id": "r-1", "inputs": {"order": "1"}}),
        "migrate": ("POST", "/v1/runs/r-1/migrate", {"to": "none-such"}),
    }
    refused = {}
    with shop.gateway(token_file=str(file)) as worker:
        for role, token in tokens.items():
            for name, (method, path, body) in calls.items():
                headers = {"Authorization": f"Bearer {token}"}
                answer = worker.http.request(method, path, json=body, headers=headers)
                refused[role, name] = answer.status_code == 403
        unknown = worker.http.post("/v1/runs", json={})
        stranger = TestClient(worker.http.app, base_url="http://elsewhere").get("/health")

    assert [pair for pair, is_refused in refused.items() if is_refused] == [
        ("read", "work"), ("read", "operate"), ("read", "migrate"), ("work", "operate"), ("work", "migrate"),
        ("operate", "migrate"),
    ]  # fmt: skip
    assert unknown.status_code == 401
    assert stranger.status_code == 400
    assert "gateway.allowed_hosts" in stranger.json()["error"]


def test_a_page_of_another_site_may_not_act(shop: Shop) -> None:
    with shop.gateway() as worker:
        answer = worker.http.post("/v1/runs", json={}, headers={"Origin": "http://evil.example"})

    assert answer.status_code == 403


def test_health_says_what_is_held(shop: Shop) -> None:
    with shop.gateway() as worker:
        worker.start("Checkout", "r-1", order="1")
        worker.take()
        answer = worker.http.get("/health")

    assert answer.json() == {"ready": True, "problems": [], "facets": {CHARGE: {"waiting": 0, "leased": 1}}}


def test_a_gateway_is_told_from_agents_by_its_name(shop: Shop) -> None:
    with shop.gateway() as worker:
        names = [held.agent.config.name for held in worker.gateway.agents]

    assert len(names) == 1
    assert names[0].startswith("gateway-")
