"""An event store is opened by where it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.opening import open_event_store
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore


def test_memory_keeps_nothing() -> None:
    assert isinstance(open_event_store("memory:"), MemoryEventStore)


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_path_is_a_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "events of 2026.sqlite3"

    store = open_event_store(form.format(path))

    assert isinstance(store, SQLiteEventStore)
    assert path.exists()
    asyncio.run(store.close())


def test_a_path_in_the_url_is_relative_after_three_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    for where in ("sqlite:///a%20b.sqlite3", Path("c.sqlite3"), "d.sqlite3"):
        asyncio.run(open_event_store(where).close())

    assert {path.name for path in tmp_path.glob("*.sqlite3")} == {"a b.sqlite3", "c.sqlite3", "d.sqlite3"}


@pytest.mark.parametrize(
    "where", ["", ":memory:", "sqlite:///", "sqlite:", "sqlite://events.sqlite3", "postgres://ann:secret@host/db"]
)
def test_what_names_no_event_store_is_refused_with_what_would(where: str) -> None:
    with pytest.raises(EventStoreUnusable, match=r"memory:, a path, sqlite:///a/path, or mongodb://host") as caught:
        open_event_store(where)
    assert "secret" not in str(caught.value)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(EventStoreUnavailable, match=r"directory .*nowhere does not exist"):
        open_event_store(tmp_path / "nowhere" / "events.sqlite3")


@pytest.mark.parametrize("where", ["mongodb://ann:se@cret@host/db", "mongodb://", "mongodb://host:port/"])
def test_a_url_of_no_server_is_refused_without_its_password(where: str) -> None:
    with pytest.raises(EventStoreUnavailable) as caught:
        open_event_store(where)
    assert "cret" not in str(caught.value)
