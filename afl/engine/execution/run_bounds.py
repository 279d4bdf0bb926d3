"""What one run may take: its limits, the warnings before they are reached, and the errors when they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from afl.engine import limits
from afl.engine.errors import NestingTooDeep, StateTooLarge, StepLimitReached, ValueTooDeep, ValueTooLarge
from afl.engine.values.bounds import (
    SMALL_PAYLOAD_VALUES,
    check_depth,
    check_given,
    check_payload,
    small_payload_bytes,
)
from afl.engine.values.sizes import TooDeep, attribute_bytes, counting

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution
    from afl.engine.model.records import StepRecord

_log = logging.getLogger(__name__)

#: Units of work that a step takes which moves through its states; one that only binds is one unit, as is what is made.
UNITS_A_STEP: Final = 5
#: Entries of lists and maps that an operator looks through in one unit.
ENTRIES_A_UNIT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of each run that can be set. ValueError for one that is not positive."""

    max_steps: int = limits.MAX_WORKFLOW_STEPS
    max_payload_bytes: int = limits.MAX_PAYLOAD_BYTES
    max_value_bytes: int = limits.MAX_VALUE_BYTES
    max_state_bytes: int = limits.MAX_STATE_BYTES
    #: What one iteration moves. No setting: all who work on one run must go by the same numbers.
    iteration_steps: int = limits.ITERATION_STEPS
    iteration_bytes: int = limits.ITERATION_BYTES

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ValueError(f"{limit.name} must be 1 or more, not {getattr(self, limit.name)}")


_DEFAULTS = RunLimits()


