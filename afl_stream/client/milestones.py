"""The lifecycle topic as clients follow it: milestones of runs, and the evaluators' answers to commands."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Final

from afl.core.process.stopping import PROCESS_STOP
from afl_stream.acls import not_listed
from afl_stream.errors import NewerFormat, SchemaUnavailable, StreamError, Unreadable
from afl_stream.partitioner import partition_for
from afl_stream.sensitive.redaction import Redaction
from afl_stream.transport import BrokerUnavailable, Consumer, Record, TopicPartition, Transport
from afl_stream.wire.codec import Codec
from afl_stream.wire.command_answers import REJECTED, checked_answer, is_answer_to
from afl_stream.wire.messages import Lifecycle

_log = logging.getLogger(__name__)

#: Records of the lifecycle topic that are kept until their schemas can be looked up: the newest of them.
_MOST_UNCLEAR: Final = 100
#: One read of the lifecycle topic while an answer is waited for.
_READ_S: Final = 0.5


class NotInTime(StreamError):
    """An awaited record has not come in time."""

    def __init__(
        self, what: str, timeout_s: float, then: str = "it may still come, because nothing was cancelled"
    ) -> None:
        """`then` is what is so all the same, or what to do."""
        super().__init__(f"{what} has not come in {timeout_s:g} s; {then}")
        self.what, self.timeout_s = what, timeout_s


class NotAnswered(NotInTime):
    """A command is on its topic, and no evaluator has answered it yet."""

    def __init__(self, about: str, timeout_s: float, *then: str) -> None:
        super().__init__(f"an evaluator's answer to {about}", timeout_s, *then)


class Milestones:
    """The lifecycle topic, followed from its end when this was created, from its beginning, or from some time on."""

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        topic: str,
        workflow_id: str | None = None,
        *,
        from_beginning: bool = False,
        since_ms: int | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        """Open a reader of the topic; `redaction` hides what is sensitive in its milestones.

        Raises TopicMissing and what the transport raises.
        """
        self._codec, self._redaction = codec, redaction
        self._key = None if workflow_id is None else workflow_id.encode()
        #: Records whose schemas cannot be looked up yet. Others are read without them; many are a stranger's.
        self._unclear: deque[Record] = deque(maxlen=_MOST_UNCLEAR)
        found = transport.admin().topics([topic]).get(topic)
        if found is None:
            raise not_listed(transport.admin(), topic, "milestones of workflows", "--role ROLE")
        numbers = range(found.partitions) if self._key is None else (partition_for(self._key, found.partitions),)
        self._consumer: Consumer = transport.consumer(None)
        try:
            bounds = {(partition := TopicPartition(topic, n)): self._consumer.watermarks(partition) for n in numbers}
            self._ends = {partition: found.high for partition, found in bounds.items()}
            starts = {w: found.low for w, found in bounds.items()} if from_beginning else self._ends
            if since_ms is not None and not from_beginning:
                starts = self._consumer.offsets_for_times(dict.fromkeys(bounds, since_ms))
            #: The partitions of which not all is read that was there at first, with its end.
            self._unread = {w: found.high for w, found in bounds.items() if starts[w] < found.high}
            self._consumer.assign(starts)
        except BaseException:
            self._consumer.close()
            raise

    @property
    def consumer(self) -> Consumer:
        """The consumer that reads the topic."""
        return self._consumer

    @property
    def has_read_what_was_there(self) -> bool:
        """Return whether all is read that the topic had when this was created."""
        for partition in [w for w, end in self._unread.items() if self._consumer.position(w) >= end]:
            del self._unread[partition]
        return not self._unread

    def read(self, timeout_s: float) -> list[Lifecycle]:
        """Return new milestones, after a wait of up to `timeout_s` for the first.

        Raises BrokerUnavailable while no broker answers.
        """
        records, again = self._consumer.consume(500, timeout_s), self._unclear.copy()
        self._unclear.clear()
        found = [self._milestone(record) for record in records]
        while again and not self._unclear:  # One that is still unclear will do: each look may take its time.
            found.append(self._milestone(again.popleft()))
        self._unclear.extendleft(reversed(again))
        return [milestone for milestone in found if milestone is not None]

    def answer_to(self, command_id: str, timeout_s: float, *, about: str = "a command") -> Lifecycle:
        """Read up to an evaluator's answer to a command, and return it; milestones before it are dropped.

        Raises RefusedByEvaluator, and NotAnswered after `timeout_s`, also while no broker answers.
        """
        deadline_s = time.monotonic() + timeout_s
        while not PROCESS_STOP.is_set() and (left_s := deadline_s - time.monotonic()) > 0:
            try:
                found = self.read(min(left_s, _READ_S))
            except BrokerUnavailable as error:
                _log.debug("the lifecycle topic is read again: %s", error)
                PROCESS_STOP.wait(min(left_s, _READ_S))
                continue
            for milestone in found:
                if is_answer_to(command_id, milestone):
                    return checked_answer(milestone)
        raise NotAnswered(about, timeout_s)

    def _milestone(self, record: Record) -> Lifecycle | None:
        if self._key is not None and record.key != self._key:
            return None
        try:
            message = self._codec.decode(record.value, record.headers)
        except (Unreadable, NewerFormat):
            return None  # A foreign record is not a milestone, and one of a newer release is not for this one.
        except SchemaUnavailable as error:
            _log.debug("%s[%d] offset %d is looked at again: %s", *record[:3], error)
            self._unclear.append(record)
            return None
        if self._redaction is not None:
            message = self._redaction.message(message, record.headers)
        if not isinstance(message, Lifecycle):
            return None
        # A start that was rejected earlier says nothing about another one of that id.
        is_old = record.offset < self._ends[record.topic_partition]
        return None if is_old and message.kind == REJECTED else message

    def close(self) -> None:
        self._consumer.close()
