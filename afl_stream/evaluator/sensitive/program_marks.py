"""What is sensitive in the programs of an evaluator, or of a store, by fingerprint."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from afl.compiled.program import CompiledProgram, ProgramError
from afl.compiled.sensitive import NO_MARKS, SensitiveMarks, sensitive_marks
from afl.core.sensitive import NO_PATTERNS, SensitivePatterns
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.store import Store
from afl.engine.planning.programs import stored_program

_KEPT: Final = 1_000


class ProgramMarks:
    """The marks of programs: each is worked out once."""

    def __init__(self, store: Store, patterns: SensitivePatterns = NO_PATTERNS) -> None:
        self._store = store
        self._patterns = patterns
        self._known: OrderedDict[str, SensitiveMarks] = OrderedDict()

    def of(self, fingerprint: str) -> SensitiveMarks:
        """Return the marks of a program of the store; none for one that it has not, or that cannot be read."""
        known = self._known.get(fingerprint)
        if known is not None:
            return known
        try:
            program = stored_program(self._store, fingerprint)
        except (ProgramError, StoreCorrupt, VersionMismatchError):
            program = None
        return NO_MARKS if program is None else self.note(fingerprint, program)

    def note(self, fingerprint: str, program: CompiledProgram) -> SensitiveMarks:
        """Take in a program that the store may not have yet, and return its marks."""
        marks = self._known.get(fingerprint)
        if marks is None:
            marks = self._known[fingerprint] = sensitive_marks(program, self._patterns)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return marks
