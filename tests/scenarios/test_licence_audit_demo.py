"""`make demo`: the licence audit through the whole loop, in one process."""

import io
import json
from pathlib import Path

from rich.console import Console

from afl.runtime.sqlite_store import SqliteStore
from examples.licence_audit import plain
from examples.licence_audit.__main__ import main


def test_the_demo_arrives_at_what_a_plain_loop_finds_and_leaves_every_event_in_the_audit_file(tmp_path: Path) -> None:
    out = io.StringIO()

    assert main(Console(file=out, width=100), tmp_path) == 0

    expected = plain.licence_audit()
    store = SqliteStore(tmp_path / "store.sqlite3", create=False)
    runs = store.list_workflows()
    store.close()
    assert [(run.status, run.outputs) for run in runs] == [("COMPLETED", expected)]
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    inspections = [record for record in records if record["topic"] == "afl.events.licences.InspectDistribution"]
    assert len(inspections) == len(expected["reports"])
    assert f"{len(expected['reports']) + 2} events answered" in out.getvalue()


def test_the_demo_can_be_run_again_on_what_it_left(tmp_path: Path) -> None:
    runs = [main(Console(file=io.StringIO()), tmp_path) for _ in range(2)]

    assert runs == [0, 0]
