"""A runner's answers over HTTP, over real sockets."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from afl.core.monitoring.status_server import MAX_CONNECTIONS, NoPortFree, NoSuchAddress, StatusServer
from afl.engine.errors import StoreUnavailable
from afl.runtime import RunnerConfig, ToolRegistry
from afl.stores.memory.store import MemoryStore
from afl.workers.liveness import Liveness
from tests.eventually import eventually
from tests.unit.workers.runner_shop import asked, runner_of
from tests.unit.workers.workshop import Workshop, pay, started


@contextmanager
def serving(attempts: int = 1, first_port: int = 0) -> Iterator[int]:
    server = StatusServer({"/health": lambda: (HTTPStatus.OK, {"ok": True}), "/broken": lambda: 1 / 0})  # type: ignore[dict-item, return-value]  # it raises
    port = server.start("127.0.0.1", first_port, attempts)
    try:
        yield port
    finally:
        server.stop()


@contextmanager
def taken(count: int) -> Iterator[int]:
    """Provide the first of a number of consecutive ports that have listeners."""
    first = 20_000
    held: list[socket.socket] = []
    while len(held) < count:
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", first + len(held)))
            listener.listen()
            held.append(listener)
        except OSError:
            listener.close()
            first += len(held) + 1
            for other in held:
                other.close()
            held.clear()
    try:
        yield first
    finally:
        for listener in held:
            listener.close()


def test_health_is_a_short_yes() -> None:
    with serving() as port:
        status, document, headers = asked(port, "/health")

    assert (status, document) == (200, {"ok": True})
    assert headers["Content-Type"] == "application/json"
    assert headers["Server"] == "afl-runner"


def test_head_has_the_headers_of_get_and_no_body() -> None:
    with serving() as port:
        status, document, headers = asked(port, "/health?verbose=1", "HEAD")

    assert (status, document, headers["Content-Length"]) == (200, None, "12")


def test_other_paths_and_methods_are_refused() -> None:
    with serving() as port:
        assert asked(port, "/nothing")[:2] == (404, {"error": "not found"})
        status, document, headers = asked(port, "/health", "POST")

    assert (status, document, headers["Allow"]) == (405, {"error": "method not allowed"}, "GET, HEAD")


def test_an_answer_that_cannot_be_made_is_an_internal_error() -> None:
    with serving() as port:
        assert asked(port, "/broken")[:2] == (500, {"error": "internal error"})
        assert asked(port, "/health")[0] == 200


def test_a_client_that_says_nothing_holds_up_nobody() -> None:
    with serving() as port, socket.create_connection(("127.0.0.1", port)):
        assert asked(port, "/health")[0] == 200


@contextmanager
def clients(port: int, count: int, first_bytes: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many that have connected, and say no more than this."""
    connected = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(count)]
    try:
        for client in connected:
            client.sendall(first_bytes)
        yield connected
    finally:
        for client in connected:
            client.close()


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.parametrize("first_bytes", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_hundreds_of_idle_clients_take_few_descriptors_and_a_probe_is_answered(first_bytes: bytes) -> None:
    with serving() as port:
        before = open_descriptors()
        with clients(port, 300, first_bytes):
            assert asked(port, "/health")[0] == 200
            # 300 are this test's own.
            assert open_descriptors() - before - 300 <= MAX_CONNECTIONS + 2
            assert asked(port, "/health")[0] == 200
        eventually(lambda: open_descriptors() <= before + 1)


@pytest.mark.long
def test_a_client_that_sends_a_byte_now_and_then_is_hung_up_on_in_time() -> None:
    with serving() as port, clients(port, 1) as (slow,):
        began_s = time.monotonic()

        def is_hung_up_on() -> bool:
            try:
                slow.sendall(b"x")
                return False
            except OSError:
                return True

        eventually(is_hung_up_on, 30, interval_s=0.5)
        assert time.monotonic() - began_s < 12


@pytest.mark.parametrize(
    "request_text",
    [b"GET /" + b"x" * 100_000, b"GET /health HTTP/1.1\r\n" + b"X-Header: y\r\n" * 90 + b"Z: " + b"z" * 100_000],
)
def test_a_request_without_an_end_is_refused(request_text: bytes) -> None:
    with serving() as port, clients(port, 1) as (client,):
        try:
            client.sendall(request_text)
            answer = client.recv(10_000)
        except ConnectionError:
            answer = b""
        assert not answer or b" 431 " in answer or b" 414 " in answer
        assert asked(port, "/health")[0] == 200


def test_a_runner_listens_on_its_own_machine_unless_it_is_told_otherwise() -> None:
    assert RunnerConfig().http_host == "127.0.0.1"


def test_the_next_free_port_is_taken() -> None:
    with taken(2) as first, serving(attempts=20, first_port=first) as port:
        assert port > first + 1
        assert asked(port, "/health")[0] == 200


def test_when_no_port_is_free_it_is_said_which_were_tried() -> None:
    with taken(2) as first, pytest.raises(NoPortFree) as refused, serving(attempts=2, first_port=first):
        pass

    assert str(refused.value).startswith(f"Could not bind any port from {first} to {first + 1} of 127.0.0.1")


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=f"http_port {port} is not a port: 0 to 65535"):
        StatusServer({}).start("127.0.0.1", port, 20)


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(NoSuchAddress, match=r"Could not bind no\.such\.invalid: .*; name an address of this machine"):
        StatusServer({}).start("no.such.invalid", 8080, 20)