class RunBounds:
    """The limits of one run, what it has used of them, and which of them it has been warned about: once each, as long
    as it stays in memory.
    """

    __slots__ = (
        "_large",
        "_limits",
        "_small_payload_bytes",
        "_state_notice_at",
        "_value_notice_at",
        "_warned",
        "iteration_bytes",
        "iteration_entries",
        "iteration_units",
        "max_steps",
        "notice_at",
        "state_bytes",
    )

    def __init__(self, run_limits: RunLimits = _DEFAULTS) -> None:
        self._limits = run_limits
        self._warned: frozenset[str] = frozenset()
        self.max_steps = run_limits.max_steps
        #: What one iteration may move: units of work, entries of lists and maps that operators read, and bytes.
        self.iteration_units = run_limits.iteration_steps * UNITS_A_STEP
        self.iteration_entries = self.iteration_units * ENTRIES_A_UNIT
        self.iteration_bytes = run_limits.iteration_bytes
        #: How many steps a run may have before there is something to say. The engine compares it after each iteration.
        self.notice_at = limits.near(run_limits.max_steps)
        #: Bytes that the attributes of all steps take (values/sizes.py).
        self.state_bytes = 0
        self._state_notice_at = limits.near(run_limits.max_state_bytes)
        self._value_notice_at = limits.near(run_limits.max_value_bytes)
        self._small_payload_bytes = small_payload_bytes(run_limits.max_payload_bytes)
        #: The first value that has come near to its limit, until it was told.
        self._large = 0

    def begin(self) -> None:
        """Let this thread evaluate under the limits of this run from here on."""
        counting.max_bytes = self._limits.max_value_bytes

    def read_back(self, steps: int) -> None:
        """The run was read from the store with so many steps: what it has passed it was warned about then."""
        if steps > self.notice_at:
            self.notice_at = self.max_steps
        if self.state_bytes > self._state_notice_at:
            self._state_notice_at = self._limits.max_state_bytes

    # --- values -----------------------------------------------------------------------------------------------------

    def count(self, params: Mapping[str, object], returns: Mapping[str, object], element: object = None) -> int:
        """Count what a stored step holds, and return its bytes. Whatever it is: it is there."""
        try:
            size = attribute_bytes(params) + attribute_bytes(returns) + attribute_bytes({"": element})
        except TooDeep:
            return 0
        self.state_bytes += size
        return size

    def admit(self, params: Mapping[str, object], returns: Mapping[str, object], counted: int = 0) -> int:
        """Count what a step is given, and return its bytes; `counted` of them were counted before.

        Raises ValueTooLarge, ValueTooDeep, and StateTooLarge, which ends the run.
        """
        try:
            given = attribute_bytes(params) if params else 0
            made = attribute_bytes(returns) if returns else 0
        except TooDeep:
            raise ValueTooDeep("what the step is given", limits.MAX_VALUE_DEPTH) from None
        size = given + made
        if size > self._value_notice_at:
            self._admit_value("its parameters together", given)
            self._admit_value("its returns together", made)
        if size != counted:
            # What `_admit_state` does, without the call where there is nothing to say: this is done for every step.
            state_bytes = self.state_bytes + size - counted
            if state_bytes > self._state_notice_at:
                self._admit_state(size - counted)
            else:
                self.state_bytes = state_bytes
        return size

    def admit_returns(
        self, returns: Mapping[str, object], before: Mapping[str, object], counted: int, size: int | None = None
    ) -> int:
        """Count what a step's returns become, where its parameters stay; as `admit` does. `before`: its returns so far,
        of which and of its parameters `counted` bytes were counted. `size` of the returns, where that is known.
        """
        try:
            made = attribute_bytes(returns) if size is None else size
            same = counted - attribute_bytes(before) if before else counted
        except TooDeep:
            raise ValueTooDeep("what the step is given", limits.MAX_VALUE_DEPTH) from None
        if made > self._value_notice_at:
            self._admit_value("its returns together", made)
        if same + made != counted:
            self._admit_state(same + made - counted)
        return same + made

    def admit_element(self, value: object) -> int:
        """Count the element that a block of a foreach is for, and return its bytes. Raises StateTooLarge."""
        size = attribute_bytes({"": value})
        if size:
            self._admit_state(size)
        return size

    def _admit_value(self, what: str, size: int) -> None:
        if size > self._value_notice_at:
            limit = self._limits.max_value_bytes
            if size > limit:
                raise ValueTooLarge(what, size, limit)
            self._large = self._large or size
            self.notice_at = -1

    def _admit_state(self, more: int) -> None:
        size = self.state_bytes + more
        if size > self._state_notice_at:
            limit = self._limits.max_state_bytes
            if size > limit:
                # What it was given is not kept: so many bytes the run has, and this was too much.
                raise StateTooLarge(size, limit)
            self.notice_at = -1
        self.state_bytes = size

    # --- what is said -----------------------------------------------------------------------------------------------

    def notice(self, execution: Execution) -> None:
        """The run has more steps than `notice_at`, or large values: warn, or end it."""
        limit, near = self.max_steps, limits.near(self.max_steps)
        if execution.count > limit and not execution.is_ended:
            # It was lowered since.
            execution.exceed(StepLimitReached(execution.plan.name, execution.count, limit))
        if execution.count > near:
            self.warn_of_steps(execution)
            self.notice_at = limit
        else:
            self.notice_at = near
        if self.state_bytes > self._state_notice_at:
            self._state_notice_at = most = self._limits.max_state_bytes
            told = f"has steps whose values take {self.state_bytes} bytes"
            self._warn(execution, "max_state_bytes", told, most, "and ends when they take more")
        if self._large:
            self._value_notice_at = most = self._limits.max_value_bytes
            told = f"has a value of {self._large} bytes"
            self._large = 0
            self._warn(execution, "max_value_bytes", told, most, "and what is larger fails")

    def warn_of_steps(self, execution: Execution) -> None:
        """The run has used most of its steps."""
        told = f"has {execution.count} steps"
        self._warn(execution, "max_steps", told, self.max_steps, "and ends when it makes more")

    def check_room(self, execution: Execution) -> None:
        """Raise StepLimitReached where no step can be made any more."""
        if execution.count >= self.max_steps:
            if execution.count == self.max_steps:
                self.warn_of_steps(execution)
            raise StepLimitReached(execution.plan.name, execution.count, self.max_steps)

    def check_block(self, execution: Execution, owner: StepRecord) -> None:
        """Raise NestingTooDeep where the step may have no block of its own."""
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
        if not self.is_small(step.params, step.size):
            self.check_values(execution, f"the payload of {step.facet_name}", step.params)

    def is_small(self, values: Mapping[str, object], size: int) -> bool:
        """Whether values of this size are far below the limit of a payload, and not nested too deeply: they were
        counted.
        """
        return len(values) <= SMALL_PAYLOAD_VALUES and size + sum(map(len, values)) <= self._small_payload_bytes

    def check_given(self, what: str, values: Mapping[str, object], path: str) -> int:
        """Return the size of values from outside. Raises ValueTooLarge or ValueRefused, before anybody walks through
        them.
        """
        return check_given(what, values, self._limits.max_value_bytes, path)

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
