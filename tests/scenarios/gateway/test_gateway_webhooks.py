"""A facet's events are posted to a URL, and the response is the answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from afl_stream.errors import ConfigError
from afl_stream.settings.gateway import GatewaySettings
from tests.eventually import eventually
from tests.scenarios.gateway.world import CHARGE, Shop, Worker

SECRET = "whsec_" + base64.b64encode(b"a secret of the shop and its till").decode()


@dataclass(slots=True)
class Receiver:
    """A server that notes what is posted to it. `answer` says what each request, from 1, is told: status and body."""

    url: str = ""
    answer: Callable[[int], tuple[int, bytes]] = lambda _number: (200, b'{"receipt": "posted"}')
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def last(self) -> Any:
        return json.loads(self.requests[-1][1])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status, content = found.answer(len(found.requests))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", found.url)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/till"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _ended(
    shop: Shop, receiver: Receiver, act: Callable[[Worker], None] = lambda _worker: None, **settings: Any
) -> Any:
    """Run a checkout whose charge is posted to the receiver, and return how it ended."""
    with shop.gateway(facets="", webhooks=f"{CHARGE}={receiver.url}", **settings) as worker:
        worker.start("Checkout", "r-1", order="17")
        act(worker)
        return worker.ended("r-1")


def test_the_response_is_the_answer_and_the_request_is_signed(shop: Shop, receiver: Receiver) -> None:
    shown = _ended(shop, receiver, webhook_secret=SECRET)

    assert shown["outputs"] == {"receipt": "posted"}
    [(headers, body)] = receiver.requests
    assert json.loads(body)["payload"] == {"order": "17", "amount": 10.0}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(b"a secret of the shop and its till", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()


def test_a_receiver_that_cannot_answer_now_is_asked_again_with_the_same_id(shop: Shop, receiver: Receiver) -> None:
    receiver.answer = lambda number: (503, b"") if number == 1 else (200, b'{"receipt": "second"}')

    assert _ended(shop, receiver)["outputs"] == {"receipt": "second"}
    first, second = (headers["webhook-id"] for headers, _ in receiver.requests)
    assert first == second
    assert receiver.last["tries"] == 2


def test_each_try_that_fails_is_logged_without_a_traceback(
    shop: Shop, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = lambda number: (503, b"") if number == 1 else (400, b"")

    assert _ended(shop, receiver)["status"] == "ERROR"
    assert f"of {CHARGE} was not taken, try 1: {receiver.url} answered 503" in caplog.text
    assert f"WebhookRefused: {receiver.url} answered 400" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_receiver_that_is_slow_is_not_called_unreachable(
    shop: Shop, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    is_told = threading.Event()

    def answer(number: int) -> tuple[int, bytes]:
        if number == 1:
            is_told.wait(60)
        return 200, b'{"receipt": "second"}'

    receiver.answer = answer
    try:
        assert _ended(shop, receiver, webhook_timeout_s=1)["outputs"] == {"receipt": "second"}
    finally:
        is_told.set()
    assert f"{receiver.url} has not answered within 1 s (gateway.webhook_timeout_s)" in caplog.text


def test_a_receiver_may_answer_later_with_the_lease(shop: Shop, receiver: Receiver) -> None:
    receiver.answer = lambda _number: (202, b"")

    def answer(worker: Worker) -> None:
        eventually(lambda: receiver.requests, 10)
        worker.complete(receiver.last, receipt="later")

    assert _ended(shop, receiver, answer)["outputs"] == {"receipt": "later"}


@pytest.mark.parametrize(
    ("status", "content", "told"),
    [
        (400, b"", "400"),
        (307, b"", "redirects are not followed"),
        (200, b"[1]", "not a JSON object"),
        (200, b"{", "JSON"),
    ],
)
def test_what_is_no_answer_fails_the_step_at_once(
    shop: Shop, receiver: Receiver, status: int, content: bytes, told: str
) -> None:
    receiver.answer = lambda _number: (status, content)
    shown = _ended(shop, receiver)

    assert shown["status"] == "ERROR"
    assert told in shown["error"]["message"]
    assert len(receiver.requests) == 1


def test_with_public_addresses_only_nothing_is_posted_to_this_machine(shop: Shop, receiver: Receiver) -> None:
    shown = _ended(shop, receiver, webhook_addresses="public")

    assert "127.0.0.1" in shown["error"]["message"]
    assert receiver.requests == []


@pytest.mark.parametrize("pair", ["shop.Charge", "shop.Charge=ftp://there", "=http://x", "shop.Charge=http://me@there"])
def test_a_pair_that_is_none_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.webhooks"):
        GatewaySettings(webhooks=pair).webhook_urls()
