"""Deaths of the processes of one command, as they are noted in the list of servers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.core.clock import SystemClock
from afl.core.process.children import Death
from afl.stores.memory.store import MemoryStore
from afl.workers.server_record import ServerRecord
from afl_stream.commands.evaluators.deaths import end_in_store, id_of_process, noted_deaths
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.settings.config import load_config
from tests.eventually import eventually

FAMILY = str(uuid.uuid4())


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with closing(MemoryStore()) as made:
        yield made


def record(store: MemoryStore, pid: int) -> ServerRecord:
    made = ServerRecord(
        store,
        SystemClock(),
        service_name="afl-evaluator",
        server_group="g",
        server_name="here",
        server_id=id_of_process(FAMILY, pid),
    )
    made.register([])
    made.running()
    return made


def state_of(store: MemoryStore, server_id: str) -> tuple[str, object]:
    server = store.get_server(server_id)
    assert server is not None
    return server.state, server.error


def test_a_killed_process_is_listed_with_how_it_ended(store: MemoryStore) -> None:
    killed, other = record(store, 17), record(store, 18)

    end_in_store(store, id_of_process(FAMILY, 17), "was ended by SIGKILL")

    died = {"type": "ProcessDied", "message": "it was ended by SIGKILL"}
    assert state_of(store, killed.server_id) == ("error", died)
    assert state_of(store, other.server_id) == ("running", None)


def test_one_that_has_signed_off_keeps_what_it_said_itself(store: MemoryStore) -> None:
    failed = record(store, 17)
    failed.sign_off(ZeroDivisionError("by zero"))

    end_in_store(store, failed.server_id, "ended with 70")
    end_in_store(store, id_of_process(FAMILY, 99), "ended with 70")

    assert state_of(store, failed.server_id) == ("error", {"type": "ZeroDivisionError", "message": "by zero"})


def test_a_death_is_noted_beside_the_work_and_what_is_away_is_no_error(tmp_path: Path) -> None:
    environ = {"AFL_EMBEDDED_DATA_DIR": str(tmp_path), "AFL_PRESENCE_INTERVAL_S": "0"}
    config = load_config(environ=environ)
    with noted_deaths(config, FAMILY, lambda number: None) as note:
        note(Death(number=1, pid=16, how="was ended by SIGKILL"))
    with closing(open_configured_store(config)) as store, noted_deaths(config, FAMILY, lambda number: None) as note:
        killed = ServerRecord(
            store,
            SystemClock(),
            service_name="afl-evaluator",
            server_group="g",
            server_name="here",
            server_id=id_of_process(FAMILY, 17),
        )
        killed.register([])

        note(Death(number=1, pid=17, how="was ended by SIGKILL"))

        eventually(lambda: [server.state for server in store.get_all_servers()] == ["error"])
