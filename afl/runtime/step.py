"""The public view of a step: what it is, where it stands, and whether it may move on."""

from afl.stores.public.step import (
    StepDefinition,
    StepTransition,
)

__all__ = [
    "StepDefinition",
    "StepTransition",
]
