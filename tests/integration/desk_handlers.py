"""Handlers of facets that are events on topics and of one that is a task: one module for agents and for pollers."""

from __future__ import annotations

import os
from typing import Any, Final

FACETS: Final = ("desk.Pay", "desk.Approve", "desk.Ship")


def handle(payload: dict[str, Any]) -> dict[str, Any]:
    by = f"{payload['_facet_name']} {payload['order']}"
    # A line for each call; short ones are written in one go, whatever other processes write.
    with open(os.environ["DESK_CALLS"], "a") as calls:
        calls.write(f"{by}\n")
    return {"by": by}
