"""What people and programs do from outside: create topics, deploy programs, start workflows, answer steps."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final

from afl.compiled import CompiledProgram
from afl.core.clock import epoch_ms
from afl.runtime.types import workflow_id_v7
from afl_stream.codec import Codec
from afl_stream.config import StreamConfig
from afl_stream.definitions import Definitions, deploy
from afl_stream.errors import NewerFormat, SchemaUnavailable, StreamError, TopicMissing, Unreadable
from afl_stream.headers import headers_for
from afl_stream.message_shapes import check_ids
from afl_stream.messages import (
    CancelWorkflow,
    FailureReason,
    Lifecycle,
    Message,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    RunAgain,
    StartWorkflow,
    StepContinue,
    StepFailed,
    check_workflow_id,
    event_id_of,
    workflow_of,
)
from afl_stream.partitioner import partition_for
from afl_stream.service import answer_tokens, open_codec
from afl_stream.topics import PlanAction, TopicPlan, Topology, few_copies
from afl_stream.transport import (
    AuthenticationFailed,
    BrokerUnavailable,
    Consumer,
    Record,
    TopicExists,
    TopicPartition,
    Transport,
    TransportError,
    produce_acknowledged,
)

_log = logging.getLogger(__name__)

SOURCE = "/afl-stream/client"

#: The milestone of a run that there will not be.
REJECTED = "workflow.rejected"
#: Records of the lifecycle topic that are kept until their schemas can be looked up: the newest of them.
_MOST_UNCLEAR: Final = 100


class NotInTime(StreamError):
    """Something that was waited for has not come."""

    def __init__(self, what: str, timeout_s: float) -> None:
        super().__init__(f"{what} has not come in {timeout_s:g} s; it may still: nothing was taken back")
        self.what, self.timeout_s = what, timeout_s


class AttemptNeeded(StreamError):
    """Answers must carry a token here, and the token depends on the attempt that is answered."""

    def __init__(self, step_id: str) -> None:
        super().__init__(f"step {step_id}: answers need a token here, so say which attempt this one is for")
        self.step_id = step_id


class Client:
    """A deployment seen from outside. Needs the transport alone: no store, no engine. Belongs to one thread."""

    def __init__(self, config: StreamConfig, transport: Transport, *, timeout_s: float = 10.0) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self.topology = Topology(config)
        self._codec: Codec = open_codec(config, transport, self.topology)
        self._producer = transport.producer()
        self._tokens = answer_tokens(config)
        self.definitions = Definitions(transport, self._codec, self.topology.definitions())

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._producer.close()
        self.definitions.close()

    # --- topics and programs ------------------------------------------------------------------------------------

    def plan_topics(self, programs: Iterable[CompiledProgram] = ()) -> list[TopicPlan]:
        """What would have to be created or differs, for these programs.

        Warns where the cluster has too few brokers for the usual three copies of what is to be created. Raises
        TooFewBrokers where more copies are asked for than it has brokers.
        """
        facets, admin = _event_facets(programs), self._transport.admin()
        brokers = admin.broker_count()
        plans = self.topology.plan(facets, admin.topics(self.topology.names(facets)), brokers)
        if brokers is not None and (told := few_copies(plans, brokers)):
            _log.warning("%s", told)
        return plans

    def apply_topics(
        self,
        programs: Iterable[CompiledProgram] = (),
        *,
        on_failure: Callable[[TopicPlan, TransportError], None] | None = None,
    ) -> list[TopicPlan]:
        """Create the topics that are missing, and return the plan that this followed. Changes no existing topic.

        One that cannot be created keeps no other from it: `on_failure` is told of each. Without it the first failure
        is raised, once all were tried. A cluster that does not answer ends it at once: BrokerUnavailable,
        AuthenticationFailed. So does one with fewer brokers than replicas are asked for: TooFewBrokers.
        """
        admin = self._transport.admin()
        failures: list[TransportError] = []
        plans = self.plan_topics(programs)
        for plan in plans:
            if plan.action is not PlanAction.CREATE:
                continue
            spec = plan.spec
            try:
                admin.create_topic(
                    spec.name, partitions=spec.partitions, replication=spec.replication, settings=spec.settings
                )
            except TopicExists:
                continue  # Somebody else was faster.
            except (BrokerUnavailable, AuthenticationFailed):
                raise
            except TransportError as error:
                failures.append(error)
                if on_failure is not None:
                    on_failure(plan, error)
        if failures and on_failure is None:
            raise failures[0]
        return plans

    def deploy(self, program: CompiledProgram) -> None:
        """Publish a compiled program. Raises TopicMissing when one of its facets has no topic yet."""
        existing = self._transport.admin().topic_names()
        for facet in program.event_facets():
            topic = self.topology.facet(facet.qualified_name)
            if topic not in existing and self.topology.carries(facet.qualified_name):
                raise TopicMissing(topic, f"event facet {facet.qualified_name}")
        deploy(program, self._producer, self._codec, self.topology.definitions(), timeout_s=self._timeout_s)

    # --- commands and answers -----------------------------------------------------------------------------------

    def start(
        self,
        workflow: str,
        inputs: Mapping[str, object] | None = None,
        *,
        workflow_id: str | None = None,
        program: str | None = None,
        requested_by: str | None = None,
    ) -> str:
        """Ask for a workflow to be started, and return its id, drawn here unless it is given.

        The same id, program and inputs again start nothing new. Raises IdRefused, UnknownProgram with near names, and
        BrokerUnavailable when the command was not acknowledged.
        """
        found, name = self.definitions.find(workflow, program)
        now_ms = epoch_ms()
        workflow_id = check_workflow_id(workflow_id) if workflow_id is not None else workflow_id_v7(now_ms)
        command = StartWorkflow(
            workflow_id=workflow_id,
            workflow=name,
            program=found.fingerprint,
            inputs=dict(inputs or {}),
            requested_by=requested_by,
            created_at=now_ms,
        )
        self._send(self.topology.commands(), workflow_id, command)
        return workflow_id

    def cancel(self, workflow_id: str, reason: str = "") -> None:
        """Ask for a workflow to be ended."""
        check_workflow_id(workflow_id)
        self._send(self.topology.commands(), workflow_id, CancelWorkflow(workflow_id=workflow_id, reason=reason))

    def retry(
        self, workflow_id: str, step_id: str | None = None, *, reason: str = "", command_id: str | None = None
    ) -> str:
        """Ask for what has failed to be done again: a step, or all that failed of the workflow. Returns the command's
        id, drawn here unless it is given: the same one again does nothing."""
        command_id = command_id or _drawn_id()
        command = RetryStep(workflow_id=workflow_id, step_id=step_id, reason=reason, command_id=command_id)
        return self._run_again(command, command_id)

    def rerun(self, step_id: str, *, reason: str = "", command_id: str | None = None) -> str:
        """Ask for a step to be run again, with all that depends on it. Returns the command's id, as `retry`."""
        command_id = command_id or _drawn_id()
        workflow_id = workflow_of(step_id)
        command = RerunStep(workflow_id=workflow_id, step_id=step_id, reason=reason, command_id=command_id)
        return self._run_again(command, command_id)

    def reset(self, workflow_id: str, *, reason: str = "", command_id: str | None = None) -> str:
        """Ask for a workflow to be run again from its start. Returns the command's id, as `retry`."""
        command_id = command_id or _drawn_id()
        command = ResetWorkflow(workflow_id=workflow_id, reason=reason, command_id=command_id)
        return self._run_again(command, command_id)

    def _run_again(self, command: RunAgain, command_id: str) -> str:
        check_ids(command)
        self._send(self.topology.commands(), command.workflow_id, command)
        return command_id

    def require_topics(self) -> None:
        """Raise TopicMissing when answers or commands would have nowhere to go."""
        existing = self._transport.admin().topic_names()
        topology = self.topology
        needed = {topology.control(): "answers", topology.commands(): "commands", topology.schemas(): "schemas"}
        for topic, purpose in needed.items():
            if topic not in existing:
                raise TopicMissing(topic, purpose)

    def continue_step(self, step_id: str, result: Mapping[str, object], *, attempt: int | None = None) -> None:
        """Answer a step's event with a result; without an attempt, the current one's.

        Raises IdRefused, ValueRefused, BrokerUnavailable, and AttemptNeeded where tokens are on.
        """
        token = self._token(step_id, attempt)
        answer = StepContinue(step_id=step_id, result=dict(result), attempt=attempt, answer_token=token)
        self._send(self.topology.control(), workflow_of(step_id), answer)

    def fail_step(self, step_id: str, message: str, error_type: str = "Failed", *, attempt: int | None = None) -> None:
        """Answer a step's event with a failure. Raises as `continue_step`."""
        token = self._token(step_id, attempt)
        reason = FailureReason(type=error_type, message=message)
        failed = StepFailed(step_id=step_id, error=reason, attempt=attempt, answer_token=token)
        self._send(self.topology.control(), workflow_of(step_id), failed)

    def _token(self, step_id: str, attempt: int | None) -> str | None:
        if self._tokens is None:
            return None
        if attempt is None:
            raise AttemptNeeded(step_id)
        return self._tokens.token_for(event_id_of(step_id, attempt), attempt)

    def _send(self, topic: str, key: str, message: Message) -> None:
        produce_acknowledged(
            self._producer,
            topic,
            self._codec.encode(message, topic),
            key=key.encode(),
            headers=headers_for(message, source=SOURCE),
            timeout_s=self._timeout_s,
        )

    # --- waiting ------------------------------------------------------------------------------------------------

    def milestones(self, workflow_id: str | None = None, *, from_beginning: bool = False) -> Milestones:
        """Follow the lifecycle topic, from its end as it is now: open it before the command that it waits for.

        With a workflow's id only its milestones are read; `from_beginning`: also those that the topic still holds.
        """
        topic = self.topology.lifecycle()
        return Milestones(self._transport, self._codec, topic, workflow_id, from_beginning=from_beginning)


