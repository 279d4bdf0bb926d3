"""What must hold of a workflow that was killed at one of its appends and resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

#: What the request comes to when nothing happens on the way.
UNINTERRUPTED = {
    "topics": {
        "orders": [[3, 5, 8]],
        "items": [3, 5, 8],
        "priced": [300, 500, 800],
        "checked": [True, True, False],
        "answers": [
            {"price": 300, "is_odd": True},
            {"price": 500, "is_odd": True},
            {"price": 800, "is_odd": False},
        ],
    },
    "commits": {
        "split orders": 0,
        "price items": 2,
        "check items": 2,
        "join priced": 2,
        "join checked": 2,
        "Desk answers": 2,
    },
    "status": "finished",
    "user": "ann",
}


#: How many appends, and how many events, there are at the least.
LEAST = {"before": 5, "after": 16}


def check_kills(where: str, folder: Path, kind: str, *, step: int = 1) -> None:
    """Kill a workflow's process at one append, or event, after the other, and look at what others make of it."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.scenarios.killed_workflows", where, str(folder), kind, str(step)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr
    cases = [json.loads(line) for line in ran.stdout.splitlines()]

    assert [case["killed"] for case in cases] == [True] * (len(cases) - 1) + [False]
    assert len(cases) > LEAST[kind] / step
    for case in cases:
        assert case["after"] == UNINTERRUPTED
        _check_outputs(case)
        _check_that_nothing_finished_ran_again(case)


def _check_outputs(case: dict[str, Any]) -> None:
    """Check that the caller of the resumed request got what no caller had taken before."""
    before = case["before"] or {"commits": {}}
    taken = before["commits"].get("Desk answers", -1) + 1
    assert case["outputs"] == UNINTERRUPTED["topics"]["answers"][taken:]  # type: ignore[index]  # as it stands above


def _check_that_nothing_finished_ran_again(case: dict[str, Any]) -> None:
    before = case["before"] or {"commits": {}}
    for node, topic, offset in case["runs"]:
        assert offset > before["commits"].get(f"{node} {topic}", -1)
