"""The public view of a step: what it is, its state, and whether it may continue."""

from afl.stores.public.step import (
    StepDefinition,
    StepTransition,
)

__all__ = [
    "StepDefinition",
    "StepTransition",
]
