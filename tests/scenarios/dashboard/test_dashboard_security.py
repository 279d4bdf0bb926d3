"""Who may see and do what: hosts, origins, tokens, roles, tokens of forms, rates, and the headers of every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from afl.core.clock import ManualClock
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.web.access import DASHBOARD_ROLES, Access, AccessRefused, read_tokens
from afl_stream.web.guard import CLIENT_GONE, MAX_BODY_BYTES
from afl_stream.web.rates import RateLimit
from tests.scenarios.dashboard.world import Shop, csrf_of

READER, OPERATOR = "reader-token-of-32-characters-xx", "operator-token-of-32-characters-"


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    file = tmp_path / "tokens"
    file.write_text(f"# who\nrita read {READER}\noscar operate {OPERATOR}\n")
    file.chmod(0o600)
    return str(file)


def _as(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_an_address_of_others_needs_tokens_or_a_proxy(tokens: str) -> None:
    with pytest.raises(AccessRefused, match="token-file"):
        Access.of(DashboardSettings(), "0.0.0.0")

    assert not Access.of(DashboardSettings(token_file=tokens), "0.0.0.0").is_open
    assert not Access.of(DashboardSettings(proxy_user_header="X-Forwarded-User"), "0.0.0.0").is_open


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        (f"rita read {READER}", 0o644, "chmod 600"),
        ("rita read short", 0o600, "line 1"),
        (f"rita owner {READER}", 0o600, "NAME ROLE TOKEN"),
        ("", 0o600, "has none"),
    ],
)
def test_a_file_of_tokens_that_protects_nothing_is_refused(tmp_path: Path, text: str, mode: int, told: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    file.chmod(mode)

    with pytest.raises(AccessRefused, match=told) as refused:
        read_tokens(file)
    assert READER not in str(refused.value)


def test_each_answer_has_the_headers_that_keep_a_browser_safe(shop: Shop) -> None:
    browser = shop.browser()
    for path in ("/runs", "/api/runs", "/static/style.css", "/nothing"):
        headers = browser.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_the_session_of_a_browser_is_out_of_reach_for_scripts_and_other_sites(shop: Shop) -> None:
    cookie = shop.browser().get("/runs").headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8233", "", "127.0.0.1.evil.example", "[::2]"])
def test_a_name_that_was_bound_to_this_address_is_refused(shop: Shop, host: str) -> None:
    assert shop.browser().get("/runs", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_the_names_of_this_machine_are_taken(shop: Shop, host: str) -> None:
    assert shop.browser().get("/runs", headers={"Host": host}).status_code == 200


def test_a_name_of_the_settings_is_taken(shop: Shop) -> None:
    browser = shop.browser(allowed_hosts="flows.example, other.example")

    assert browser.get("/runs", headers={"Host": "flows.example"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_what_another_site_sends_does_nothing(shop: Shop, headers: dict[str, str]) -> None:
    answer = shop.browser().post("/api/runs/wait-1/cancel", json={}, headers=headers)

    assert answer.status_code == 403
    assert shop.status("wait-1") == "PAUSED"


def test_the_api_takes_json_alone_which_no_form_can_send(shop: Shop) -> None:
    answer = shop.browser().post(
        "/api/runs/wait-1/cancel", content=b'{"reason": "x"}', headers={"Content-Type": "text/plain"}
    )

    assert answer.status_code == 415
    assert shop.status("wait-1") == "PAUSED"


def test_a_form_without_the_token_of_its_session_does_nothing(shop: Shop) -> None:
    browser, other = shop.browser(), shop.browser()
    stolen = csrf_of(other.get("/act/cancel?run=wait-1").text)
    browser.get("/runs")

    for token in ("", "0" * 64, stolen):
        answer = browser.post("/act/cancel", data={"run": "wait-1", "csrf": token})
        assert answer.status_code == 403
    assert shop.status("wait-1") == "PAUSED"


def test_nothing_is_shown_without_a_token_where_tokens_are_asked_for(shop: Shop, tokens: str) -> None:
    browser = shop.browser(token_file=tokens)

    assert browser.get("/api/runs").status_code == 401
    assert browser.get("/api/runs", headers=_as("x" * 32)).status_code == 401
    assert browser.get("/runs", follow_redirects=False).headers["location"] == "/login?to=%2Fruns"
    assert browser.get("/live?of=runs", follow_redirects=False).status_code == 303
    assert browser.get("/api/runs", headers=_as(READER)).status_code == 200


def test_a_reader_reads_and_an_operator_operates(shop: Shop, tokens: str) -> None:
    browser = shop.browser(token_file=tokens)

    assert browser.post("/api/runs/wait-1/pause", json={}, headers=_as(READER)).status_code == 403
    assert browser.post("/api/runs/wait-1/pause", json={}, headers=_as(OPERATOR)).status_code == 202
    assert browser.post("/api/runs/wait-1/resume", json={}, headers=_as(OPERATOR)).status_code == 202


def test_a_person_signs_in_with_a_token_and_out_again(shop: Shop, tokens: str) -> None:
    browser = shop.browser(token_file=tokens)
    form = browser.get("/login?to=/programs")
    before = browser.cookies["afl_session"]
    wrong = browser.post("/login", data={"csrf": csrf_of(form.text), "token": "wrong", "to": "/programs"})
    right = browser.post(
        "/login", data={"csrf": csrf_of(form.text), "token": READER, "to": "/programs"}, follow_redirects=False
    )

    assert wrong.status_code == 401
    assert right.headers["location"] == "/programs"
    assert browser.cookies["afl_session"] != before
    page = browser.get("/runs")
    assert "rita" in page.text
    assert "Start a run" not in page.text
    browser.post("/logout", data={"csrf": csrf_of(page.text)})
    assert browser.get("/api/runs").status_code == 401


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_signing_in_leads_to_no_other_site(shop: Shop, tokens: str, to: str) -> None:
    browser = shop.browser(token_file=tokens)
    form = browser.get("/login")
    answer = browser.post(
        "/login", data={"csrf": csrf_of(form.text), "token": READER, "to": to}, follow_redirects=False
    )

    assert answer.headers["location"] == "/runs"


def test_tokens_cannot_be_tried_one_after_another(shop: Shop, tokens: str) -> None:
    browser = shop.browser(token_file=tokens)
    csrf = csrf_of(browser.get("/login").text)
    statuses = [browser.post("/login", data={"csrf": csrf, "token": f"guess-{n}"}).status_code for n in range(7)]

    assert statuses == [401] * 5 + [429] * 2


def test_a_proxy_names_its_users_and_nobody_else_does(shop: Shop) -> None:
    app = shop.application(proxy_addresses="10.0.0.9", proxy_user_header="X-Forwarded-User", proxy_operators="olga")
    proxy = TestClient(app, base_url="http://127.0.0.1", client=("10.0.0.9", 1))
    somebody = TestClient(app, base_url="http://127.0.0.1", client=("10.0.0.8", 1))

    assert proxy.get("/api/runs", headers={"X-Forwarded-User": "rolf"}).status_code == 200
    assert proxy.post("/api/resume", json={}, headers={"X-Forwarded-User": "rolf"}).status_code == 403
    assert proxy.post("/api/resume", json={}, headers={"X-Forwarded-User": "olga"}).status_code == 202
    assert proxy.get("/api/runs").status_code == 401
    assert somebody.get("/api/runs", headers={"X-Forwarded-User": "olga"}).status_code == 401


def test_a_read_only_dashboard_refuses_operators_too(shop: Shop, tokens: str) -> None:
    browser = shop.browser(read_only=True, token_file=tokens)

    assert browser.get("/api/runs", headers=_as(OPERATOR)).status_code == 200
    assert browser.post("/api/runs/wait-1/cancel", json={}, headers=_as(OPERATOR)).status_code == 403
    assert "read only" in shop.browser(read_only=True).get("/act/cancel?run=wait-1").text
    assert shop.status("wait-1") == "PAUSED"


def test_an_address_that_asks_too_often_waits(shop: Shop) -> None:
    browser = TestClient(shop.application(requests_per_s=1), base_url="http://127.0.0.1")
    answers = [browser.get("/health") for _ in range(6)]

    assert [answer.status_code for answer in answers[:4]] == [200] * 4
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_a_rate_is_of_each_address_and_comes_back() -> None:
    clock = ManualClock()
    limit = RateLimit(per_s=2, burst=2, clock=clock)

    assert [limit.wait_s("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    assert limit.wait_s("b") == 0.0
    clock.advance(500)
    assert limit.wait_s("a") == 0.0


def test_a_body_without_end_is_not_read(shop: Shop) -> None:
    browser, part = shop.browser(), b" " * 100_000

    def pieces() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // len(part) + 1):
            yield part

    assert browser.post("/api/programs", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    # One that does not say its length.
    json = {"Content-Type": "application/json"}
    assert browser.post("/api/programs", content=pieces(), headers=json).status_code == 413


def test_a_sender_that_goes_away_is_not_told_that_its_body_is_too_long(shop: Shop) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/programs", "headers": headers, "query_string": b""}

    async def visit() -> None:
        await shop.application()(scope, receive, send)

    asyncio.run(visit())

    assert sent[0]["status"] == CLIENT_GONE


def test_the_files_are_those_of_the_package_alone(shop: Shop) -> None:
    for path in ("/static/../rendering.py", "/static/%2e%2e/application.py", "/static/..%2fapplication.py"):
        assert shop.browser().get(path).status_code == 404


def test_roles_are_named_as_documented() -> None:
    assert [role.value for role in DASHBOARD_ROLES] == ["read", "operate"]
