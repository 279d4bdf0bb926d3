"""Answers of an agent: from the outcome of a handler to an answer that the broker has acknowledged."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from threading import Event as Flag
from typing import Final

from afl.core import values
from afl.core.clock import epoch_ns
from afl.core.declared_returns import RESULT_MISMATCH
from afl.core.handlers.calling import NO_HANDLER, Handler, call_shape
from afl.core.handlers.context import HandlerContext
from afl.core.handlers.outcomes import TIMEOUT, Call, HandlerBatch, NotRun, Outcome, PutBack, Raised, Returned, TimedOut
from afl.core.handlers.retry import next_try_s
from afl.core.handlers.returned import BadResult, answers_later, plain_result, plain_update
from afl.core.handlers.routes import Route
from afl.core.probes import no_probe
from afl.core.text.exception_text import exception_class, exception_text, exception_traceback
from afl.core.text.warning_limits import LimitedLog
from afl_stream.agent.completions import After, Completion, PoisonEvent
from afl_stream.agent.event_lines import EventLines
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.work import Work, WorkBatch
from afl_stream.errors import EventTooLarge, Unreadable, ValueRefused
from afl_stream.sensitive.marks import marked_names
from afl_stream.transport import RecordTooLarge, TopicPartition, TransportError
from afl_stream.wire.headers import NamedHeaders
from afl_stream.wire.messages import Event

log = logging.getLogger(__name__)

#: `error.type` of the failures that are the agent's own words, besides TIMEOUT and NO_HANDLER.
BAD_RESULT: Final = "BadResult"
VALUE_REFUSED: Final = "ValueRefused"
POISON_EVENT: Final = "PoisonEvent"
UNREADABLE_EVENT: Final = "UnreadableEvent"


class Answering:
    """Turns outcomes into answers and sends them, on the thread that has the outcome. The member reads the reports."""

    def __init__(self, resources: AgentResources, group: str) -> None:
        self._resources = resources
        self._shutdown = resources.shutdown
        self._tracing = resources.tracing
        self._probe = None if resources.probe is no_probe else resources.probe
        self._group = group
        self._default_retry = resources.config.retry
        self._completions: deque[Completion] = deque()
        self._acknowledged: deque[Work] = deque()
        self._warnings = LimitedLog(log)
        stream = resources.config.stream
        #: What is logged of each event, where that is wanted.
        self.lines = EventLines(
            group, resources.clock_s, with_values=stream.logging.values, patterns=stream.sensitive.patterns
        )
        #: Set whenever the member has something to do.
        self._wake = Flag()
        self._is_woken = False

    def take_completions(self) -> list[Completion]:
        """Return the reports since the last call, but for records that are acknowledged."""
        if self._is_woken:
            self.sleep()
        completions = self._completions
        return [completions.popleft() for _ in range(len(completions))]

    def take_acknowledged(self) -> list[Work]:
        """Return the records of which the broker has acknowledged what was sent, since the last call."""
        acknowledged = self._acknowledged
        return [acknowledged.popleft() for _ in range(len(acknowledged))]

    def batch(self, batch: WorkBatch) -> HandlerBatch:
        """Return the calls that run the handlers of these records."""
        return HandlerBatch(*(self.call_of(work) for work in batch.works), secluded=batch.is_secluded)

    def runner_of(self, route: Route) -> Callable[[Work, Event], object]:
        """Return what runs the handler of this route, a plain function, for a record.

        Raises what finding the handler does: the module may have changed since the start.
        """
        handler, payload_of, context_of = route.find(), route.payload, self._context
        run = self._plain_runner(handler, payload_of, context_of)
        return run if self._tracing is None else self._tracing.traced(run)

    def _plain_runner(
        self,
        handler: Handler,
        payload_of: Callable[..., object],
        context_of: Callable[[Work, Event], HandlerContext],
    ) -> Callable[[Work, Event], object]:
        timed = self.lines.timed if self.lines.is_on else None
        takes_context = call_shape(handler).takes_context

        def run(work: Work, event: Event) -> object:
            called = handler if timed is None else timed(work, handler)
            payload = payload_of(event.event_type, event.payload)
            return called(payload, context_of(work, event)) if takes_context else called(payload)

        return run

    def call_of(self, work: Work) -> Call:
        """Return the call that runs this record's handler, or that reports why it cannot run."""
        event, route = work.event, work.route
        assert event is not None
        assert route is not None
        try:
            handler = route.find()
        except Exception as error:  # noqa: BLE001 - the module has changed since the start, or is not what it seems
            handler = _raising(error)
        shape = call_shape(handler)
        if self._tracing is not None:
            if work.trace is None:
                work.trace = self._tracing.begin(work.record, event.workflow_id)
            handler = self._tracing.around(work.trace, handler, is_async=shape.is_async)
        payload = route.payload(event.event_type, event.payload)
        return Call(
            self.lines.timed(work, handler) if self.lines.is_on else handler,
            (payload, self._context(work, event)) if shape.takes_context else (payload,),
            is_async=shape.is_async,
            timeout_s=route.timeout_s,
            facet=event.event_type,
            on_outcome=self._on_outcome(work, event, is_async=shape.is_async),
            # Coroutines share a thread anyway.
            run_time=None if shape.is_async else route.run_time,
        )

    def _context(self, work: Work, event: Event) -> HandlerContext:
        tries = work.tries
        return HandlerContext(
            facet=event.event_type,
            event_id=event.id,
            step_id=event.step_id,
            workflow_id=event.workflow_id,
            execution_id=event.execution_id,
            attempt=event.attempt,
            deadline_ms=event.deadline,
            answer_token=event.answer_token,
            headers=NamedHeaders(work.record.headers),
            send_update=partial(self._update, work, event),
            is_stopping=lambda: self._resources.shutdown.is_stopping or not work.partition.is_assigned,
            # A later try is another run.
            is_over=lambda: not work.is_running or work.tries != tries,
            is_cancelled=lambda: self._resources.cancellations.has_cancelled(event, self._resources.clock_s()),
            returns=self._resources.records.returns_of(work.record.value),
            tries=work.all_tries,
            trace=None if work.trace is None else work.trace.context.traceparent,
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
        work.outgoing.append(records.dead_letter(record, error, self._group, work.event, work.all_tries))
        if work.event is not None:
            self._queue_failure(work, work.event, POISON_EVENT, str(error))
        else:
            failure = records.failed_by_headers(record, UNREADABLE_EVENT, str(error), self._group)
            if failure is not None:
                self._resources.counters.add("failed")
                work.outgoing.append(failure)
        self.send(work)

    def send(self, work: Work) -> None:
        """Produce the first of the records to send; the member gets a report of its delivery.

        Nothing is sent for a partition that was lost: its owner has the record.
        """
        if self._shutdown.is_dead:
            return
        if work.partition.is_lost:
            self._report(Completion(work, After.DROP))
            return
        topic, key, value, headers = work.outgoing[0]
        try:
            self._resources.producer.produce(
                topic, value, key=key, headers=headers, on_delivery=partial(self._on_delivery, work)
            )
        except RecordTooLarge as error:
            self._too_large(work, error)
        except TransportError as error:
            self._report(Completion(work, After.SEND_AGAIN, error=error))
        else:
            if self._probe is not None:
                self._probe("agent.produced")

    def _on_outcome(self, work: Work, event: Event, *, is_async: bool) -> Callable[[Outcome], None]:
        """Return what takes the outcome of a record's handler; coroutines are timed there."""
        observer = self._resources.config.observer
        take = partial(self.take_outcome, work)
        return take if observer is None or not is_async else observer.timed(event.event_type, take)

    def take_outcome(self, work: Work, outcome: Outcome) -> None:
        """Answer for a record whose handler has ended, or have it tried again; any thread may call this, once a run."""
        if type(outcome) is Returned:
            self.take_result(work, outcome.value)
            return
        event = self._ended(work)
        if isinstance(outcome, NotRun) or (isinstance(outcome, Raised) and type(outcome.error) is PutBack):
            self.start_again(work)
            return
        assert not isinstance(outcome, Returned)
        if self._probe is not None:
            self._probe("agent.handled")
        policy = work.route.retry if work.route is not None else None
        wait_s = next_try_s(self._default_retry if policy is None else policy, work.all_tries, outcome.error)
        ended_ns = 0 if work.trace is None else epoch_ns()
        if work.trace is not None:
            work.trace.traceback = exception_traceback(outcome.error, self._hiding(work, event))
        if wait_s is not None:
            self._resources.counters.add("retried")
            kind, text = exception_class(outcome.error), exception_text(outcome.error, self._hiding(work, event))
            self._resources.failed_tries.failed(event, work.all_tries, f"{kind}: {text}", wait_s)
            if work.trace is not None:
                work.trace.error = (kind, text)
                self._trace_ended(work, ended_ns)
            if self.lines.is_on:
                self.lines.retried(work, event, kind, wait_s)
            self._report(Completion(work, After.RETRY, wait_s))
            return
        self._queue_failure_of(work, event, outcome)
        self._send_traced(work, ended_ns)

    def take_result(self, work: Work, value: object) -> None:
        """Answer for a record whose handler has returned; see `take_outcome`."""
        event = work.event
        assert event is not None
        work.is_running = False
        ended_ns = 0 if work.trace is None else epoch_ns()
        if self._shutdown.is_dead:
            self._shutdown.check()
        if self._probe is not None:
            self._probe("agent.handled")
        if type(value) is not dict and answers_later(value):
            self._resources.counters.add("deferred")
            if work.trace is not None:
                self._trace_ended(work, ended_ns)
            if self.lines.is_on:
                self.lines.deferred(work, event)
            self._report(Completion(work, After.FINISH))
            return
        self._queue_result(work, event, value)
        self._send_traced(work, ended_ns)

    def _send_traced(self, work: Work, ended_ns: int) -> None:
        """Send the answer of a handler that has ended, and record its span, which ends before that."""
        run = work.trace
        if run is None or self._tracing is None:
            self.send(work)
            return
        try:
            self.send(work)
        finally:
            work.trace = None
            self._tracing.ended(run, work.record, work.event, self._group, ended_ns, work.all_tries, has_answer=True)

    def _trace_ended(self, work: Work, ended_ns: int) -> None:
        """Record the span of a handler that has ended, and sends no answer now."""
        run, work.trace = work.trace, None
        assert run is not None
        assert self._tracing is not None
        self._tracing.ended(run, work.record, work.event, self._group, ended_ns, work.all_tries, has_answer=False)

    def start_again(self, work: Work) -> None:
        """Have the handler of a record started again: it was not run."""
        work.trace = None
        self._report(Completion(work, After.START_AGAIN))

    def note_slow(self, work: Work) -> None:
        """Have a running handler noted for the next owner, which was expected to end before anything is committed."""
        self._report(Completion(work, After.NOTE_START))

    def _ended(self, work: Work) -> Event:
        """Note that the record's handler has ended."""
        work.is_running = False
        if self._shutdown.is_dead:
            self._shutdown.check()
        assert work.event is not None
        return work.event

    def _queue_result(self, work: Work, event: Event, value: object) -> None:
        records = self._resources.records
        try:
            result = plain_result(value)
        except BadResult as error:
            self._refuse_result(work, event, BAD_RESULT, exception_text(error))
            return
        except values.ValueRefused as error:
            self._refuse_result(work, event, VALUE_REFUSED, exception_text(error))
            return
        returns = records.returns_of(work.record.value)
        # Another process may have sent a missing return as an update, or this one before a crash: only the evaluator
        # knows.
        if returns is not None and tuple(result) != returns.required and returns.has_unknown(result):
            mismatch = returns.mismatch(event.event_type, result, work.reported or ())
            if mismatch is not None:
                self._refuse_result(work, event, RESULT_MISMATCH, mismatch)
                return
        try:
            trace = () if work.trace is None else work.trace.headers
            answer = records.continued(event, result, self._group, work.record.headers, trace)
            if work.tries + work.earlier_tries > 1 or work.partition.progress.crash_counts:
                answer = records.with_tries(answer, work.all_tries)
        except ValueRefused as error:
            self._refuse_result(work, event, VALUE_REFUSED, f"the handler's result cannot be sent: {error}")
        except (EventTooLarge, RuntimeError, MemoryError) as error:
            # A RuntimeError: a handler's own thread still changes the returned value.
            self._refuse_result(work, event, BAD_RESULT, f"the handler's result cannot be sent: {error}")
        else:
            self._resources.counters.add_answer(event.event_type, handled=True)
            work.outgoing.append(answer)
            if self.lines.is_on:
                self.lines.completed(work, event, result)

    def _refuse_result(self, work: Work, event: Event, error_type: str, message: str) -> None:
        """Fail the step with the reason why its result is refused, and log it.

        The log is for the author of the handler: the step's catch may hide the failure.
        """
        if (hide := self._hiding(work, event)) is not None:
            message = hide(message)
        text, facet = "the result of the handler of %s fails step %s: %s: %s", event.event_type
        self._warnings.warning(
            f"refused results of {facet}", text, facet, event.step_id, error_type, message, extra=_fields(event)
        )
        self._queue_failure(work, event, error_type, message)

    def _queue_failure_of(self, work: Work, event: Event, outcome: Raised | TimedOut) -> None:
        if isinstance(outcome, TimedOut):
            self._resources.counters.add("timed_out")
            self._queue_failure(work, event, TIMEOUT, str(outcome.error))
        else:
            # The step records the exception; only this log has its traceback.
            hide = self._hiding(work, event)
            where = outcome.logged(hide)
            text, facet = "the handler of %s failed for step %s\n%s", event.event_type
            self._warnings.warning(
                f"failures of the handler of {facet}", text, facet, event.step_id, where, extra=_fields(event)
            )
            self._queue_failure(work, event, exception_class(outcome.error), exception_text(outcome.error, hide))

    def _hiding(self, work: Work, event: Event) -> Callable[[str], str] | None:
        """Return what replaces the event's sensitive values in a text; None: it has none."""
        patterns, names = self._resources.config.stream.sensitive.patterns, marked_names(work.record.headers)
        if patterns:
            names |= {name for name in event.payload if patterns.takes(event.event_type, name)}
        if not names:
            return None
        # Needed where something failed that has such values, and nowhere else in an agent.
        from afl_stream.sensitive.error_texts import hiding

        return hiding(event.payload, names)

    def _queue_failure(self, work: Work, event: Event, error_type: str, message: str) -> None:
        self._resources.counters.add_answer(event.event_type, handled=False)
        records = self._resources.records
        if work.trace is not None:
            work.trace.error = (error_type, message)
        caused_by = work.record.headers if work.trace is None else work.trace.headers
        failure = records.failed(event, error_type, message, self._group, caused_by)
        work.outgoing.append(records.with_tries(failure, work.all_tries))
        if self.lines.is_on:
            self.lines.failed(work, event, error_type, message)

    def _too_large(self, work: Work, error: RecordTooLarge) -> None:
        """Replace what is too large: a dead letter loses its value, an answer becomes a failure that says so."""
        refused = work.outgoing.pop(0)
        records = self._resources.records
        if refused.topic != records.control_topic:
            work.outgoing.insert(0, records.without_value(refused))
        elif work.event is not None:
            failure = records.failed(work.event, BAD_RESULT, str(error), self._group, work.record.headers)
            self._resources.counters.add_answer(work.event.event_type, handled=False)
            work.outgoing.insert(0, failure)
        self.send(work)

    def _update(self, work: Work, event: Event, partial: Mapping[str, object]) -> None:
        """Send a handler's update, on its thread. Raises BadResult, and what the codec and the producer raise."""
        self._resources.shutdown.check()
        reported = plain_update(partial)
        trace = () if work.trace is None else work.trace.headers
        update = self._resources.records.updated(event, reported, self._group, work.record.headers, trace)
        self._resources.producer.produce(update.topic, update.value, key=update.key, headers=update.headers)
        work.reported = {*(work.reported or ()), *reported}
        self._resources.counters.add("updates")

    def _on_delivery(self, work: Work, error: Exception | None, _partition: TopicPartition, _offset: int) -> None:
        if self._shutdown.is_dead:
            return
        if self._probe is not None:
            self._probe("agent.acknowledged")
        if error is not None:
            self._report(Completion(work, After.SEND_AGAIN, error=error))
            return
        self._acknowledged.append(work)
        if not self._is_woken:
            self.wake_up()

    def _report(self, completion: Completion) -> None:
        self._completions.append(completion)
        if not self._is_woken:
            self.wake_up()

    def wake_up(self) -> None:
        """Say that the member has something to do. Any thread may call this."""
        self._is_woken = True
        self._wake.set()

    def sleep(self) -> None:
        """Note that the member knows all that was reported."""
        self._wake.clear()
        # After this, the next report sets it again; one that came in between is among those that are taken now.
        self._is_woken = False

    def wait(self, timeout_s: float) -> None:
        """Wait until there is something to do, or the time is over."""
        self._wake.wait(timeout_s)


def _fields(event: Event) -> dict[str, object]:
    """Return the fields of a log record about an event."""
    return {
        "workflow_id": event.workflow_id,
        "step_id": event.step_id,
        "facet": event.event_type,
        "attempt": event.attempt,
    }


def _raising(error: Exception) -> Handler:
    def raise_it(_payload: dict[str, object]) -> dict[str, object]:
        raise error

    return raise_it
