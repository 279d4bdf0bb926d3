"""The steps of one workflow in memory."""

from __future__ import annotations

from collections.abc import Iterable

from afl.engine.model.step_rows import BoundStep, StepDocument


class KeptSteps:
    """A workflow's steps by id. Bound ones are kept in their raw form until they are read, as most never are.

    Not safe for threads: the store's lock guards it.
    """

    __slots__ = ("_bound", "_by_id")

    def __init__(self) -> None:
        self._by_id: dict[str, StepDocument] = {}
        self._bound: list[BoundStep] = []

    def write(self, rows: Iterable[StepDocument | BoundStep]) -> None:
        """Write steps, replacing those with the same ids."""
        for row in rows:
            if isinstance(row, BoundStep):
                self._bound.append(row)
            else:
                self._by_id[row.id] = row

    def by_id(self) -> dict[str, StepDocument]:
        """Return all steps, the bound ones among them as documents."""
        if self._bound:
            bound, self._bound = self._bound, []
            for step in bound:
                document = step.document()
                known = self._by_id.get(document.id)
                # A bound step never changes by itself; an operator may have rewritten it since.
                if known is None or known.revision <= document.revision:
                    self._by_id[document.id] = document
        return self._by_id

    def __len__(self) -> int:
        return len(self.by_id())
