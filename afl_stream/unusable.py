"""What the engine raises of a program, a workflow, its inputs or a command that cannot be used, now or later."""

from __future__ import annotations

from typing import Final

from afl.compiled import ProgramError
from afl.core.values import ValueRefused
from afl.runtime.errors import EvaluationError, InputError, LimitReached, ScriptsNotAllowed, StoreCorrupt, UnknownFacet
from afl.runtime.errors import ReferenceError as UnresolvedReference
from afl.runtime.operation_errors import OperationRefused

UNUSABLE: Final = (
    EvaluationError,
    InputError,
    LimitReached,
    OperationRefused,
    ProgramError,
    ScriptsNotAllowed,
    StoreCorrupt,
    UnknownFacet,
    UnresolvedReference,
    ValueRefused,
)
