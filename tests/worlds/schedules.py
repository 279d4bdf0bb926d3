"""A plan of runs: two small workflows, their schedules, and what became of them."""

from __future__ import annotations

from afl_stream.schedules.documents import Schedule, from_document
from afl_stream.schedules.spec import ScheduleSpec
from tests.worlds.deployment import START_MS, Deployment
from tests.worlds.parties import Evaluator

PLAN = """
namespace plan {
  event facet Ask(n: Long) => (n: Long)
  workflow Slow(n: Long) => (n: Long) andThen {
    a = Ask(n = $.n)
    yield Slow(n = a.n)
  }
  workflow Quick(n: Long) => (n: Long) andThen { yield Quick(n = $.n) }
}
"""
SLOW, QUICK = "plan.Slow", "plan.Quick"
MINUTE = 60_000
#: The first whole minute of a deployment's clock: 2023-11-14 22:14:00 UTC.
FIRST_MINUTE_MS = START_MS // MINUTE * MINUTE + MINUTE


class Planner:
    """A deployment whose evaluator keeps schedules, and the clock that moves them. Nobody answers `Ask`."""

    def __init__(self, deployment: Deployment, evaluator: Evaluator | None = None) -> None:
        self.deployment = deployment
        self.evaluator = evaluator or deployment.evaluator()
        deployment.settle()

    def put(self, spec: ScheduleSpec, schedule_id: str = "m") -> None:
        self.deployment.client.put_schedule(schedule_id, spec)
        self.deployment.settle()

    def pass_until(self, minute: int, *, seconds: int = 1) -> None:
        """Let the time come that is so many minutes, and some seconds, behind the first whole minute; then settle."""
        until_ms = FIRST_MINUTE_MS + minute * MINUTE + seconds * 1_000
        self.deployment.clock.advance(max(until_ms - self.deployment.clock.now_ms(), 0))
        self.deployment.settle()

    def pass_minutes(self, first: int, last: int) -> None:
        """Let each of these minutes come, one after the other."""
        for minute in range(first, last + 1):
            self.pass_until(minute)

    def end_run(self, workflow_id: str) -> None:
        self.deployment.client.cancel(workflow_id)
        self.deployment.settle()

    def schedule(self, schedule_id: str = "m") -> Schedule:
        row = self.deployment.store.schedule(schedule_id)
        assert row is not None
        return from_document(row.id, row.document)

    def runs(self, schedule_id: str = "m") -> list[str]:
        """Return the times in the ids of a schedule's runs, as minutes and seconds of the clock."""
        rows = self.deployment.store.list_workflows(limit=10_000)
        ids = sorted(row.id for row in rows if row.id.startswith(f"{schedule_id}-"))
        return [_minute_of(workflow_id, schedule_id) for workflow_id in ids]


def run_at(minute: int, schedule_id: str = "m") -> str:
    """Return the workflow id of the run of a minute, counted from the first whole one."""
    hour, rest = divmod(14 + minute, 60)
    return f"{schedule_id}-20231114T{22 + hour:02d}{rest:02d}00Z"


def _minute_of(workflow_id: str, schedule_id: str) -> str:
    stamp = workflow_id.removeprefix(f"{schedule_id}-").partition("T")[2]
    return f"{stamp[:2]}:{stamp[2:4]}:{stamp[4:6]}{stamp[7:]}"