class Milestones:
    """The lifecycle topic, followed from where it ended when this was made, or from its beginning."""

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        topic: str,
        workflow_id: str | None = None,
        *,
        from_beginning: bool = False,
    ) -> None:
        """Raises TopicMissing and what the transport raises."""
        self._codec = codec
        self._key = None if workflow_id is None else workflow_id.encode()
        #: Records whose schemas cannot be looked up yet. Others are read without them; many are a stranger's.
        self._unclear: deque[Record] = deque(maxlen=_MOST_UNCLEAR)
        found = transport.admin().topics([topic]).get(topic)
        if found is None:
            raise TopicMissing(topic, "milestones of workflows")
        numbers = range(found.partitions) if self._key is None else (partition_for(self._key, found.partitions),)
        self._consumer: Consumer = transport.consumer(None)
        try:
            bounds = {(where := TopicPartition(topic, n)): self._consumer.watermarks(where) for n in numbers}
            self._ends = {where: found.high for where, found in bounds.items()}
            self._consumer.assign({w: found.low for w, found in bounds.items()} if from_beginning else self._ends)
        except BaseException:
            self._consumer.close()
            raise

    @property
    def consumer(self) -> Consumer:
        """What reads the topic."""
        return self._consumer

    def read(self, timeout_s: float) -> list[Lifecycle]:
        """What has come, after waiting up to `timeout_s` for the first. Raises BrokerUnavailable while none answers."""
        records, again = self._consumer.consume(500, timeout_s), self._unclear.copy()
        self._unclear.clear()
        found = [self._milestone(record) for record in records]
        while again and not self._unclear:  # One that is still unclear will do: each look may take its time.
            found.append(self._milestone(again.popleft()))
        self._unclear.extendleft(reversed(again))
        return [milestone for milestone in found if milestone is not None]

    def _milestone(self, record: Record) -> Lifecycle | None:
        if self._key is not None and record.key != self._key:
            return None
        try:
            message = self._codec.decode(record.value, record.headers)
        except (Unreadable, NewerFormat):
            return None  # A stranger's record is no milestone, and what a newer release tells is nothing to this one.
        except SchemaUnavailable as error:
            _log.debug("%s[%d] offset %d is looked at again: %s", *record[:3], error)
            self._unclear.append(record)
            return None
        if not isinstance(message, Lifecycle):
            return None
        # A start that was rejected earlier says nothing about another one of that id.
        is_old = record.offset < self._ends[record.topic_partition]
        return None if is_old and message.kind == REJECTED else message

    def close(self) -> None:
        self._consumer.close()


def _drawn_id() -> str:
    return str(workflow_id_v7(epoch_ms()))


def _event_facets(programs: Iterable[CompiledProgram]) -> list[str]:
    return sorted({facet.qualified_name for program in programs for facet in program.event_facets()})
