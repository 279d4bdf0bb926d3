"""Steps of library facets, which the runtime answers itself: waits for events and times, and continuing as new."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from afl.core.text.printable import printable
from afl.engine.errors import InvalidWait
from afl.engine.execution.continuing import checked_inputs
from afl.engine.execution.external_events import wait_for_event
from afl.engine.execution.runtime_waits import begin_timer, begin_wait, keep_wait
from afl.engine.limits import MAX_TIMEOUT_MS
from afl.engine.model.records import StepRecord
from afl.engine.model.timers import TimerKind
from afl.engine.model.waiting import LibraryFacet
from afl.engine.states import EventState
from afl.engine.types import Value

if TYPE_CHECKING:
    from afl.engine.execution.execution import Execution

#: The units of a Sleep, in milliseconds.
_UNITS_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "seconds": 1_000,
    "minutes": 60_000,
    "hours": 3_600_000,
    "days": 86_400_000,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_CHARS: Final = 60


def begin_library_step(execution: Execution, step: StepRecord) -> bool:
    """Begin what a library facet's step waits for; return whether it is over at once.

    Raises InvalidWait, which fails the step, for arguments that give no wait.
    """
    assert step.facet is not None
    assert step.facet.library is not None
    return _LIBRARY[step.facet.library](execution, step)


def _wait_for_event(execution: Execution, step: StepRecord) -> bool:
    name = step.params.get("name")
    if not isinstance(name, str) or not name:
        raise _invalid(step, "name", _quoted(name), "the name of an event, a text that is not empty")
    return wait_for_event(execution, step, name, _whole(step, "timeout_ms", "0 (no limit) or more"))


def _sleep(execution: Execution, step: StepRecord) -> bool:
    # Each is checked by itself: a negative one is a mistake, whatever the others are.
    pause_ms = sum(_whole(step, unit, "0 or more") * unit_ms for unit, unit_ms in _UNITS_MS.items())
    if pause_ms > MAX_TIMEOUT_MS:
        raise _invalid(step, "the pause", f"{pause_ms} ms", "a hundred years at most")
    return _pause_until(execution, step, execution.now_ms + pause_ms)


def _wait_until(execution: Execution, step: StepRecord) -> bool:
    text, at_ms = step.params.get("time", ""), _whole(step, "at_ms", "milliseconds since the epoch")
    if not isinstance(text, str):
        raise _invalid(step, "time", _quoted(text), _A_TIME)
    if bool(text) is bool(at_ms):
        found = f"{_quoted(text)} and {at_ms}" if text else "nothing"
        raise _invalid(step, "the time", found, "either time or at_ms")
    return _pause_until(execution, step, _moment_ms(step, text) if text else at_ms)


def _pause_until(execution: Execution, step: StepRecord, until_ms: int) -> bool:
    """Let a step sleep until a moment, in milliseconds since the epoch; not at all if that has come."""
    now_ms = execution.now_ms
    if until_ms - now_ms > MAX_TIMEOUT_MS:
        raise _invalid(step, "the time", f"{until_ms} ms since the epoch", "a hundred years from now at most")
    step.attempt += 1
    if until_ms <= now_ms:
        execution.give(step, step.params, {**step.returns, "woke_at": now_ms})
        step.event_state = EventState.COMPLETED
        return True
    begin_wait(execution, step, EventState.WAITING)
    begin_timer(execution, step, TimerKind.SLEEP, until_ms)
    return False


def _continue_as_new(execution: Execution, step: StepRecord) -> bool:
    """Ask the driver for the next execution: of several steps that come here in one iteration the first counts.

    The step stays as it is. Were it stored like this, it would ask again when it is read back.
    """
    given = step.params.get("inputs")
    if not isinstance(given, dict):
        raise _invalid(step, "inputs", _quoted(given), "a map of the workflow's inputs")
    inputs = checked_inputs(execution.plan, execution.bounds, given).inputs
    if execution.next_inputs is None:
        execution.next_inputs = inputs
    keep_wait(execution, step)
    return False


_LIBRARY: Final[Mapping[LibraryFacet, Callable[[Execution, StepRecord], bool]]] = {
    LibraryFacet.WAIT_FOR_EVENT: _wait_for_event,
    LibraryFacet.SLEEP: _sleep,
    LibraryFacet.WAIT_UNTIL: _wait_until,
    LibraryFacet.CONTINUE_AS_NEW: _continue_as_new,
}


def answer_by_hand(execution: Execution, step: StepRecord, result: Mapping[str, Value]) -> dict[str, Value]:
    """Return the result with which a person ends a wait: what is left out is as if the wait had ended by itself."""
    if step.facet is not None and step.facet.library is LibraryFacet.WAIT_FOR_EVENT:
        return {"data": None, "timed_out": False, **step.returns, **result}
    return {"woke_at": execution.now_ms, **step.returns, **result}


# --- arguments -------------------------------------------------------------------------------------------------------

_A_TIME: Final = "a time with its zone, such as 2030-01-31T09:00:00+01:00 or 2030-01-31T08:00:00Z"


def _whole(step: StepRecord, name: str, expected: str) -> int:
    """Return a number that is 0 or more, and a hundred years at most where it is a number of milliseconds."""
    value = step.params.get(name, 0)
    if type(value) is not int or value < 0:
        raise _invalid(step, name, _quoted(value), expected)
    if name == "timeout_ms" and value > MAX_TIMEOUT_MS:
        raise _invalid(step, name, _quoted(value), "a hundred years at most")
    return value


def _moment_ms(step: StepRecord, text: str) -> int:
    """Return the milliseconds since the epoch of a time in words. Raises InvalidWait."""
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return (at - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        # Of a text that is no time at all Python says no more than that.
        why = "" if str(error).startswith("Invalid isoformat string") else f" ({error})"
        raise _invalid(step, "time", f"{_quoted(text)}{why}", _A_TIME) from None
    raise _invalid(step, "time", f"{_quoted(text)}, which has no zone", _A_TIME)


def _quoted(value: Value) -> str:
    """Return a value as AFL and JSON write it: an empty text is seen, and "5" is not 5."""
    return printable(json.dumps(value, ensure_ascii=False, default=repr), 4 * _SHOWN_CHARS)


def _invalid(step: StepRecord, name: str, found: str, expected: str) -> InvalidWait:
    return InvalidWait(facet=step.facet_name, name=name, found=found, expected=expected)
