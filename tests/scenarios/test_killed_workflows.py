"""A workflow's process is killed at an append; another process goes on, and the result is that of a whole run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.killed_workflow_checks import check_kills


@pytest.mark.parametrize("kind", ["before", "after"])
def test_on_a_sqlite_file(tmp_path: Path, kind: str) -> None:
    check_kills(str(tmp_path / "events.sqlite3"), tmp_path / "told", kind)


@pytest.mark.parametrize("kind", ["before", "after"])
def test_on_topics_of_an_embedded_log(tmp_path: Path, kind: str) -> None:
    check_kills(f"embedded:{tmp_path / 'log.sqlite3'}", tmp_path / "told", kind)


@pytest.mark.parametrize("kind", ["before", "after"])
def test_in_mongodb(tmp_path: Path, standalone_mongodb_url: str, kind: str) -> None:
    check_kills(f"{standalone_mongodb_url}/killed_{kind}_{tmp_path.name}", tmp_path / "told", kind, step=2)


@pytest.mark.parametrize("kind", ["before", pytest.param("after", marks=pytest.mark.long)])
def test_on_topics_of_kafka(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, kind: str) -> None:
    check_kills(f"kafka:{kafka_bootstrap}/{kafka_prefix}", tmp_path / "told", kind, step=3)
