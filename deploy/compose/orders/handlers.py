"""The handlers of workflow.afl: replace both files with your own, or mount another folder with AFL_FOLDER."""

from collections.abc import Mapping
from typing import Any

from afl_stream.agent import HandlerRegistrar


def charge(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Charge an order."""
    return {"receipt": f"r-{payload['order']}-{payload['amount']:.2f}"}


def ship(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Ship an order that is paid."""
    return {"parcel": f"p-{payload['receipt']}"}


def register_handlers(runner: HandlerRegistrar) -> None:
    """Register the handlers of the agent."""
    runner.register("shop.Charge", charge)
    runner.register("shop.Ship", ship)
