"""The base of all state handlers: what a step does in one state."""

from __future__ import annotations

from typing import ClassVar

from afl.runtime.execution import Execution
from afl.runtime.records import StepRecord


class StateHandler:
    """What a step does in one state. Handlers have no state of their own, so the engine calls `work` on the class.

    `work(execution, step)` says whether the step goes on to its next state now. False leaves it where it is: an event
    is out, or something inside has not ended, and whoever ends it wakes the step. An exception makes the step fail;
    that is caught in one place, the changer.
    """

    #: Whether the state has any work. States without are walked through without a call.
    passes: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        cls.passes = "work" not in cls.__dict__

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        return True
