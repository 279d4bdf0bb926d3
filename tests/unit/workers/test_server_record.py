"""A server in the list of servers."""

from __future__ import annotations

import threading

import pytest

from afl.core.clock import ManualClock
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import HandledCount, ServerDefinition, ServerState
from afl.stores.memory.store import MemoryStore
from afl.workers.heartbeat import is_stale, registered_server
from afl.workers.server_record import ServerRecord
from tests.eventually import eventually


class Diary(MemoryStore):
    """Remembers which states were saved."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.states: list[str] = []
        self.pings: list[int] = []
        self.away = False

    def save_server(self, server: ServerDefinition) -> None:
        if self.away:
            raise StoreUnavailable(path="store", reason="away")
        self.states.append(server.state)
        super().save_server(server)

    def update_server_ping(self, server_id: str, ping_ms: int) -> None:
        self.pings.append(ping_ms)
        super().update_server_ping(server_id, ping_ms)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def store(clock: ManualClock) -> Diary:
    return Diary(clock)


@pytest.fixture
def server_record(store: Diary, clock: ManualClock) -> ServerRecord:
    return ServerRecord(store, clock, service_name="pays", server_group="shop", server_name="till")


def test_a_server_says_which_store_it_works_on(store: Diary, server_record: ServerRecord) -> None:
    server_record.register(["shop.Pay"])

    (listed,) = store.get_all_servers()
    assert listed.store_id == store.identity().id


def test_a_server_starts_runs_and_signs_off(store: Diary, server_record: ServerRecord, clock: ManualClock) -> None:
    server_record.register(["shop.Pay"])
    server_record.running()
    clock.advance(10)
    server_record.beat()
    server_record.sign_off()

    assert store.states == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]
    assert store.pings == [1_010]
    server = store.get_server(server_record.server_id)
    assert server is not None
    assert (server.service_name, server.server_group, server.server_name) == ("pays", "shop", "till")
    assert (server.start_time, server.ping_time) == (1_000, 1_010)
    assert server.topics == server.handlers == ["shop.Pay"]


def test_what_it_died_of_is_in_its_record(store: Diary, server_record: ServerRecord) -> None:
    server_record.register([])
    server_record.sign_off(LookupError("lost"))

    server = store.get_server(server_record.server_id)
    assert server is not None
    assert (server.state, server.error) == (ServerState.ERROR, {"type": "LookupError", "message": "lost"})


def test_counts_and_handlers_are_told_with_a_heartbeat(store: Diary, server_record: ServerRecord) -> None:
    server_record.register([])
    server_record.count("shop.Pay", handled=True)
    server_record.count("shop.Pay", handled=False)
    server_record.handles(["shop.Pay"])
    server_record.beat()
    server_record.beat()

    server = store.get_server(server_record.server_id)
    assert server is not None
    assert server.handlers == ["shop.Pay"]
    assert [(count.handled, count.not_handled) for count in server.handled] == [(1, 1)]
    assert len(store.pings) == 1


def test_a_store_that_is_away_is_told_later(store: Diary, server_record: ServerRecord) -> None:
    server_record.register([])
    server_record.count("shop.Pay", handled=True)
    store.away = True
    server_record.beat()
    store.away = False
    server_record.beat()

    server = store.get_server(server_record.server_id)
    assert server is not None
    assert len(server.handled) == 1


def test_a_server_without_heartbeats_is_stale_unless_it_has_signed_off(
    store: Diary, server_record: ServerRecord, clock: ManualClock
) -> None:
    server_record.register([])
    server_record.running()
    running = store.get_server(server_record.server_id)
    server_record.sign_off()
    ended = store.get_server(server_record.server_id)
    assert running is not None
    assert ended is not None

    assert not is_stale(running, 31_000)
    assert is_stale(running, 31_001)
    assert not is_stale(ended, 1_000_000)


def test_whoever_has_no_loop_is_in_the_list_for_as_long_as_it_works(store: Diary, server_record: ServerRecord) -> None:
    with registered_server(server_record):
        assert store.states == [ServerState.STARTUP, ServerState.RUNNING]
    assert store.states[2:] == [ServerState.SHUTDOWN]


def test_what_ends_it_is_in_its_record(store: Diary, server_record: ServerRecord) -> None:
    with pytest.raises(LookupError), registered_server(server_record):
        raise LookupError("lost")

    assert store.states[2:] == [ServerState.ERROR]


def test_heartbeats_come_while_it_works(store: Diary, clock: ManualClock) -> None:
    server = ServerRecord(
        store, clock, service_name="pays", server_group="shop", server_name="till", heartbeat_interval_ms=10
    )
    names: list[str] = []
    with registered_server(server, lambda: list(names)):
        eventually(lambda: len(store.pings) > 1)
        names.append("shop.Pay")
        eventually(lambda: handlers(store, server) == ["shop.Pay"])


def test_a_server_that_counts_for_itself_is_listed_with_its_counts(store: Diary, server_record: ServerRecord) -> None:
    counts = [HandledCount("shop.Pay", 1)]

    with registered_server(server_record, counts=lambda: counts):
        counts[0] = HandledCount("shop.Pay", 2, 1)

    found = store.get_server(server_record.server_id)
    assert found is not None
    assert found.handled == [HandledCount("shop.Pay", 2, 1)]


def handlers(store: Diary, server: ServerRecord) -> list[str]:
    found = store.get_server(server.server_id)
    return [] if found is None else found.handlers


def test_a_server_is_stale_by_its_own_measure(store: Diary, clock: ManualClock) -> None:
    patient = ServerRecord(
        store, clock, service_name="pays", server_group="shop", server_name="till", heartbeat_interval_ms=60_000
    )
    patient.register([])
    found = store.get_server(patient.server_id)
    assert found is not None

    assert not is_stale(found, 181_000)
    assert is_stale(found, 181_001)


def test_counting_and_reading_do_not_wait_for_the_store(store: Diary, clock: ManualClock) -> None:
    begun, end = threading.Event(), threading.Event()

    class Slow(Diary):
        def save_server(self, server: ServerDefinition) -> None:
            begun.set()
            end.wait(30)

    server = ServerRecord(Slow(clock), clock, service_name="pays", server_group="shop", server_name="till")
    saving = threading.Thread(target=server.running)
    saving.start()
    assert begun.wait(30)

    server.count("shop.Pay", handled=True)
    assert [count.handled for count in server.counts()] == [1]
    end.set()
    saving.join()


def test_a_server_that_cannot_say_how_it_does_is_listed_as_alive_and_signs_off(
    store: Diary, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = ServerRecord(
        store, clock, service_name="pays", server_group="shop", server_name="till", heartbeat_interval_ms=10
    )

    def trouble() -> str:
        raise RuntimeError("dictionary changed size during iteration")

    with registered_server(server, trouble=trouble):
        eventually(lambda: len(store.pings) > 2)

    assert store.states == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]
    assert "dictionary changed size" in caplog.text
