"""What one run may take: its limits, the warnings before they are reached, and the errors when they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from afl.runtime import limits
from afl.runtime.errors import NestingTooDeep, StepLimitReached
from afl.runtime.value_bounds import check_depth, check_payload

if TYPE_CHECKING:
    from afl.runtime.execution import Execution
    from afl.runtime.records import StepRecord

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of each run that can be set. ValueError for one that is not positive."""

    max_steps: int = limits.MAX_WORKFLOW_STEPS
    max_payload_bytes: int = limits.MAX_PAYLOAD_BYTES

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_payload_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")


_DEFAULTS = RunLimits()


class RunBounds:
    """The limits of one run, and which of them it has been warned about: once each, as long as it stays in memory."""

    __slots__ = ("_limits", "_warned", "notice_at")

    def __init__(self, run_limits: RunLimits = _DEFAULTS, steps: int = 0) -> None:
        """`steps` is how many a run that is read back has: what it has passed it was warned about then."""
        self._limits = run_limits
        self._warned: frozenset[str] = frozenset()
        near = limits.near(run_limits.max_steps)
        #: How many steps a run may have before there is something to say. The engine compares it after each iteration.
        self.notice_at = near if steps <= near else run_limits.max_steps

    def note_steps(self, execution: Execution) -> None:
        """The run has more steps than `notice_at`: warn, or end it."""
        limit = self._limits.max_steps
        if execution.count > limit:
            if not execution.is_ended:
                error = StepLimitReached(execution.plan.name, execution.count, limit)
                execution.abort(type(error).__name__, str(error))
            return
        self.notice_at = limit
        self._warn(execution, "max_steps", f"has {execution.count} steps", limit, "and ends when it makes more")

    def check_steps(self, execution: Execution) -> None:
        """Raise StepLimitReached in a run that has too many steps: within one iteration it may make any number."""
        limit = self._limits.max_steps
        if execution.count > limit:
            raise StepLimitReached(execution.plan.name, execution.count, limit)

    def check_block(self, execution: Execution, owner: StepRecord) -> None:
        """Raise NestingTooDeep or StepLimitReached where the step may have no block of its own."""
        self.check_steps(execution)
        depth, step = 0, owner
        while step.container is not None:
            depth, step = depth + 1, step.container
        if depth > _NEARLY_TOO_DEEP:
            limit = limits.MAX_NESTING_DEPTH
            if depth > limit:
                raise NestingTooDeep(step_path=execution.path_of(owner), limit=limit)
            self._warn(execution, "MAX_NESTING_DEPTH", f"is nested {depth} deep", limit, "and what is deeper fails")

    def check_payload(self, execution: Execution, step: StepRecord) -> None:
        """Raise PayloadTooLarge or ValueTooDeep for a step whose event is not to be sent."""
        self.check_values(execution, f"the payload of {step.facet_name}", step.params)

    def check_values(self, execution: Execution, what: str, values: Mapping[str, object]) -> None:
        """Raise PayloadTooLarge or ValueTooDeep for what goes to an agent or comes from one."""
        limit = self._limits.max_payload_bytes
        found = check_payload(what, values, limit)
        if found:
            told = f"has {what}, which takes {found} bytes"
            self._warn(execution, "max_payload_bytes", told, limit, "and what is larger fails")

    def warn_of_iterations(self, execution: Execution, iterations: int, limit: int) -> None:
        """A call has used most of its iterations."""
        told = f"has taken {iterations} iterations in one call"
        self._warn(execution, "max_iterations", told, limit, "where the call ends with TIMEOUT")

    def check_outputs(self, execution: Execution) -> None:
        """Raise ValueTooDeep for outputs that nobody could copy or store."""
        check_depth(f"what {execution.plan.name} returns", execution.outputs)

    def _warn(self, execution: Execution, name: str, found: str, limit: int, then: str) -> None:
        if name not in self._warned:
            self._warned |= {name}
            _log.warning(
                "workflow %s (%s) %s, near to its limit %s = %d, %s",
                execution.id,
                execution.plan.name,
                found,
                name,
                limit,
                then,
            )


_NEARLY_TOO_DEEP = limits.near(limits.MAX_NESTING_DEPTH)
