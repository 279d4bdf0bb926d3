"""What is done with runs: they are started, shown and awaited, their steps are answered, and events are raised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.concurrency import run_in_threadpool

from afl.core.clock import monotonic_s
from afl_stream.gateway.gateway import Gateway
from afl_stream.gateway.requested import Requested
from afl_stream.gateway.waiting import Told
from afl_stream.web.parameters import BadParameter, unknown_parameter
from afl_stream.wire.headers import IfExists

#: How often a wait looks whether who asks is still there.
_LOOK_S: Final = 1.0
_MOST_CHARS: Final = 100_000


async def start(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Start a run. Raises what Runs.start raises, and BadParameter."""
    workflow, inputs, run = request.text("workflow"), request.object("inputs"), request.text("id", "")
    if_exists = request.one_of("if_exists", IfExists)
    return await run_in_threadpool(gateway.runs.start, workflow, inputs, run, request.by, if_exists)


async def migrate(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Move a run to another version of its program. Raises what Runs.migrate raises, and BadParameter."""
    run, to, reason = request.path["run"], request.text("to"), request.text("reason", "")
    return await run_in_threadpool(gateway.runs.migrate, run, to, reason, request.by)


async def status(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Show a run, once it has ended or the time is over. Raises what Runs.status raises, and BadParameter."""
    run, runs = request.path["run"], gateway.runs
    wait_s = min(request.seconds("wait_s", 0.0), gateway.config.gateway.max_wait_s)
    if not wait_s:
        return await run_in_threadpool(runs.status, run)
    until_s, told = monotonic_s() + wait_s, Told()
    # Listened for first: it may end between the question and the wait.
    runs.ends.listen(run, told.tell)
    try:
        found = await run_in_threadpool(runs.status, run)
        while not found["ended"] and (left_s := until_s - monotonic_s()) > 0:
            is_told = await told.wait(min(left_s, _LOOK_S))
            if gateway.is_stopping or await request.has_gone():
                break
            if is_told:
                found = await run_in_threadpool(runs.status, run)
        return found
    finally:
        runs.ends.unlisten(run, told.tell)


async def answer(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Answer a step. Raises what Runs.answer raises, and BadParameter."""
    if ("result" in request.values) == ("error" in request.values):
        shown = "both result and error" if "error" in request.values else "neither result nor error"
        raise BadParameter("body", None, "one of them", shown=shown)
    attempt = request.whole("attempt", 0, low=0, high=1_000_000) if "attempt" in request.values else None
    error: tuple[str, str] | None = None
    if "error" in request.values:
        given = Requested(request.by, {}, request.object("error"), request.has_gone)
        if unknown := sorted(set(given.values) - {"type", "message"}):
            raise unknown_parameter(f"error.{unknown[0]}", ("type", "message"))
        error = (given.text("type", "Failed") or "Failed", given.text("message", "", most=_MOST_CHARS))
    return await run_in_threadpool(gateway.runs.answer, request.path["step"], attempt, request.object("result"), error)


async def external_event(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Raise an external event. Raises what Runs.raise_event raises, and BadParameter."""
    run, name = request.path["run"], request.path["name"]
    data, event_id = request.values.get("data"), request.text("id", "")
    return await run_in_threadpool(gateway.runs.raise_event, run, name, data, event_id)
