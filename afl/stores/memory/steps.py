"""The steps of one workflow in memory."""

from __future__ import annotations

from collections.abc import Iterable

from afl.engine.model.step_rows import SettledStep, StepDocument


class KeptSteps:
    """A workflow's steps by id. Settled ones are kept in their raw form until they are read, as most never are.

    Not safe for threads: the store's lock guards it.
    """

    __slots__ = ("_by_id", "_settled")

    def __init__(self) -> None:
        self._by_id: dict[str, StepDocument] = {}
        self._settled: list[SettledStep] = []

    def write(self, rows: Iterable[StepDocument | SettledStep]) -> None:
        """Write steps, replacing those with the same ids."""
        for row in rows:
            if isinstance(row, SettledStep):
                self._settled.append(row)
            else:
                self._by_id[row.id] = row

    def by_id(self) -> dict[str, StepDocument]:
        """Return all steps, the settled ones among them as documents."""
        if self._settled:
            settled, self._settled = self._settled, []
            for step in settled:
                document = step.document()
                known = self._by_id.get(document.id)
                # A settled step never changes by itself; an operator may have rewritten it since.
                if known is None or known.revision <= document.revision:
                    self._by_id[document.id] = document
        return self._by_id

    def __len__(self) -> int:
        return len(self.by_id())
