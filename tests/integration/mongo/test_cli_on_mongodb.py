"""`afl-stream` with its store in MongoDB: the same commands, and what they say when the database is not to be had."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bson
import pytest
from pymongo import MongoClient

from afl.config import MongoDBConfig
from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def store_url(mongodb_of_either_kind: MongoDBConfig, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"{mongodb_of_either_kind.connection_string().rstrip('/')}/{mongodb_of_either_kind.database}"
    monkeypatch.setenv("AFL_STORE_URL", url)
    return url


def test_dev_keeps_its_runs_in_the_database_and_status_finds_them_there(
    store_url: str, command_line: CommandLine
) -> None:
    dev = command_line(
        "dev", command_line.program, "--handlers", command_line.handlers, "--input", 'hosts=["a", "bb"]', "--id", "w1"
    )
    status = command_line("status", "w1", "--json")

    assert dev.code == 0, dev.err
    assert "times = [1, 2]" in dev.out
    assert (status.document["status"], status.document["outputs"]["times"]) == ("COMPLETED", [1, 2])
    assert not (command_line.data_dir / "store.sqlite3").exists()
    with MongoClient[dict[str, object]](store_url) as client:
        assert [row["_id"] for row in client.get_default_database()["workflows"].find()] == ["w1"]


def test_a_database_without_a_store_is_told_with_what_makes_one(store_url: str, command_line: CommandLine) -> None:
    called = command_line("status")

    assert called.code == 3
    assert "there is no store in this database; an evaluator makes it when it first runs" in called.err


def test_a_run_continues_from_command_to_command(store_url: str, command_line: CommandLine) -> None:
    command_line.deployed()
    assert command_line("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1").code == 0
    assert command_line("evaluator", "--until-idle").code == 0
    (note,) = command_line.steps("w1", "net.Note")
    assert command_line("continue", note, "--result", '{"ok": true}').code == 0
    assert command_line("agent", "--handlers", command_line.handlers, "--until-idle").code == 0
    assert command_line("evaluator", "--until-idle").code == 0

    assert command_line("status", "w1", "--json").document["outputs"] == {"times": [1], "label": "none"}


def test_the_url_may_stand_in_the_settings_file(
    mongodb: MongoDBConfig, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{mongodb.connection_string().rstrip('/')}/{mongodb.database}"
    settings = command_line.file("afl-stream.toml", f'[store]\nurl = "{url}"\n')
    monkeypatch.delenv("AFL_STORE_URL", raising=False)

    called = command_line("dev", command_line.program, "--input", "hosts=[]", "--id", "w1", "--config", settings)

    assert called.code == 1, called.err
    assert command_line("status", "w1", "--json", "--config", settings).document["status"] == "WAITING"
    assert command_line("status", "w1").code == 3


def test_a_database_that_holds_another_prefixs_store_is_left_alone(store_url: str, command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", "hosts=[]", "--id", "w1")

    called = command_line("status", "--prefix", "tenant.")

    assert called.code == 3
    assert "the store of topic prefix 'afl.'" in called.err


def test_a_server_that_is_away_is_named_without_who_asks(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_STORE_URL", "mongodb://ann:secret@127.0.0.1:1/runs?serverSelectionTimeoutMS=20")

    called = command_line("status")

    assert called.code == 3
    assert "store mongodb://127.0.0.1:1/runs can't be used" in called.err
    assert "secret" not in called.err


@pytest.mark.parametrize("url", ["redis://host/0", "mongodb://host:port/x", "mongodb://"])
def test_an_url_of_something_else_is_refused(
    url: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_STORE_URL", url)

    called = command_line("status")

    assert called.code in (2, 3)
    # What stands where a port should may be the password of a url without its at sign.
    assert url.removesuffix("port/x") in called.err
    assert "Traceback" not in called.err


class OldServer(socketserver.StreamRequestHandler):
    """Answers every command as a MongoDB 7.0 greets."""

    def handle(self) -> None:
        while len(header := self.rfile.read(16)) == 16:
            length, request_id, _, code = struct.unpack("<iiii", header)
            self.rfile.read(length - 16)
            body = bson.encode({
                "ok": 1, "ismaster": True, "isWritablePrimary": True, "minWireVersion": 0, "maxWireVersion": 21,
                "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
                "version": "7.0.5",
            })  # fmt: skip
            if code == 2004:  # OP_QUERY, answered by OP_REPLY
                content = struct.pack("<iqii", 8, 0, 0, 1) + body
                answer_code = 1
            else:
                content = struct.pack("<IB", 0, 0) + body
                answer_code = 2013
            self.wfile.write(struct.pack("<iiii", 16 + len(content), 0, request_id, answer_code) + content)


@contextmanager
def old_server() -> Iterator[str]:
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), OldServer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"mongodb://127.0.0.1:{server.server_address[1]}/runs"
        finally:
            server.shutdown()
            thread.join()


def test_a_server_that_is_too_old_is_refused_with_what_would_do(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with old_server() as url:
        monkeypatch.setenv("AFL_STORE_URL", url)
        called = command_line("status")

    assert called.code == 3
    assert "the server is MongoDB 7.0.5, wanted 8.0 or newer" in called.err


def test_without_pymongo_the_extra_is_named(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    command_line.file("pymongo.py", "raise ImportError('no pymongo here')")
    monkeypatch.setenv("AFL_STORE_URL", "mongodb://127.0.0.1/runs")

    called = command_line.run("status")

    assert called.code == 3
    assert "pymongo is not installed; install the extra: afl-stream[mongodb]" in called.err
