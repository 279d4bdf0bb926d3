"""Audit lines in a database: each record once, whatever crashes, and what is done to the rows shows."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from afl_stream.audit.audit import Audit, AuditConfig
from afl_stream.audit.sqlite_sink import AuditDatabase, AuditDatabaseRefused
from afl_stream.audit.verifying import verify
from afl_stream.embedded.transport import Crash, EmbeddedTransport, Faults
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

TOPIC = f"afl.events.{PAY}"
STEPS = ("audit.polled", "audit.written", "audit.synced", "audit.committed")


def audited(deployment: Deployment, path: Path, faults: Faults | None = None) -> None:
    transport = EmbeddedTransport(deployment.broker)
    probe = (faults or Faults()).probe
    config = AuditConfig(stream=deployment.stream, batch_records=2)
    audit = Audit(config, transport, AuditDatabase(path), probe=probe)
    try:
        for _ in range(12):  # A turn that only repeats writes no line.
            audit.turn(0)
    except Crash:
        transport.abandon()
    audit.close()


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def forge(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_row_is_a_line_and_can_be_asked_by_its_members(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.db"
    deployment.publish(event(step=1), event(step=2))

    audited(deployment, path)

    asked = "SELECT facet, step, \"offset\", line FROM audit_line WHERE workflow = 'wf-2'"
    ((facet, step, offset, line),) = rows(path, asked)
    assert (facet, step, offset) == (PAY, "wf-2:2", 1)
    assert json.loads(str(line))["payload"] == {"n": 2}
    assert rows(path, 'SELECT topic, "offset" FROM audit_offset') == [(TOPIC, 1)]


@pytest.mark.parametrize("passes", [0, 1])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_each_row_once(tmp_path: Path, step: str, passes: int) -> None:
    deployment, path, faults = Deployment(), tmp_path / "audit.db", Faults()
    deployment.publish(*(event(step=n) for n in range(1, 6)))
    faults.fail_at(step, passes=passes)
    audited(deployment, path, faults)

    audited(deployment, path)

    assert rows(path, 'SELECT "offset" FROM audit_line ORDER BY number') == [(n,) for n in range(5)]
    assert verify(path).is_intact


def test_a_group_that_has_lost_its_offsets_repeats_no_row(tmp_path: Path) -> None:
    deployment, path = Deployment(), tmp_path / "audit.db"
    deployment.publish(event(step=1), event(step=2))
    audited(deployment, path)
    deployment.broker.forget_offsets("afl.audit")
    deployment.publish(event(step=3))

    audited(deployment, path)

    assert rows(path, 'SELECT "offset" FROM audit_line ORDER BY number') == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("UPDATE audit_line SET line = replace(line, 'wf-3', 'wf-4') WHERE number = 3", 3),
        ("DELETE FROM audit_line WHERE number IN (2, 3)", 2),
        ("UPDATE audit_line SET number = CASE number WHEN 2 THEN -3 ELSE -2 END WHERE number IN (2, 3)", 1),
        ("DELETE FROM audit_line WHERE number = 1", 1),
    ],
)
def test_tampering_with_rows_shows(tmp_path: Path, statement: str, number: int) -> None:
    deployment, path = Deployment(), tmp_path / "audit.db"
    deployment.publish(*(event(step=n) for n in range(1, 6)))
    audited(deployment, path)
    assert verify(path).is_intact

    forge(path, statement)

    found = verify(path)
    assert not found.is_intact
    assert found.chain.breaks[0].number == number


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    forge(path, "CREATE TABLE other (x)")

    with pytest.raises(AuditDatabaseRefused, match="is a database of something else"):
        AuditDatabase(path)
    (tmp_path / "text.db").write_text("no database, and long enough to be looked at as one" * 40)
    with pytest.raises(AuditDatabaseRefused, match="cannot be opened"):
        AuditDatabase(tmp_path / "text.db")


def test_a_database_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    AuditDatabase(path).close()
    forge(path, "PRAGMA user_version = 2")

    with pytest.raises(AuditDatabaseRefused, match="has format 2, and this release reads 1"):
        AuditDatabase(path)
