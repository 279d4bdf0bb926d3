"""Pauses of facets, of workflows, and of everything, as a client asks for them."""

from __future__ import annotations

from afl.core.clock import epoch_ms
from afl_stream.errors import StreamError
from afl_stream.programs.definitions import Definitions
from afl_stream.wire.messages import Pause, check_workflow_id, pause_key
from afl_stream.wire.pauses import PauseScope


class PauseTargetNeeded(StreamError, ValueError):
    """A pause is about one thing: a facet, a workflow, or all."""

    def __init__(self, given: int) -> None:
        super().__init__(f"a pause is of a facet, of a workflow, or of all: found {given} of these, expected one")


def put_pause(
    definitions: Definitions,
    *,
    facet: str | None,
    workflow_id: str | None,
    everything: bool,
    is_paused: bool,
    reason: str | None = None,
) -> bool:
    """Pause one thing, or end its pause; return False where it stood so already, and nothing was written.

    The record is acknowledged when this returns. Raises PauseTargetNeeded, IdRefused and SchemaUnavailable.
    """
    given = (facet is not None) + (workflow_id is not None) + everything
    if given != 1:
        raise PauseTargetNeeded(given)
    if facet is not None:
        scope, name = PauseScope.FACET, facet
    elif workflow_id is not None:
        scope, name = PauseScope.WORKFLOW, check_workflow_id(workflow_id)
    else:
        scope, name = PauseScope.ALL, ""
    definitions.refresh()
    key = pause_key(scope, name)
    known = definitions.pauses.records.get(key)
    if (known is not None and known.is_paused) == is_paused:
        return False
    pause = Pause(scope=scope.value, name=name, is_paused=is_paused, at=epoch_ms(), reason=reason or None)
    definitions.publish(key, pause)
    return True


def pauses_now(definitions: Definitions) -> list[Pause]:
    """Return the pauses that hold now, that of all first. Raises SchemaUnavailable."""
    definitions.refresh()
    return list(definitions.pauses)
