"""The pauses of a deployment as a running evaluator learns of them."""

from __future__ import annotations

import logging
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.errors import SchemaUnavailable
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.sweeps import Sweeps
from afl_stream.wire.pauses import Pauses

_log = logging.getLogger(__name__)

#: How often new records of the definitions topic are taken. The broker sends them by itself: it is asked nothing.
_LOOK_S: Final = 0.5
#: How long after the last read to the end what has arrived is taken to be all. The claim is checked more often.
_KNOWN_FOR_S: Final = 60.0


class PauseWatch:
    """Looks for new pauses, and lets what was resumed continue. Belongs to the loop's thread.

    A pause is a record on the definitions topic, and nothing of it is in the store: a paused workflow is stored as
    runnable, as one over its budget is, and an event that is held back is a row of the outbox. A crash at any moment
    leaves both as they are; the next owner reads the topic before it reads anything else.
    """

    def __init__(self, context: EvaluatorContext, sweeps: Sweeps, clock_s: MonotonicClock = monotonic_s) -> None:
        self._context = context
        self._sweeps = sweeps
        self._clock_s = clock_s
        self._looked_s = clock_s()
        self._version = self._pauses.version

    @property
    def _pauses(self) -> Pauses:
        return self._context.definitions.pauses

    def look_when_due(self) -> None:
        """Take new records from time to time; when a pause has changed, queue what may continue."""
        now_s = self._clock_s()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            try:
                self._context.definitions.take_arrived(_KNOWN_FOR_S)
            except SchemaUnavailable as error:
                _log.warning("could not look for pauses: %s", error)
        if self._version != self._pauses.version:
            self._version = self._pauses.version
            for pause in self._pauses:
                _log.info("paused: %s %s", pause.scope, pause.name)
            self._sweeps.queue_runnable(self._context.lanes.owned)
