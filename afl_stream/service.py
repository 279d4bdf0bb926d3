"""The evaluator as a service: what it is made of, what it checks before it starts, and the loop that runs it."""

from afl_stream.evaluator.service import (
    EvaluatorService,
    tune_collector,
)

__all__ = [
    "EvaluatorService",
    "tune_collector",
]
