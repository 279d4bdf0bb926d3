"""Errors that the engine raises for a program, workflow, input or command that can never be used."""

from __future__ import annotations

from typing import Final

from afl.compiled.program import ProgramError
from afl.core.values import ValueRefused
from afl.engine.errors import EvaluationError, InputError, LimitReached, ScriptsNotAllowed, StoreCorrupt, UnknownFacet
from afl.engine.errors import ReferenceError as UnresolvedReference
from afl.engine.operations.operation_errors import OperationRefused

REFUSALS: Final = (
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
