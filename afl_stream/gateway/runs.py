"""Runs as the gateway starts, shows and awaits them: by commands, and by the lifecycle topic. It needs no store."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Final

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_line
from afl.core.values import plain_value, plain_values
from afl.engine.model.store import ENDED_STATUSES
from afl_stream.client.client import Client, NotAnswered, drawn_id
from afl_stream.programs.versions import CURRENT, meant_version
from afl_stream.sensitive.redaction import Redaction
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import BrokerUnavailable, Transport
from afl_stream.wire.headers import IfExists
from afl_stream.wire.messages import Lifecycle, check_workflow_id
from afl_stream.wire.milestone_kinds import WORKFLOW_ENDS

_log = logging.getLogger(__name__)

#: How long the answer of an evaluator is waited for.
ANSWER_S: Final = 5.0
#: How long the milestones that are there are searched for the end of a run.
_SEARCH_S: Final = 5.0
_READ_S: Final = 0.2
#: How long the end of the thread that follows is waited for.
_ENDING_S: Final = 10.0


class Runs:
    """Commands to evaluators, and what they tell of runs. Any thread may use it."""

    def __init__(self, config: StreamConfig, transport: Transport, *, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._config, self._transport = config, transport
        self._redaction = Redaction(config.sensitive.patterns)
        self._idle: SimpleQueue[Client] = SimpleQueue()
        #: Held while a client is given back, or all are closed.
        self._giving_back = threading.Lock()
        self._is_closed = False
        self.ends = RunEnds(self._client, self._redaction)

    @contextmanager
    def _client(self) -> Iterator[Client]:
        """Lend a client, which belongs to one thread at a time."""
        try:
            client = self._idle.get_nowait()
        except Empty:
            client = Client(self._config, self._transport)
        try:
            yield client
        finally:
            with self._giving_back:
                is_closed = self._is_closed
                if not is_closed:
                    self._idle.put(client)
            if is_closed:
                client.close()

    def start(
        self, workflow: str, inputs: Mapping[str, Any], run: str, by: str, if_exists: IfExists | None = None
    ) -> dict[str, object]:
        """Start a run. Raises what Client.start raises."""
        given = plain_values(dict(inputs), "inputs")
        workflow_id = check_workflow_id(run) if run else drawn_id()
        with self._client() as client:
            is_answered = _answered(
                lambda: client.start(
                    workflow,
                    given,
                    workflow_id=workflow_id,
                    requested_by=by,
                    answer_timeout_s=self._answer_s,
                    if_exists=if_exists,
                )
            )
        return {"workflow_id": workflow_id, "answered": is_answered}

    def migrate(self, run: str, to: str, reason: str, by: str) -> dict[str, object]:
        """Move a run that has not ended to another version of its program.

        Raises what `meant_version` and Client.migrate raise; NotAnswered where the current version is meant, and no
        evaluator says which workflow the run has.
        """
        with self._client() as client:
            workflow = client.describe(run, answer_timeout_s=self._answer_s).workflow if to == CURRENT else None
            program = meant_version(client.definitions, to, workflow)
            said = f"{reason} (by {by})" if reason else f"by {by}"
            is_answered = _answered(lambda: client.migrate(run, program, reason=said, answer_timeout_s=self._answer_s))
        return {"workflow_id": run, "program": program, "answered": is_answered}

    def answer(
        self, step: str, attempt: int | None, result: Mapping[str, Any] | None, error: tuple[str, str] | None
    ) -> dict[str, object]:
        """Answer a step that waits, with a result or a failure of type and message."""
        with self._client() as client:
            if error is None:
                given = plain_values(dict(result or {}), "result")
                is_answered = _answered(
                    lambda: client.continue_step(step, given, attempt=attempt, answer_timeout_s=self._answer_s)
                )
            else:
                kind, message = error
                is_answered = _answered(
                    lambda: client.fail_step(step, message, kind, attempt=attempt, answer_timeout_s=self._answer_s)
                )
        return {"step_id": step, "answered": is_answered}

    def raise_event(self, run: str, name: str, data: object, event_id: str) -> dict[str, object]:
        """Raise an external event for a run."""
        with self._client() as client:
            given = plain_value(data, "data")
            event_id = event_id or drawn_id()
            outcome: str | None = None
            try:
                receipt = client.raise_event(run, name, given, id=event_id, wait=True, timeout_s=self._answer_s)
                outcome = None if receipt.outcome is None else receipt.outcome.value
            except NotAnswered:
                pass
        return {"workflow_id": run, "event_id": event_id, "outcome": outcome, "answered": outcome is not None}

    def status(self, run: str) -> dict[str, Any]:
        """Return the status of a run, the steps that wait, and how it ended. Sensitive values are hidden.

        Raises RefusedByEvaluator, and NotAnswered where no evaluator answers.
        """
        with self._client() as client:
            answer = client.describe(run, answer_timeout_s=self._answer_s)
            found: dict[str, Any] = {
                "workflow_id": run,
                "status": answer.status,
                "ended": answer.status in ENDED_STATUSES,
                "waiting": list((answer.outputs or {}).get("waiting") or ()),  # type: ignore[call-overload] # a list
            }
            if found["ended"]:
                found.update(self._end_of(client, run))
        return found

    def _end_of(self, client: Client, run: str) -> dict[str, Any]:
        """Return how a run ended, as far as the lifecycle topic still has it."""
        last: Lifecycle | None = None
        deadline_s = time.monotonic() + _SEARCH_S
        with closing(client.milestones(run, from_beginning=True, redaction=self._redaction)) as milestones:
            while not milestones.has_read_what_was_there and time.monotonic() < deadline_s:
                for milestone in milestones.read(_READ_S):
                    if milestone.workflow_id == run and milestone.kind in WORKFLOW_ENDS:
                        last = milestone
        return {} if last is None else end_document(last)

    def close(self) -> None:
        """Stop following, and close the clients: those that are at work when they are given back."""
        self.ends.close()
        with self._giving_back:
            self._is_closed = True
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return


def end_document(milestone: Lifecycle) -> dict[str, Any]:
    """Return what a milestone of an end says: outputs, or the error."""
    error = milestone.error
    return {
        "outputs": None if milestone.outputs is None else dict(milestone.outputs),
        "error": None if error is None else {"type": error.type, "message": error.message},
    }


class RunEnds:
    """Follows the lifecycle topic while anybody waits for the end of a run: one reader for all."""

    def __init__(self, lend: Callable[[], Any], redaction: Redaction) -> None:
        self._lend, self._redaction = lend, redaction
        self._lock = threading.Lock()
        self._listeners: dict[str, set[Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def listen(self, run: str, listener: Callable[[], None]) -> None:
        """Call this when a run has ended, on the thread that reads, and when following begins anew."""
        with self._lock:
            self._listeners.setdefault(run, set()).add(listener)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._follow, name="afl-gateway-ends", daemon=True)
                self._thread.start()

    def unlisten(self, run: str, listener: Callable[[], None]) -> None:
        """Call it no more."""
        with self._lock:
            listeners = self._listeners.get(run, set())
            listeners.discard(listener)
            if not listeners:
                self._listeners.pop(run, None)

    def _follow(self) -> None:
        while self._goes_on():
            try:
                self._follow_once()
            except AFLError as error:
                _log.warning("the lifecycle topic cannot be read now: %s", exception_line(error))
                time.sleep(_READ_S)

    def _follow_once(self) -> None:
        with self._lend() as client, closing(client.milestones(redaction=self._redaction)) as milestones:
            # What ended before the reader was at the topic's end is asked for again.
            self._tell(None)
            while self._listeners and not self._is_closed:
                try:
                    found = milestones.read(_READ_S)
                except BrokerUnavailable:
                    continue
                for milestone in found:
                    if milestone.kind in WORKFLOW_ENDS:
                        self._tell(milestone.workflow_id)

    def _goes_on(self) -> bool:
        with self._lock:
            if self._listeners and not self._is_closed:
                return True
            self._thread = None
            return False

    def _tell(self, run: str | None) -> None:
        with self._lock:
            if run is None:
                listeners = [one for several in self._listeners.values() for one in several]
            else:
                listeners = list(self._listeners.get(run, ()))
        for listener in listeners:
            listener()

    def close(self) -> None:
        """Stop following, and wait for the thread: the transport may be closed after this."""
        with self._lock:
            self._is_closed = True
            listeners = [one for several in self._listeners.values() for one in several]
            thread = self._thread
        for listener in listeners:
            listener()
        if thread is not None:
            thread.join(_ENDING_S)


def _answered(give: Callable[[], object]) -> bool:
    try:
        give()
    except NotAnswered:
        return False
    return True
