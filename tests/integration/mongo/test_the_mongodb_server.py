"""The MongoDB server that people start for trials."""

import subprocess
import sys
from pathlib import Path

from pymongo import MongoClient

from tests.worlds.mongodb import server_of_the_run
from tools.mongodb import Server


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *args], capture_output=True, text=True, timeout=100)


def test_a_server_for_trials_stays_until_it_is_stopped_and_keeps_its_data(mongodb_url: str, tmp_path: Path) -> None:
    folder = ("--dir", str(tmp_path / "mine"))
    started = run("tools.mongodb", "up", *folder)
    assert started.returncode == 0, started.stderr
    try:
        server = Server.attach(tmp_path / "mine")
        assert server is not None
        assert f"export AFL_MONGODB_URL={server.url}" in started.stdout
        assert f"tools.mongodb down --dir {tmp_path / 'mine'}" in started.stdout
        with MongoClient[dict[str, int]](server.url) as client:
            client["mine"]["kept"].insert_one({"x": 1})
        assert f"process {server.pid}" in run("tools.mongodb", "up", *folder).stdout
    finally:
        assert run("tools.mongodb", "down", *folder).returncode == 0
    assert Server.attach(tmp_path / "mine") is None
    assert run("tools.mongodb", "down", *folder).returncode == 1

    with Server.start(tmp_path / "mine") as again, MongoClient[dict[str, int]](again.url) as client:
        assert [item["x"] for item in client["mine"]["kept"].find()] == [1]


def test_the_last_user_of_the_runs_server_stops_it(mongodb_url: str, tmp_path: Path) -> None:
    with server_of_the_run(tmp_path, guardian_pid=None) as url, MongoClient[dict[str, int]](url) as client:
        assert client.admin.command("ping")["ok"] == 1

    assert [Server.attach(folder) for folder in tmp_path.glob("server-*")] == [None]
