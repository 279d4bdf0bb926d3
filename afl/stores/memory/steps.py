"""The steps of one workflow in memory."""

from __future__ import annotations

from collections.abc import Iterable

from afl.engine.model.step_rows import BoundStep, LiveStep, StepDocument, StepRow
from afl.engine.states import StepState


class KeptSteps:
    """A workflow's steps by id. Bound and live ones are kept in the engine's form until they are read.

    Not safe for threads: the store's lock guards it.
    """

    __slots__ = ("_asking", "_bound", "_by_id", "_live")

    def __init__(self) -> None:
        self._by_id: dict[str, StepDocument] = {}
        self._bound: list[BoundStep] = []
        self._live: dict[str, LiveStep] = {}
        #: Ids of the steps that are at EventTransmit: few of many, and looked at after each answer.
        self._asking: dict[str, None] = {}

    def write(self, rows: Iterable[StepRow]) -> None:
        """Write steps, replacing those with the same ids."""
        for row in rows:
            if isinstance(row, BoundStep):
                self._bound.append(row)
                continue
            if isinstance(row, LiveStep):
                self._live[row.id] = row
            else:
                self._by_id[row.id] = row
                if self._live:
                    self._live.pop(row.id, None)
            if row.state == StepState.EVENT_TRANSMIT:
                self._asking[row.id] = None
            elif self._asking:
                self._asking.pop(row.id, None)

    def by_id(self) -> dict[str, StepDocument]:
        """Return all steps, those in the engine's form as documents."""
        if self._live:
            live, self._live = self._live, {}
            for step_id, row in live.items():
                self._by_id[step_id] = row.document()
        if self._bound:
            bound, self._bound = self._bound, []
            for step in bound:
                document = step.document()
                known = self._by_id.get(document.id)
                # A bound step never changes by itself; an operator may have rewritten it since.
                if known is None or known.revision <= document.revision:
                    self._by_id[document.id] = document
        return self._by_id

    def in_state(self, state: str) -> list[StepDocument]:
        """Return the steps in a state, in no order. Those at EventTransmit are known, others are looked for."""
        steps = self.by_id()
        if state == StepState.EVENT_TRANSMIT:
            return [steps[step_id] for step_id in self._asking]
        return [document for document in steps.values() if document.state == state]

    def __len__(self) -> int:
        return len(self.by_id())
