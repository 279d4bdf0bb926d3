"""Answers of an agent: from the outcome of a handler to an answer that the broker has acknowledged."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from threading import Event as Flag
from typing import Final

from afl.core import values
from afl.core.declared_returns import RESULT_MISMATCH
from afl.core.handlers.calling import NO_HANDLER, Handler, call_shape
from afl.core.handlers.context import HandlerContext
from afl.core.handlers.outcomes import TIMEOUT, Call, HandlerBatch, NotRun, Outcome, Raised, Returned, TimedOut
from afl.core.handlers.retry import next_try_s
from afl.core.handlers.returned import BadResult, answers_later, plain_result, plain_update
from afl.core.text.exception_text import exception_class, exception_text, exception_traceback
from afl.core.text.warning_limits import LimitedLog
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.work import Work, WorkBatch
from afl_stream.errors import EventTooLarge, StreamError, Unreadable, ValueRefused
from afl_stream.transport import RecordTooLarge, TopicPartition, TransportError
from afl_stream.wire.messages import Event

log = logging.getLogger(__name__)

#: `error.type` of the failures that are the agent's own words, besides TIMEOUT and NO_HANDLER.
BAD_RESULT: Final = "BadResult"
VALUE_REFUSED: Final = "ValueRefused"
POISON_EVENT: Final = "PoisonEvent"
UNREADABLE_EVENT: Final = "UnreadableEvent"


class PoisonEvent(StreamError):
    """An event whose handler was running each time when several processes died."""

    def __init__(self, event_id: str, crashes: int) -> None:
        super().__init__(f"the handler of event {event_id} was running in {crashes} processes when they died")
        self.event_id = event_id
        self.crashes = crashes


class After(Enum):
    """The member's next action for a record."""

    FINISH = auto()
    RETRY = auto()
    START_AGAIN = auto()
    SEND_NEXT = auto()
    SEND_AGAIN = auto()


@dataclass(frozen=True, slots=True)
class Completion:
    """A report about a record, from the thread that has it. `wait_s` is the wait before a retry."""

    work: Work
    after: After
    wait_s: float = 0.0
    error: Exception | None = None


