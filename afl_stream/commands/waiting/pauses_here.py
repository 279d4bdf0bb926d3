"""What is paused, for commands that read the store: told where the broker can be asked in passing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from afl.core.errors import AFLError
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.wire.pauses import Pauses

if TYPE_CHECKING:
    from afl.engine.model.store import WorkflowRow
    from afl.stores.public.persistence import EngineStore
    from afl_stream.wire.messages import Pause

#: How long a broker may take to answer.
_CONNECT_S: Final = 3


def pauses_here(invocation: Invocation) -> Pauses | None:
    """Return what is paused; None where that cannot be asked: the broker is away, or `dev` has the embedded log."""
    from afl_stream.client.client import Client

    config = invocation.settings()
    connect_s = min(config.kafka.connect_timeout_s, _CONNECT_S)
    config = replace(config, kafka=replace(config.kafka, connect_timeout_s=connect_s))
    try:
        with open_transport(config) as transport, Client(config, transport) as client:
            client.definitions.refresh()
            return client.definitions.pauses
    except AFLError:
        return None


def pauses_of_store(store: EngineStore) -> list[Pause]:
    """Return what is paused by the store, to which evaluators copy the pauses that they have heard of."""
    from afl.engine.model.pauses import PAUSES_ROW, stored_pauses
    from afl_stream.wire.messages import Pause

    row = store.schedule(PAUSES_ROW)
    return [
        Pause(scope=found.scope, name=found.name, is_paused=True, at=found.at_ms, reason=found.reason or None)
        for found in stored_pauses(None if row is None else row.document).pauses
    ]


def pause_remarks(
    invocation: Invocation, store: EngineStore, rows: Sequence[WorkflowRow], *, asks_broker: bool = True
) -> list[str]:
    """Return a line about each pause that may hold one of these runs; none where all of them have ended."""
    from afl.engine.model.store import ENDED_STATUSES

    if all(row.status in ENDED_STATUSES for row in rows):
        return []
    here = pauses_here(invocation) if asks_broker else None
    found = pauses_of_store(store) if here is None else here
    return [
        pause_remark(invocation, pause)
        for pause in found
        if pause.scope != "workflow" or any(row.id == pause.name for row in rows)
    ]


def pause_remark(invocation: Invocation, pause: Pause) -> str:
    """Return a line about a pause, with the command that ends it."""
    from afl_stream.visibility.waiting.evaluators import pause_text

    words = {"all": ("--all",), "facet": ("--facet", pause.name), "workflow": ("--workflow", pause.name)}[pause.scope]
    return f"{pause_text(pause)}; {invocation.command_line('resume', *words)}"
