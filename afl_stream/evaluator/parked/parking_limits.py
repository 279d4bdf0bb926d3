"""The room that is left for answers that come before their step has asked."""

from __future__ import annotations

from afl.core.clock import MonotonicClock, monotonic_s
from afl.engine.model.store import ParkedStore, ParkedUsage
from afl_stream.errors import TooManyParked
from afl_stream.limits import MAX_PARKED_BYTES_PER_WORKFLOW
from afl_stream.settings.sections import EvaluatorSettings

#: How long a count of everything that is parked holds. It reads an entry of each parked record.
_COUNT_HOLDS_S = 30.0
_NOTHING = ParkedUsage(0, 0)


class ParkingRoom:
    """Decides whether one more answer may be parked. Belongs to the loop's thread.

    The store's content is counted from time to time, and this evaluator's own answers are added; so with several
    evaluators the whole may exceed its limit by what the others park between two counts.
    """

    def __init__(
        self,
        store: ParkedStore,
        settings: EvaluatorSettings,
        monotonic_s: MonotonicClock = monotonic_s,
    ) -> None:
        self._store = store
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._workflows: dict[str, ParkedUsage] = {}
        self._all: ParkedUsage | None = None
        self._counted_s = 0.0

    def check(self, workflow_id: str, step_id: str, size_bytes: int, claim: ParkingClaim) -> None:
        """Raise TooManyParked when there is no room for an answer beside those of the claim."""
        settings = self._settings
        found = self._workflows.get(workflow_id)
        if found is None:
            found = self._workflows[workflow_id] = self._store.parked_usage(workflow_id)
        found = _sum(found, claim.workflows.get(workflow_id, _NOTHING))
        if found.records >= settings.max_parked_per_workflow:
            limit = f"evaluator.max_parked_per_workflow = {settings.max_parked_per_workflow}"
            raise TooManyParked(step_id, f"{found.records} of workflow {workflow_id}", limit)
        if found.size_bytes + size_bytes > MAX_PARKED_BYTES_PER_WORKFLOW:
            limit = f"MAX_PARKED_BYTES_PER_WORKFLOW = {MAX_PARKED_BYTES_PER_WORKFLOW}"
            raise TooManyParked(step_id, f"{found.size_bytes} bytes of workflow {workflow_id}", limit)
        whole = _sum(self._count(), claim.all)
        if whole.records >= settings.max_parked_answers:
            limit = f"evaluator.max_parked_answers = {settings.max_parked_answers}"
            raise TooManyParked(step_id, f"{whole.records} in all", limit)
        if whole.size_bytes + size_bytes > settings.max_parked_bytes:
            limit = f"evaluator.max_parked_bytes = {settings.max_parked_bytes}"
            raise TooManyParked(step_id, f"{whole.size_bytes} bytes in all", limit)

    def add(self, claim: ParkingClaim) -> None:
        """Note that the answers of the claim are in the store."""
        for workflow_id, usage in claim.workflows.items():
            if workflow_id in self._workflows:
                self._workflows[workflow_id] = _sum(self._workflows[workflow_id], usage)
        if self._all is not None:
            self._all = _sum(self._all, claim.all)

    def forget(self) -> None:
        """Count again at the next question: parked answers have been judged or have expired since."""
        self._workflows.clear()
        if self._monotonic_s() - self._counted_s > _COUNT_HOLDS_S:
            self._all = None

    def forget_all(self) -> None:
        """Count everything again at the next question, because many answers have gone."""
        self._workflows.clear()
        self._all = None

    def _count(self) -> ParkedUsage:
        if self._all is None:
            self._counted_s = self._monotonic_s()
            self._all = self._store.parked_usage()
        return self._all


class ParkingClaim:
    """The room that one unit of work takes. It counts for others when the unit is committed.

    A unit that is dropped and computed again has taken none.
    """

    def __init__(self, room: ParkingRoom) -> None:
        self._room = room
        self.workflows: dict[str, ParkedUsage] = {}
        self.all = _NOTHING

    def take(self, workflow_id: str, step_id: str, size_bytes: int) -> None:
        """Take room for an answer. Raises TooManyParked when there is none."""
        self._room.check(workflow_id, step_id, size_bytes, self)
        answer = ParkedUsage(1, size_bytes)
        self.workflows[workflow_id] = _sum(self.workflows.get(workflow_id, _NOTHING), answer)
        self.all = _sum(self.all, answer)

    def committed(self) -> None:
        """Note that the unit is in the store."""
        self._room.add(self)


def _sum(one: ParkedUsage, other: ParkedUsage) -> ParkedUsage:
    return ParkedUsage(one.records + other.records, one.size_bytes + other.size_bytes)
