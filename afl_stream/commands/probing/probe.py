"""Sending a probe's events, and gathering what an agent answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from afl.core.clock import epoch_ms
from afl_stream.commands.probing.cases import Case, Cases
from afl_stream.commands.probing.judging import Sent, Verdict, judged
from afl_stream.errors import StreamError
from afl_stream.group_members import DescribesGroups
from afl_stream.topics.creation import create_missing
from afl_stream.topics.declared import Topology
from afl_stream.transport import Record, TopicPartition, Transport, produce_acknowledged
from afl_stream.wire.codec import Codec
from afl_stream.wire.dead_letters import DlqHeader
from afl_stream.wire.headers import header, headers_for
from afl_stream.wire.messages import Answer, Lifecycle, StepContinue, StepFailed, StepUpdate

_ANSWERS: Final = (StepContinue, StepFailed, StepUpdate)
_DELIVERY_S: Final = 30.0
#: How much of a record that cannot be read is shown, in bytes.
_MOST_SHOWN: Final = 200
#: How long what is not there may still come, once a later event of the partition is answered.
_GRACE_S: Final = 0.5


class ProbedAgent:
    """An agent behind the scratch topics of one facet, and what it writes to them."""

    def __init__(self, transport: Transport, topology: Topology, codec: Codec, facet: str) -> None:
        """Create what is missing of the topics. Raises what the transport raises."""
        self._codec, self._topic = codec, topology.facet(facet)
        self._control, self._lifecycle = topology.control(), topology.lifecycle()
        self._letters_topic = topology.dlq(self._topic)
        admin = transport.admin()
        create_missing(admin, topology.plan([facet], admin.topics(topology.names([facet])), admin.broker_count()))
        self._producer = transport.producer()
        self._reader = transport.consumer(None)
        found = admin.topics([self._control, self._letters_topic])
        self._control_partitions = found[self._control].partitions
        places = [TopicPartition(name, n) for name, topic in found.items() for n in range(topic.partitions)]
        self._reader.assign({place: self._reader.watermarks(place).high for place in places})
        self._admin = admin
        self._answers: list[Sent] = []
        self._unread: list[str] = []
        self._letters: list[Record] = []

    def close(self) -> None:
        """Close what reads and writes."""
        self._reader.close()
        self._producer.close()

    def run(self, cases: Cases, timeout_s: float) -> Iterator[Verdict]:
        """Send each case and a good event behind it, and yield its verdict; behind the first silence none is sent."""
        stuck_at = None
        for case in cases.all():
            if stuck_at is not None:
                yield Verdict(case.name, "not sent", (f"the agent stands still since the case {stuck_at!r}",))
                continue
            self._send(cases, case)
            behind = cases.good(f"after {case.name}")
            self._send(cases, behind)
            is_alive = self._await(behind, timeout_s)
            if is_alive:
                self._read_for(_GRACE_S)
            verdict = self._verdict(case)
            if not is_alive:
                stuck_at = case.name
                stuck = f"the event behind it in its topic was not answered within {timeout_s:g} s: {self._readers()}"
                verdict = verdict._replace(faults=(*verdict.faults, stuck))
            yield verdict

    def _send(self, cases: Cases, case: Case) -> None:
        if case.is_cancelled:
            event = case.event
            milestone = Lifecycle(workflow_id=event.workflow_id, kind="workflow.cancelled", at=epoch_ms())
            value = self._codec.encode(milestone, self._lifecycle)
            headers = headers_for(milestone, source="/afl-stream/probe", form=self._codec.header_form)
            key = event.workflow_id.encode()
            produce_acknowledged(
                self._producer, self._lifecycle, value, key=key, headers=headers, timeout_s=_DELIVERY_S
            )
            # An agent may learn of it first, as it does in life.
            self._read_for(_GRACE_S)
        for _ in range(case.times):
            produce_acknowledged(
                self._producer, self._topic, case.value, key=case.event.step_id.encode(),
                headers=cases.headers(case.event), timeout_s=_DELIVERY_S,
            )  # fmt: skip

    def _await(self, case: Case, timeout_s: float) -> bool:
        end_s = time.monotonic() + timeout_s
        while not any(one.answer.step_id == case.event.step_id for one in self._answers):
            if time.monotonic() >= end_s:
                return False
            self._read_for(0.1)
        return True

    def _read_for(self, time_s: float) -> None:
        end_s = time.monotonic() + time_s
        while (left_s := end_s - time.monotonic()) > 0:
            for record in self._reader.consume(100, left_s):
                if record.topic == self._letters_topic:
                    self._letters.append(record)
                elif (answer := self._answer_in(record)) is not None:
                    self._answers.append(Sent(record, answer))

    def _answer_in(self, record: Record) -> Answer | None:
        try:
            message = self._codec.decode(record.value, record.headers, json_allowed=True)
        except StreamError as error:
            self._unread.append(f"a record on {record.topic} cannot be read: {error}: {_beginning(record.value)}")
            return None
        return message if isinstance(message, _ANSWERS) else None

    def _verdict(self, case: Case) -> Verdict:
        step_id = case.event.step_id
        answers = [one for one in self._answers if one.answer.step_id == step_id]
        letters = [one for one in self._letters if _step_of(one) == step_id]
        unread, self._unread = self._unread, []
        verdict = judged(case, answers, letters, self._control_partitions)
        if not unread:
            return verdict
        words = [verdict.came] if answers or letters else []
        came = ", ".join([*words, *["unreadable answer"] * len(unread)])
        return Verdict(case.name, came, tuple(dict.fromkeys((*unread, *verdict.faults))))

    def _readers(self) -> str:
        """Say who reads the topic of the events: the first question about an agent that is silent."""
        try:
            found = self._admin.groups() if isinstance(self._admin, DescribesGroups) else {}
        except StreamError as error:
            return f"who reads {self._topic} could not be found out: {error}"
        readers = [f"{member.client_id} of the group {name}" for name in found for member in found[name].members
                   if any(topic == self._topic for topic, _ in member.partitions)]  # fmt: skip
        if not readers:
            return f"no member of a group reads {self._topic}; has the agent this prefix, facet and broker?"
        return f"{', '.join(sorted(readers))} reads it; what does its log say?"


def _beginning(value: bytes | None) -> str:
    return repr((value or b"")[:_MOST_SHOWN].decode("utf-8", "replace"))


def _step_of(letter: Record) -> str | None:
    return header(letter.headers, DlqHeader.KEY.value) or (letter.key or b"").decode("utf-8", "replace")
