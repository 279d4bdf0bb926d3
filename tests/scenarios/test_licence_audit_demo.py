"""`make demo`: the licence audit through the whole loop, in one process."""

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from afl.stores.sqlite.store import SqliteStore
from examples.licence_audit import plain
from examples.licence_audit.__main__ import main


def _records(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


@dataclass(frozen=True)
class Demo:
    """What one run of the demo printed and left, and what a plain loop finds."""

    folder: Path
    text: str
    expected: Mapping[str, Any]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder, out = tmp_path_factory.mktemp("demo"), io.StringIO()
    assert main(Console(file=out, width=100), folder) == 0
    return Demo(folder, out.getvalue(), plain.licence_audit())


def test_the_demo_arrives_at_what_a_plain_loop_finds(demo: Demo) -> None:
    store = SqliteStore(demo.folder / "store.sqlite3", create=False)
    runs = store.list_workflows()
    store.close()
    assert [(run.status, run.outputs) for run in runs] == [("COMPLETED", demo.expected)]


def test_the_audit_file_of_the_demo_has_every_event_and_its_answer_once(demo: Demo) -> None:
    records = _records(demo.folder)
    events = Counter(record["event_id"] for record in records if record["kind"] == "event")
    answers = Counter(record["event_id"] for record in records if record["kind"] == "answer")
    facets = Counter(record["facet"] for record in records if record["kind"] == "event")
    assert facets == {
        "licences.ListDistributions": 1,
        "licences.InspectDistribution": len(demo.expected["reports"]),
        "licences.SummariseByLicence": 1,
    }
    assert set(events.values()) == {1}
    assert answers == events


def test_the_demo_shows_the_table_the_rate_and_where_the_audit_file_is(demo: Demo) -> None:
    assert all(total["licence"] in demo.text for total in demo.expected["totals"])
    assert f"{len(demo.expected['reports']) + 2} events answered in" in demo.text
    assert "events/s" in demo.text
    assert f"Every record is in {demo.folder / 'audit.jsonl'}" in demo.text


@pytest.mark.parametrize("terminal", [True, False])
def test_the_demo_can_be_run_again_on_what_it_left(terminal: bool, tmp_path: Path) -> None:
    runs = [main(Console(file=io.StringIO(), force_terminal=terminal), tmp_path) for _ in range(2)]

    assert runs == [0, 0]
    places = [(record["topic"], record["partition"], record["offset"]) for record in _records(tmp_path)]
    assert len(places) == len(set(places))
