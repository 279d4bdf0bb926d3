"""The limits of one run, the warnings before they are reached, and the errors when they are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
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
    from afl.engine.model.step_rows import LateStep

_log = logging.getLogger(__name__)

#: Units of work of a step that moves through its states; a step that only binds is one unit, as is making a step.
UNITS_A_STEP: Final = 5
#: The most that a byte of a stored step counts, in a list of small numbers: an entry, and a number of one digit.
_MOST_FOR_A_BYTE: Final = 64
#: Entries of lists and maps that an operator reads in one unit.
ENTRIES_A_UNIT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The configurable limits of each run. Raises ValueError for one that is not positive."""

    max_steps: int = limits.MAX_WORKFLOW_STEPS
    max_payload_bytes: int = limits.MAX_PAYLOAD_BYTES
    max_value_bytes: int = limits.MAX_VALUE_BYTES
    max_state_bytes: int = limits.MAX_STATE_BYTES
    #: The work of one iteration. It is not configurable: all processes that work on one run must use the same numbers.
    iteration_steps: int = limits.ITERATION_STEPS
    iteration_bytes: int = limits.ITERATION_BYTES

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ValueError(f"{limit.name} must be 1 or more, not {getattr(self, limit.name)}")


_DEFAULTS = RunLimits()


class RunBounds:
    """The limits of one run, its use of them, and the limits about which it has been warned.

    There is one warning for each limit, as long as the run stays in memory.
    """

    __slots__ = (
        "_large",
        "_limits",
        "_slack",
        "_small_payload_bytes",
        "_state_notice_at",
        "_unread",
        "_unread_by_id",
        "_unread_bytes",
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
        #: The work that one iteration may do: units of work, entries of lists and maps that operators read, and bytes.
        self.iteration_units = run_limits.iteration_steps * UNITS_A_STEP
        self.iteration_entries = self.iteration_units * ENTRIES_A_UNIT
        self.iteration_bytes = run_limits.iteration_bytes
        #: The number of steps at which the run is warned or ended. The engine compares it after each iteration.
        self.notice_at = limits.near(run_limits.max_steps)
        #: Bytes of the attributes of all steps (values/sizes.py).
        self.state_bytes = 0
        self._state_notice_at = limits.near(run_limits.max_state_bytes)
        #: Steps of which only the size in the store was counted, by id too once asked for; that size, and by how much
        #: they may be larger.
        self._unread: Iterable[LateStep] = ()
        self._unread_by_id: dict[str, LateStep] | None = None
        self._unread_bytes = 0
        self._slack = 0
        self._value_notice_at = limits.near(run_limits.max_value_bytes)
        self._small_payload_bytes = small_payload_bytes(run_limits.max_payload_bytes)
        #: The first value that has come near its limit, until it is reported.
        self._large = 0

    def begin(self) -> None:
        """Evaluate in this thread under the limits of this run from now on."""
        counting.max_bytes = self._limits.max_value_bytes

    def read_back(self, steps: int) -> None:
        """Note that the run was loaded from the store with this many steps: warnings for these were given then."""
        if steps > self.notice_at:
            self.notice_at = self.max_steps
        self._measure_near(self.state_bytes)
        if self.state_bytes > self._state_notice_at:
            self._state_notice_at = self._limits.max_state_bytes

    # --- values -----------------------------------------------------------------------------------------------------

    def count(self, params: Mapping[str, object], returns: Mapping[str, object], element: object = None) -> int:
        """Count the values of a stored step, and return their bytes. Stored values are accepted at any size."""
        try:
            size = attribute_bytes(params) + attribute_bytes(returns) + attribute_bytes({"": element})
        except TooDeep:
            return 0
        self.state_bytes += size
        return size

    def estimate(self, steps: Iterable[LateStep], size: int) -> None:
        """Count stored steps by the size of their stored form. They are read, and measured, near a limit only."""
        self._unread, self._unread_by_id, self._unread_bytes = steps, None, size
        self.state_bytes += size
        self._slack = size * _MOST_FOR_A_BYTE
        self._state_notice_at -= self._slack

    def unread(self, step_id: str) -> LateStep | None:
        """Return one of the steps that were only estimated."""
        if self._unread_by_id is None:
            self._unread_by_id = {step.id: step for step in self._unread}
        return self._unread_by_id.get(step_id)

    def _measure_near(self, state_bytes: int) -> None:
        """Measure the steps that were only estimated, if the values might come near their limit."""
        if self._slack and state_bytes > self._state_notice_at:
            self.measure_unread()

    def measure_unread(self) -> None:
        """Count the steps that were only estimated by their values. Raises StoreCorrupt and StoreUnavailable."""
        if not self._slack:
            return
        # All are read first: when one cannot be, nothing is changed.
        documents = [step.document() for step in self._unread]
        self._state_notice_at += self._slack
        self._slack = 0
        self.state_bytes -= self._unread_bytes
        for document in documents:
            self.count(document.params, document.returns)

    def admit(self, params: Mapping[str, object], returns: Mapping[str, object], counted: int = 0) -> int:
        """Count the values given to a step, and return their bytes; `counted` of them were counted before.

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
            # The same as `_admit_state`, without a call in the usual case: this runs for every step.
            state_bytes = self.state_bytes + size - counted
            if state_bytes > self._state_notice_at:
                self._admit_state(size - counted)
            else:
                self.state_bytes = state_bytes
        return size

    def admit_returns(
        self, returns: Mapping[str, object], before: Mapping[str, object], counted: int, size: int | None = None
    ) -> int:
        """Count a step's new returns, while its parameters stay; works as `admit`.

        `before` are its returns so far; `counted` is the size of these and of its parameters. `size` is that of the new
        returns, where it is known.
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
        """Count the element of a foreach's block, and return its bytes. Raises StateTooLarge."""
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
        self._measure_near(self.state_bytes + more)
        size = self.state_bytes + more
        if size > self._state_notice_at:
            limit = self._limits.max_state_bytes
            if size > limit:
                # The given values are not kept: the run has this many bytes, and these were too many.
                raise StateTooLarge(size, limit)
            self.notice_at = -1
        self.state_bytes = size

    # --- what is said -----------------------------------------------------------------------------------------------

    def notice(self, execution: Execution) -> None:
        """Warn about the number of steps beyond `notice_at` or about large values, or end the run."""
        limit, near = self.max_steps, limits.near(self.max_steps)
        if execution.count > limit and not execution.is_ended:
            # It was lowered since.
            execution.exceed(StepLimitReached(execution.plan.name, execution.count, limit))
        if execution.count > near:
            self.warn_of_steps(execution)
            self.notice_at = limit
        else:
            self.notice_at = near
        self._measure_near(self.state_bytes)
        if self.state_bytes > self._state_notice_at:
            self._state_notice_at = most = self._limits.max_state_bytes
            text = f"has steps whose values take {self.state_bytes} bytes"
            self._warn(execution, "max_state_bytes", text, most, "and ends when they take more")
        if self._large:
            self._value_notice_at = most = self._limits.max_value_bytes
            text = f"has a value of {self._large} bytes"
            self._large = 0
            self._warn(execution, "max_value_bytes", text, most, "and a larger one fails")

    def warn_of_steps(self, execution: Execution) -> None:
        """Warn that the run has used most of its steps."""
        text = f"has {execution.count} steps"
        self._warn(execution, "max_steps", text, self.max_steps, "and ends when it makes more")

    def check_room(self, execution: Execution) -> None:
        """Raise StepLimitReached when no further step can be made."""
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
                raise NestingTooDeep(step_path=execution.step_path(owner), limit=limit)
            self._warn(execution, "MAX_NESTING_DEPTH", f"is nested {depth} deep", limit, "and a deeper one fails")

    def check_payload(self, execution: Execution, step: StepRecord) -> None:
        """Raise PayloadTooLarge or ValueTooDeep for a step whose event must not be sent."""
        if not self.is_small(step.params, step.size):
            self.check_values(execution, f"the payload of {step.facet_name}", step.params)

    def is_small(self, values: Mapping[str, object], size: int) -> bool:
        """Say whether values of this size are far below the limit of a payload, and not nested too deeply.

        They were counted before.
        """
        return len(values) <= SMALL_PAYLOAD_VALUES and size + sum(map(len, values)) <= self._small_payload_bytes

    def check_given(self, what: str, values: Mapping[str, object], path: str) -> int:
        """Return the size of values from outside.

        Raises ValueTooLarge or ValueRefused, before any other code walks through them.
        """
        return check_given(what, values, self._limits.max_value_bytes, path)

    def check_values(self, execution: Execution, what: str, values: Mapping[str, object]) -> None:
        """Raise PayloadTooLarge or ValueTooDeep for a payload to an agent or a result from one."""
        limit = self._limits.max_payload_bytes
        found = check_payload(what, values, limit)
        if found:
            text = f"has {what}, which takes {found} bytes"
            self._warn(execution, "max_payload_bytes", text, limit, "and a larger one fails")

    def warn_of_iterations(self, execution: Execution, iterations: int, limit: int) -> None:
        """Warn that a call has used most of its iterations."""
        text = f"has taken {iterations} iterations in one call"
        self._warn(execution, "max_iterations", text, limit, "where the call ends with TIMEOUT")

    def check_outputs(self, execution: Execution) -> None:
        """Raise ValueTooDeep for outputs that are too deep to be copied or stored."""
        check_depth(f"what {execution.plan.name} returns", execution.outputs)

    def _warn(self, execution: Execution, name: str, found: str, limit: int, then: str) -> None:
        if name not in self._warned:
            self._warned |= {name}
            _log.warning(
                "workflow %s (%s) %s, near its limit %s = %d, %s",
                execution.id,
                execution.plan.name,
                found,
                name,
                limit,
                then,
            )


_NEARLY_TOO_DEEP = limits.near(limits.MAX_NESTING_DEPTH)