def test_a_port_is_free_again_once_it_is_not_served() -> None:
    with serving() as port:
        pass
    with serving(first_port=port) as again:
        assert again == port


def test_status_tells_who_it_is_what_it_does_and_what_it_did() -> None:
    shop = Workshop()
    first_done, end = threading.Event(), threading.Event()
    registry = ToolRegistry()

    def slow_for_b(payload: dict[str, object]) -> dict[str, object]:
        if payload["order"] == "b":
            first_done.wait(60)
            end.wait(60)
        return pay(payload)

    registry.register("shop.Pay", slow_for_b)
    runner = runner_of(shop, registry, server_group="till", server_name="n1", topics=["shop.*"], max_concurrent=2)
    with started(shop, runner):
        shop.start("Many", orders=["a", "b"])
        eventually(lambda: runner.status()["active_work_items"] == 1 and runner.status()["handled"])
        status, document, _ = asked(runner.http_port, "/status")
        first_done.set()
        end.set()

    assert status == 200
    assert (document["server_id"], document["state"], document["running"]) == (runner.server_id, "running", True)
    assert document["handled"] == {"shop.Pay": {"handled": 1, "not_handled": 0}}
    assert document["uptime_ms"] >= 0
    assert document["config"] == {
        "server_group": "till",
        "service_name": "afl-runner",
        "server_name": "n1",
        "topics": ["shop.*"],
        "max_concurrent": 2,
        "poll_interval_ms": 20,
    }
    (active,) = document["active"]
    assert (active["name"], active["step_id"]) == ("shop.Pay", shop.tasks()[1].step_id)
    assert set(document["versions"]) == {"runtime", "workflow", "step_schema", "python"}


class Hanging(MemoryStore):
    """A store that stops answering, or refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = threading.Event()
        self.released = threading.Event()
        self.is_away = False

    def pending_task_names(self, task_list: str = "default") -> list[str]:
        if self.hangs.is_set():
            self.released.wait(60)
        if self.is_away:
            raise StoreUnavailable(path="store", reason="gone fishing")
        return super().pending_task_names(task_list)


def test_both_are_answered_while_the_store_hangs() -> None:
    store = Hanging()
    shop = Workshop(store)
    runner = runner_of(shop)
    with started(shop, runner):
        store.hangs.set()
        assert asked(runner.http_port, "/status")[1]["state"] == "running"
        assert asked(runner.http_port, "/health")[0] == 200
        store.released.set()


class Clockwork(Liveness):
    """A liveness whose time is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(lambda: self.now_s)


def test_health_turns_bad_when_no_poll_succeeds_and_good_again_when_one_does() -> None:
    store = Hanging()
    shop = Workshop(store)
    runner = runner_of(shop)
    liveness = runner._loop.liveness = Clockwork()
    with started(shop, runner):
        store.is_away = True
        eventually(lambda: liveness.obstacle is not None)
        assert asked(runner.http_port, "/health")[0] == 200
        liveness.now_s = 31.0
        status, document, _ = asked(runner.http_port, "/health")
        assert status == 503
        assert document["ok"] is False
        assert document["reason"].startswith("no poll has succeeded for 31 s: StoreUnavailable: ")
        store.is_away = False
        eventually(lambda: asked(runner.http_port, "/health")[0] == 200)


def test_a_draining_runner_is_healthy_and_says_that_it_shuts_down() -> None:
    shop = Workshop()
    begun, end = threading.Event(), threading.Event()
    registry = ToolRegistry()

    def slow(payload: dict[str, object]) -> dict[str, object]:
        begun.set()
        end.wait(60)
        return pay(payload)

    registry.register("shop.Pay", slow)
    runner = runner_of(shop, registry)
    shop.start("Buy", order="17")
    with started(shop, runner):
        assert begun.wait(30)
        runner.stop()
        eventually(lambda: shop.server_state(runner) == "shutdown")
        assert asked(runner.http_port, "/status")[1]["state"] == "shutdown"
        assert asked(runner.http_port, "/health")[0] == 200
        end.set()

    assert shop.outputs() == {"receipt": "r-17"}
