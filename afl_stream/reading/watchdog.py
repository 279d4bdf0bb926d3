"""The watchdog of a reader: it judges for evaluators, agents and audits whether a reader makes progress."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s
from afl_stream.outage import Outage, broker_at
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import BrokerUnavailable, BrokerView, Consumer

#: Intervals between looks at the broker's reports, without and with a problem. An answer is seen by the look after the
#: one that asked: a problem is known within two.
LOOK_INTERVAL_S: Final = 2.5
LOOK_AGAIN_S: Final = 1.0
#: An older answer does not count for the question whether all is read.
_LATE_ANSWER_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of a service. `reasons` say what is wrong."""

    ready: bool
    reasons: tuple[str, ...] = ()


class Watchdog:
    """Tells a broker that does not answer, or whose replies are lost, from a topic without new records.

    A reader that receives nothing looks regularly at what the broker reports besides records. It has an outage when

    * the broker has not answered that question for `kafka.silent_after_s`, or
    * the broker has records that no reply to a fetch has reported for that long.

    Only records, or an answer that shows no problem, end the outage. It is logged once, and raised when it has lasted
    `kafka.outage_timeout_s`. Belongs to the thread that reads; any thread may read `problem`.
    """

    def __init__(self, settings: KafkaSettings, who: str, clock_s: MonotonicClock = monotonic_s) -> None:
        """`who` reads, in words."""
        self._silent_after_s = settings.silent_after_s
        self._who, self._broker = who, broker_at(settings.bootstrap)
        self._clock_s = clock_s
        self._outage = Outage(settings.outage_timeout_s, clock_s)
        #: Since when records wait without a reply to a fetch.
        self._unfetched_since_s: float | None = None
        self._is_doubted = False
        self._next_look_s = clock_s() + self._interval_s
        #: The problem in words; None: there is none.
        self.problem: str | None = None

    def read(self, consumer: Consumer, count: int, *, is_reading: bool = True) -> None:
        """Note how many records a read has returned. Raises GaveUp when an outage has lasted too long.

        `is_reading` false: the reader waits for something else and has not read; records may then wait.
        """
        if count:
            self._unfetched_since_s = None
            if self._is_doubted:
                self._well()
            return
        now_s = self._clock_s()
        if now_s >= self._next_look_s:
            view = consumer.view()
            self._judge(view if is_reading else replace(view, unfetched=0), now_s)

    def has_read_all(self, consumer: Consumer) -> bool:
        """Return whether the broker says that no record is left: a read without records may only lack replies."""
        view = consumer.view()
        return view.is_reported and not view.unfetched and view.unanswered_s < _LATE_ANSWER_S and not self._is_doubted

    def failed(self, error: BrokerUnavailable) -> float:
        """Note that the broker could not be reached, and return how many seconds to wait before the next attempt.

        Raises GaveUp when the outage has lasted too long.
        """
        self._doubt(str(error))
        return self._outage.failed(error)

    def _judge(self, view: BrokerView, now_s: float) -> None:
        self._next_look_s = now_s + (LOOK_AGAIN_S if self._is_doubted else self._interval_s)
        if not view.unfetched:
            self._unfetched_since_s = None
        elif self._unfetched_since_s is None:
            self._unfetched_since_s = now_s
        unfetched_s = 0.0 if self._unfetched_since_s is None else now_s - self._unfetched_since_s
        if view.unanswered_s >= self._silent_after_s:
            self._silent(f"{self._who}: {self._broker} has not answered for {view.unanswered_s:.0f} s")
        elif unfetched_s >= self._silent_after_s:
            self._silent(
                f"{self._who}: {view.unfetched} records have waited {unfetched_s:.0f} s without a reply to a fetch, "
                f"{view.most_unfetched}; replies are lost on their way, or {self._broker} hangs"
            )
        elif self._is_doubted and not view.unfetched and not view.unanswered_s and view.is_reported:
            self._well()

    def _silent(self, problem: str) -> None:
        self._doubt(problem)
        self._outage.failed(BrokerUnavailable(problem))

    def _doubt(self, problem: str) -> None:
        self.problem = problem
        if not self._is_doubted:
            self._is_doubted = True
            self._next_look_s = self._clock_s()

    def _well(self) -> None:
        self._is_doubted, self.problem = False, None
        self._outage.over()

    @property
    def _interval_s(self) -> float:
        # So that a silence is reported soon after it counts as one.
        return min(LOOK_INTERVAL_S, self._silent_after_s / 3)