class Answering:
    """Turns outcomes into answers and sends them, on the thread that has the outcome. The member reads the reports."""

    def __init__(self, resources: AgentResources, group: str) -> None:
        self._resources = resources
        self._group = group
        self._completions: deque[Completion] = deque()
        self._warnings = LimitedLog(log)
        #: Set whenever the member has something to do.
        self.wake = Flag()

    def take_completions(self) -> list[Completion]:
        """Return the reports since the last call."""
        self.wake.clear()
        completions = self._completions
        return [completions.popleft() for _ in range(len(completions))]

    def batch(self, batch: WorkBatch) -> HandlerBatch:
        """Return the calls that run the handlers of these records."""
        return HandlerBatch(*(self._call(work) for work in batch.works), secluded=batch.is_secluded)

    def _call(self, work: Work) -> Call:
        """Return the call that runs this record's handler, or that reports why it cannot run."""
        event, route = work.event, work.route
        assert event is not None
        assert route is not None
        try:
            handler = route.find()
        except Exception as error:  # noqa: BLE001 - the module has changed since the start, or is not what it seems
            handler = _raising(error)
        shape = call_shape(handler)
        payload = route.payload(event.event_type, event.payload)
        call = Call(
            handler,
            (payload,),
            is_async=shape.is_async,
            timeout_s=route.timeout_s,
            facet=event.event_type,
            on_outcome=partial(self._on_outcome, work, event),
            # Coroutines share a thread anyway.
            run_time=None if shape.is_async else route.run_time,
        )
        if shape.takes_context:
            call.arguments = (payload, self._context(work, event, call))
        return call

    def _context(self, work: Work, event: Event, call: Call) -> HandlerContext:
        return HandlerContext(
            facet=event.event_type,
            event_id=event.id,
            step_id=event.step_id,
            workflow_id=event.workflow_id,
            execution_id=event.execution_id,
            attempt=event.attempt,
            deadline_ms=event.deadline,
            answer_token=event.answer_token,
            headers=dict(work.record.headers),
            send_update=partial(self._update, work, event),
            is_stopping=lambda: self._resources.shutdown.is_stopping or not work.partition.is_assigned,
            is_over=lambda: call.is_over,
            is_cancelled=lambda: self._resources.cancellations.has_cancelled(event, self._resources.clock_s()),
        )

    def fail_without_handler(self, work: Work) -> None:
        """Answer StepFailed for an event of a facet that has no handler."""
        event = work.event
        assert event is not None
        self._queue_failure(work, event, NO_HANDLER, f"no handler for facet {event.event_type}")
        self.send(work)

    def dead_letter(self, work: Work, error: Unreadable | PoisonEvent) -> None:
        """Send the record to the dead letter topic, then answer StepFailed. A crash between the two sends both again.

        A record that cannot be read is answered only when its headers name event, step and attempt.
        """
        records, record = self._resources.records, work.record
        work.outgoing.append(records.dead_letter(record, error, self._group))
        if work.event is not None:
            self._queue_failure(work, work.event, POISON_EVENT, str(error))
        else:
            failure = records.failed_by_headers(record, UNREADABLE_EVENT, str(error), self._group)
            if failure is not None:
                self._resources.counters.add("failed")
                work.outgoing.append(failure)
        self.send(work)

    def send(self, work: Work) -> None:
        """Produce the first of the records to send; the member gets a report of its delivery."""
        shutdown, outgoing = self._resources.shutdown, work.outgoing[0]
        if shutdown.is_dead:
            return
        try:
            self._resources.producer.produce(
                outgoing.topic,
                outgoing.value,
                key=outgoing.key,
                headers=outgoing.headers,
                on_delivery=partial(self._on_delivery, work),
            )
        except RecordTooLarge as error:
            self._too_large(work, error)
        except TransportError as error:
            self._report(Completion(work, After.SEND_AGAIN, error=error))
        else:
            self._resources.probe("agent.produced")

    def _on_outcome(self, work: Work, event: Event, outcome: Outcome) -> None:
        self._resources.shutdown.check()
        work.is_running = False
        if isinstance(outcome, NotRun):
            self._report(Completion(work, After.START_AGAIN))
            return
        self._resources.probe("agent.handled")
        counters = self._resources.counters
        if isinstance(outcome, Returned):
            if answers_later(outcome.value):
                counters.add("deferred")
                self._report(Completion(work, After.FINISH))
                return
            self._queue_result(work, event, outcome.value)
        else:
            wait_s = next_try_s(work.route.retry if work.route is not None else None, work.tries, outcome.error)
            if wait_s is not None:
                counters.add("retried")
                self._report(Completion(work, After.RETRY, wait_s))
                return
            self._queue_failure_of(work, event, outcome)
        self.send(work)

    def _queue_result(self, work: Work, event: Event, value: object) -> None:
        try:
            result = plain_result(value)
        except BadResult as error:
            self._refuse_result(work, event, BAD_RESULT, exception_text(error))
            return
        except values.ValueRefused as error:
            self._refuse_result(work, event, VALUE_REFUSED, exception_text(error))
            return
        returns = self._resources.records.returns_of(work.record)
        # Another process may have sent a missing return as an update, or this one before a crash: only the evaluator
        # knows.
        if returns is not None and returns.has_unknown(result):
            mismatch = returns.mismatch(event.event_type, result, work.reported or ())
            if mismatch is not None:
                self._refuse_result(work, event, RESULT_MISMATCH, mismatch)
                return
        try:
            answer = self._resources.records.continued(event, result, self._group, work.record.headers)
        except ValueRefused as error:
            self._refuse_result(work, event, VALUE_REFUSED, f"the handler's result cannot be sent: {error}")
        except (EventTooLarge, RuntimeError, MemoryError) as error:
            # A RuntimeError: a handler's own thread still changes the returned value.
            self._refuse_result(work, event, BAD_RESULT, f"the handler's result cannot be sent: {error}")
        else:
            self._resources.counters.add_answer(event.event_type, handled=True)
            work.outgoing.append(answer)

    def _refuse_result(self, work: Work, event: Event, error_type: str, message: str) -> None:
        """Fail the step with the reason why its result is refused, and log it.

        The log is for the author of the handler: the step's catch may hide the failure.
        """
        text, facet = "the result of the handler of %s fails step %s: %s: %s", event.event_type
        self._warnings.warning(f"refused results of {facet}", text, facet, event.step_id, error_type, message)
        self._queue_failure(work, event, error_type, message)

    def _queue_failure_of(self, work: Work, event: Event, outcome: Raised | TimedOut) -> None:
        if isinstance(outcome, TimedOut):
            self._resources.counters.add("timed_out")
            self._queue_failure(work, event, TIMEOUT, str(outcome.error))
        else:
            # The step records the exception; only this log has its traceback.
            where = exception_traceback(outcome.error)
            text, facet = "the handler of %s failed for step %s\n%s", event.event_type
            self._warnings.warning(f"failures of the handler of {facet}", text, facet, event.step_id, where)
            self._queue_failure(work, event, exception_class(outcome.error), exception_text(outcome.error))

    def _queue_failure(self, work: Work, event: Event, error_type: str, message: str) -> None:
        self._resources.counters.add_answer(event.event_type, handled=False)
        work.outgoing.append(
            self._resources.records.failed(event, error_type, message, self._group, work.record.headers)
        )

    def _too_large(self, work: Work, error: RecordTooLarge) -> None:
        """Replace what is too large: a dead letter loses its value, an answer becomes a failure that says so."""
        refused = work.outgoing.popleft()
        records = self._resources.records
        if refused.topic != records.control_topic:
            work.outgoing.appendleft(records.without_value(refused))
        elif work.event is not None:
            failure = records.failed(work.event, BAD_RESULT, str(error), self._group, work.record.headers)
            self._resources.counters.add_answer(work.event.event_type, handled=False)
            work.outgoing.appendleft(failure)
        self.send(work)

    def _update(self, work: Work, event: Event, partial: Mapping[str, object]) -> None:
        """Send a handler's update, on its thread. Raises BadResult, and what the codec and the producer raise."""
        self._resources.shutdown.check()
        reported = plain_update(partial)
        update = self._resources.records.updated(event, reported, self._group, work.record.headers)
        self._resources.producer.produce(update.topic, update.value, key=update.key, headers=update.headers)
        work.reported = {*(work.reported or ()), *reported}
        self._resources.counters.add("updates")

    def _on_delivery(self, work: Work, error: Exception | None, _partition: TopicPartition, _offset: int) -> None:
        if self._resources.shutdown.is_dead:
            return
        self._resources.probe("agent.acknowledged")
        if error is None:
            self._report(Completion(work, After.SEND_NEXT))
        else:
            self._report(Completion(work, After.SEND_AGAIN, error=error))

    def _report(self, completion: Completion) -> None:
        self._completions.append(completion)
        if not self.wake.is_set():
            self.wake.set()


def _raising(error: Exception) -> Handler:
    def raise_it(_payload: dict[str, object]) -> dict[str, object]:
        raise error

    return raise_it
