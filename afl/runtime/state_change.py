"""What came of processing a public step in one state."""

from __future__ import annotations

from dataclasses import dataclass

from afl.stores.public.step import StepDefinition


@dataclass
class StateChangeResult:
    """
    The step as it is now, and whether to go on with it.

    `success` False: it could not be processed, for the reason in `error`. `continue_processing`: it asks to be
    processed again.
    """

    step: StepDefinition
    success: bool = True
    error: Exception | None = None
    continue_processing: bool = True
