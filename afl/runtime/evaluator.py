"""Runs workflows against a store: execute, resume, and the answers that agents give in between."""

from afl.evaluation.context import ExecutionContext
from afl.evaluation.evaluator import Evaluator
from afl.evaluation.execution_result import ExecutionResult, ExecutionStatus
from afl.runtime.changers import create_state_changer, get_state_changer

__all__ = [
    "Evaluator",
    "ExecutionContext",
    "ExecutionResult",
    "ExecutionStatus",
    "create_state_changer",
    "get_state_changer",
]
