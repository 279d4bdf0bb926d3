"""What is kept of a purged run's inputs: a digest without the sensitive ones, which nobody can guess from it then."""

from __future__ import annotations

from afl.core.sensitive import SensitivePatterns
from afl.engine.model.store import Store, WorkflowRow
from afl.engine.model.tombstones import digest_of_inputs
from afl_stream.evaluator.sensitive.program_marks import ProgramMarks
from afl_stream.sensitive.envelope import is_sealed


class PurgedInputs:
    """Makes the digests of tombstones."""

    def __init__(self, store: Store, patterns: SensitivePatterns) -> None:
        self._marks = ProgramMarks(store, patterns)

    def digest_of(self, row: WorkflowRow) -> str:
        """Return the digest of a run's inputs, of which some may be encrypted."""
        names = self._marks.of(row.program).params_of(row.name)
        return digest_of_inputs(
            {name: value for name, value in row.inputs.items() if name not in names and not is_sealed(value)}
        )
