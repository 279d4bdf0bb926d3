"""Capture: what the blocks yielded becomes the step's returns, and return defaults fill what nobody set."""

from __future__ import annotations

from afl.runtime.binding import bind_return_defaults
from afl.runtime.execution import Execution, capture_order
from afl.runtime.handlers.base import StateHandler
from afl.runtime.records import StepRecord
from afl.runtime.types import Value


class MixinCaptureBeginHandler(StateHandler):
    """Pass: no program that the engine accepts has mixins yet."""


class MixinCaptureEndHandler(StateHandler):
    """Pass."""


class StatementCaptureBeginHandler(StateHandler):
    """Merge the yields addressed to this step, in the order of the program whatever completed first.

    Per field: the first value sets it; then array and array concatenate, anything else replaces.
    """

    @staticmethod
    def work(execution: Execution, step: StepRecord) -> bool:
        if step.captured is not None:
            step.returns = _merged(step)
            step.captured = None
        facet = step.facet
        if facet is not None and facet.return_defaults:
            step.returns = bind_return_defaults(facet, step.params, step.returns)
        return True


class StatementCaptureEndHandler(StateHandler):
    """Nothing to do after the capture."""


def _merged(step: StepRecord) -> dict[str, Value]:
    assert step.captured is not None
    returns = dict(step.returns)
    # Fields that this merge has set: an array that an agent returned is replaced by the first yield, not extended.
    own: dict[str, list[Value]] = {}
    set_here: set[str] = set()
    yields = step.captured
    if len(yields) > 1:
        yields.sort(key=capture_order)
    for yielded in yields:
        for name, value in yielded.params.items():
            if isinstance(value, list) and name in set_here and isinstance(returns[name], list):
                if name not in own:
                    own[name] = list(returns[name])  # type: ignore[arg-type]  # checked in the line above
                    returns[name] = own[name]
                own[name].extend(value)
                continue
            own.pop(name, None)
            returns[name] = value
            set_here.add(name)
    return returns
