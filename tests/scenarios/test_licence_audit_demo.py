"""`make demo`: the licence audit through the whole loop, in one process."""

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from afl.stores.sqlite.store import SqliteStore
from examples.licence_audit import plain
from examples.licence_audit.__main__ import main


def _records(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def test_the_demo_arrives_at_what_a_plain_loop_finds(tmp_path: Path) -> None:
    assert main(Console(file=io.StringIO()), tmp_path) == 0

    store = SqliteStore(tmp_path / "store.sqlite3", create=False)
    runs = store.list_workflows()
    store.close()
    assert [(run.status, run.outputs) for run in runs] == [("COMPLETED", plain.licence_audit())]


def test_the_audit_file_of_the_demo_has_every_event_and_its_answer_once(tmp_path: Path) -> None:
    main(Console(file=io.StringIO()), tmp_path)

    records = _records(tmp_path)
    events = Counter(record["event_id"] for record in records if record["kind"] == "event")
    answers = Counter(record["event_id"] for record in records if record["kind"] == "answer")
    facets = Counter(record["facet"] for record in records if record["kind"] == "event")
    inspected = len(plain.licence_audit()["reports"])
    assert facets == {
        "licences.ListDistributions": 1,
        "licences.InspectDistribution": inspected,
        "licences.SummariseByLicence": 1,
    }
    assert set(events.values()) == {1}
    assert answers == events


def test_the_demo_shows_the_table_the_rate_and_where_the_audit_file_is(tmp_path: Path) -> None:
    out = io.StringIO()

    main(Console(file=out, width=100), tmp_path)

    expected = plain.licence_audit()
    text = out.getvalue()
    assert all(total["licence"] in text for total in expected["totals"])
    assert f"{len(expected['reports']) + 2} events answered in" in text
    assert "events/s" in text
    assert f"Every record is in {tmp_path / 'audit.jsonl'}" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_the_demo_can_be_run_again_on_what_it_left(terminal: bool, tmp_path: Path) -> None:
    runs = [main(Console(file=io.StringIO(), force_terminal=terminal), tmp_path) for _ in range(2)]

    assert runs == [0, 0]
    places = [(record["topic"], record["partition"], record["offset"]) for record in _records(tmp_path)]
    assert len(places) == len(set(places))
