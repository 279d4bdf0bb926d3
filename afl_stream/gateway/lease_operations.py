"""What workers do: they take events, keep their leases, and answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.concurrency import run_in_threadpool

from afl.core.clock import monotonic_s
from afl_stream.gateway.event_documents import event_document
from afl_stream.gateway.gateway import Gateway
from afl_stream.gateway.lease_ids import LeasedEvent, event_of_lease
from afl_stream.gateway.leases import Ending, HeldEvent, LeaseDesk
from afl_stream.gateway.requested import Requested
from afl_stream.gateway.waiting import Told

#: How often a long poll looks whether its worker is still there.
_LOOK_S: Final = 1.0
#: The most characters of a failure that are read; less is kept of it.
_MOST_CHARS: Final = 100_000


async def poll(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Take events, and wait for the first. Raises NotServed and BadParameter."""
    settings = gateway.config.gateway
    desk = gateway.desk(request.path["facet"])
    most = request.whole("max", 1, low=1, high=1_000)
    lease_s = min(request.seconds("lease_s", settings.lease_s, low=1), settings.max_lease_s)
    until_s = monotonic_s() + min(request.seconds("wait_s", 0.0), settings.max_wait_s)
    offered = Told()
    desk.listen(offered.tell)
    try:
        while True:
            # Who has gone must not be given events: they would wait until the leases run out.
            if not await request.has_gone() and (taken := desk.take(most, lease_s)):
                return {"events": [_leased(held) for held in taken]}
            left_s = until_s - monotonic_s()
            if left_s <= 0 or desk.is_closed or await request.has_gone():
                return {"events": []}
            await offered.wait(min(left_s, _LOOK_S))
    finally:
        desk.unlisten(offered.tell)


def _leased(held: HeldEvent) -> dict[str, Any]:
    return {"lease": held.lease, "until_ms": held.until_ms, **event_document(held.payload, held.context)}


async def heartbeat(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Extend a lease. Raises LeaseGone, NotServed and BadParameter."""
    lease, event, desk = _lease(gateway, request)
    lease_s: float | None = None
    if "lease_s" in request.values:
        lease_s = min(request.seconds("lease_s", 1, low=1), gateway.config.gateway.max_lease_s)
    if desk is None:
        gateway.desk(event.facet)
        raise AssertionError("a facet without a desk is refused")
    held = desk.heartbeat(lease, event, lease_s)
    # It may ask the broker.
    cancelled = await run_in_threadpool(lambda: held.context.is_cancelled)
    return {"until_ms": held.until_ms, "cancelled": cancelled, "stopping": held.context.is_stopping}


async def complete(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Answer with a result. Raises what Answers.complete raises, and BadParameter."""
    result = request.object("result")
    return await _answered(gateway, request, lambda event, held: gateway.answers.complete(event, result, held))


async def fail(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Answer with a failure. Raises what Answers.fail raises, and BadParameter."""
    kind, message = request.text("type", "Failed"), request.text("message", "", most=_MOST_CHARS)
    return await _answered(gateway, request, lambda event, _: gateway.answers.fail(event, kind or "Failed", message))


async def update(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """Send an update; the lease goes on. Raises what Answers.update raises, and BadParameter."""
    lease, event, desk = _lease(gateway, request)
    partial = request.object("partial")
    await run_in_threadpool(gateway.answers.update, event, partial)
    return {"leased": desk is not None and desk.held(lease) is not None}


async def defer(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """End a lease whose answer comes later. Raises BadParameter."""
    lease, _, desk = _lease(gateway, request)
    return {"leased": desk is not None and desk.end(lease, Ending.DONE)}


async def give_back(gateway: Gateway, request: Requested) -> Mapping[str, Any]:
    """End a lease without an answer; the event is offered again. Raises BadParameter."""
    lease, _, desk = _lease(gateway, request)
    return {"leased": desk is not None and desk.end(lease, Ending.PUT_BACK)}


async def _answered(
    gateway: Gateway, request: Requested, send: Callable[[LeasedEvent, HeldEvent | None], None]
) -> Mapping[str, Any]:
    """Send an answer, and end its lease when the broker has it; see LeaseDesk for the steps."""
    lease, event, desk = _lease(gateway, request)

    def answer() -> bool:
        held = None if desk is None else desk.keep_for_answer(lease)
        send(event, held)
        return desk is not None and desk.end(lease, Ending.DONE)

    return {"leased": await run_in_threadpool(answer)}


def _lease(gateway: Gateway, request: Requested) -> tuple[str, LeasedEvent, LeaseDesk | None]:
    lease = request.text("lease", most=20_000)
    event = event_of_lease(lease)
    return lease, event, gateway.desks.get(event.facet)
