"""Handlers of the parties' agents: answers tell in which process and at which call they were made.

How they behave is set by environment variables: `PARTY_PACE_MS`, how long each call takes; `PARTY_GATE`, a file without
which the later hosts of a scan wait.
"""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from threading import Event
from typing import Any, Final

from afl_stream.agent.agent import Deferred

#: An item whose price kills the process that asks for it, and one whose price comes later, or never.
DEADLY, DEFERRED = "deadly", "deferred"
#: Hosts below this one pass without the gate.
FREE_HOSTS: Final = 10
_POLL_S: Final = 0.02

_calls = itertools.count(1)
_pause = Event()


def price(payload: dict[str, Any]) -> dict[str, Any] | type[Deferred]:
    _work()
    if payload["item"] == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if payload["item"] == DEFERRED:
        return Deferred
    return {"amount": len(payload["item"]), "call": _call()}


def ship(payload: dict[str, Any]) -> dict[str, Any]:
    _work()
    return {"label": f"{payload['total']} for call {_call()}"}


def ping(payload: dict[str, Any]) -> dict[str, Any]:
    gate = os.environ.get("PARTY_GATE")
    while gate and payload["host"] >= FREE_HOSTS and not Path(gate).exists():
        _pause.wait(_POLL_S)
    _work()
    return {"ms": 2 * payload["host"]}


#: Which function of this module handles a facet.
HANDLERS: Final = {"shop.Price": price, "shop.Ship": ship, "fleet.Ping": ping}


def argument_for(facet: str) -> str:
    """Return the `--handlers` argument that has an agent handle a facet with this module."""
    return f"{__name__}:{HANDLERS[facet].__name__}={facet}"


def _call() -> int:
    """Another number at each call of each process."""
    return os.getpid() * 1_000 + next(_calls)


def _work() -> None:
    pace_ms = int(os.environ.get("PARTY_PACE_MS", "0"))
    if pace_ms:
        _pause.wait(pace_ms / 1000)
