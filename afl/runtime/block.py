"""The progress of a block: which of its statements have steps, and what those steps wait for."""

from afl.evaluation.block import (
    BlockAnalysis,
    StatementDefinition,
    StepAnalysis,
)

__all__ = [
    "BlockAnalysis",
    "StatementDefinition",
    "StepAnalysis",
]
