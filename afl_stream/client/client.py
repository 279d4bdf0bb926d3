"""The client: it creates topics, deploys programs, starts workflows and answers steps from outside."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing

from afl.compiled.program import CompiledProgram
from afl.core.clock import epoch_ms
from afl.core.ids import time_ordered_id
from afl_stream.acls import not_listed
from afl_stream.client.answering import AnswerConnection
from afl_stream.client.answering import AttemptNeeded as AttemptNeeded
from afl_stream.client.bulk_starts import BulkStarts, StartCheck, StartRequest, StartRoute
from afl_stream.client.connection import SOURCE as SOURCE
from afl_stream.client.connection import drawn_id as drawn_id
from afl_stream.client.ends import ENDS_BY_STATUS, NotEnded, next_end, past_end
from afl_stream.client.external_events import EventReceipt, event_to_raise, receipt_of, when_unanswered
from afl_stream.client.milestones import Milestones as Milestones
from afl_stream.client.milestones import NotAnswered as NotAnswered
from afl_stream.client.milestones import NotInTime as NotInTime
from afl_stream.client.pausing import pauses_now, put_pause
from afl_stream.client.run_commands import RunConnection
from afl_stream.programs.definitions import deploy
from afl_stream.topics.budget import require_budget
from afl_stream.topics.creation import create_missing
from afl_stream.topics.declared import TopicPlan, few_copies
from afl_stream.transport import Headers, TransportError
from afl_stream.wire.command_answers import REJECTED as REJECTED
from afl_stream.wire.command_answers import RefusedByEvaluator as RefusedByEvaluator
from afl_stream.wire.headers import IfExists as IfExists
from afl_stream.wire.messages import (
    Lifecycle,
    Pause,
    StartWorkflow,
    check_workflow_id,
)
from afl_stream.wire.milestone_kinds import WORKFLOW_PAUSED, WORKFLOW_RESUMED

_log = logging.getLogger(__name__)


class Client(AnswerConnection, RunConnection):
    """A deployment seen from outside. Needs only the transport: no store, no engine. Belongs to one thread."""

    # --- topics and programs ------------------------------------------------------------------------------------

    def plan_topics(self, programs: Iterable[CompiledProgram] = ()) -> list[TopicPlan]:
        """Return what would have to be created for these programs, and what differs.

        Warns where the cluster has too few brokers for the usual three copies of a topic to create. Raises
        TooFewBrokers where more copies are asked for than it has brokers, and TooManyPartitions where topics to create
        would exceed `topics.max_partitions`.
        """
        facets, admin = _event_facets(programs), self._transport.admin()
        brokers = admin.broker_count()
        plans = self.topology.plan(facets, admin.topics(self.topology.names(facets)), brokers)
        require_budget(self.topology.config, admin, plans)
        if brokers is not None and (warning := few_copies(plans, brokers)):
            _log.warning("%s", warning)
        return plans

    def apply_topics(
        self,
        programs: Iterable[CompiledProgram] = (),
        *,
        on_failure: Callable[[TopicPlan, TransportError], None] | None = None,
    ) -> list[TopicPlan]:
        """Create the topics that are missing, and return the plan that this followed. Changes no existing topic.

        A topic that cannot be created does not stop the others: `on_failure` is called for each. Without it the first
        failure is raised after all were tried. Some errors end the call at once: BrokerUnavailable and
        AuthenticationFailed when the cluster does not answer, and TooFewBrokers when it has fewer brokers than replicas
        are asked for.
        """
        plans = self.plan_topics(programs)
        create_missing(self._transport.admin(), plans, on_failure)
        return plans

    def deploy(self, program: CompiledProgram) -> None:
        """Publish a compiled program. Raises TopicMissing when one of its facets has no topic yet."""
        admin, existing = self._transport.admin(), self._transport.admin().topic_names()
        for facet in program.event_facets():
            topic = self.topology.facet(facet.qualified_name)
            if topic not in existing and self.topology.carries(facet.qualified_name):
                raise not_listed(admin, topic, f"event facet {facet.qualified_name}", "--role operator")
        self._schemas.announce_shipped()
        self.definitions.ask_again()
        deploy(program, self._producer, self._codec, self.topology.definitions(), timeout_s=self._timeout_s)

    # --- pauses -------------------------------------------------------------------------------------------------

    def pause(
        self,
        *,
        facet: str | None = None,
        workflow_id: str | None = None,
        everything: bool = False,
        reason: str | None = None,
    ) -> bool:
        """Pause a facet, a workflow, or everything, until `resume`; return False where it was paused already.

        Evaluators and agents follow within a second or two, and after restarts; none of them has to be there now. Of a
        paused facet no event is published or started, of a paused workflow no further step; what is at work ends, and
        answers are kept. Raises PauseTargetNeeded, IdRefused and SchemaUnavailable.
        """
        is_new = put_pause(
            self.definitions,
            facet=facet,
            workflow_id=workflow_id,
            everything=everything,
            is_paused=True,
            reason=reason,
        )
        if is_new and workflow_id is not None:
            self._tell(workflow_id, WORKFLOW_PAUSED, None if reason is None else {"reason": reason})
        return is_new

    def resume(self, *, facet: str | None = None, workflow_id: str | None = None, everything: bool = False) -> bool:
        """End a pause; return False where there was none. Each pause ends by itself: that of all leaves the others.

        Raises as `pause`.
        """
        was_paused = put_pause(
            self.definitions, facet=facet, workflow_id=workflow_id, everything=everything, is_paused=False
        )
        if was_paused and workflow_id is not None:
            self._tell(workflow_id, WORKFLOW_RESUMED)
        return was_paused

    def _tell(self, workflow_id: str, kind: str, outputs: Mapping[str, object] | None = None) -> None:
        """Tell subscribers of a run's milestone that no evaluator makes."""
        milestone = Lifecycle(workflow_id=workflow_id, kind=kind, at=epoch_ms(), outputs=outputs)
        self._send(self.topology.lifecycle(), workflow_id, milestone)

    def pauses(self) -> list[Pause]:
        """Return the pauses that hold now, that of everything first. Raises SchemaUnavailable."""
        return pauses_now(self.definitions)

    # --- commands and answers -----------------------------------------------------------------------------------

    def start(
        self,
        workflow: str,
        inputs: Mapping[str, object] | None = None,
        *,
        workflow_id: str | None = None,
        program: str | None = None,
        requested_by: str | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
        if_exists: IfExists | str | None = None,
    ) -> str:
        """Ask for a workflow to be started, and return its id; without `workflow_id` a new id is generated.

        The same id, program and inputs again start nothing new, and others are refused. With `if_exists` "use" the run
        that has the id is the one, whatever version and inputs it was started with; with "refuse" no run that exists
        is. With `answer_timeout_s` it waits until an evaluator has
        read the command. The evaluator's answer is the milestone with the same `command_id`.

        Raises IdRefused, UnknownProgram with near names, and BrokerUnavailable when the command was not acknowledged.
        When it waits, also RefusedByEvaluator (`reason.type` is AlreadyExists for an id that another run has), and
        NotAnswered when no evaluator has answered in time: the command stays on its topic.
        """
        # A start without a wait needs no answer.
        command_id = command_id or (None if answer_timeout_s is None else drawn_id())
        command = self._start_command(workflow, inputs, workflow_id, program, requested_by, command_id)
        self._give(command, answer_timeout_s, _headers_of(if_exists))
        return command.workflow_id

    def ask_to_start(
        self,
        workflow: str,
        inputs: Mapping[str, object] | None = None,
        *,
        workflow_id: str | None = None,
        program: str | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
        if_exists: IfExists | str | None = None,
    ) -> Lifecycle | None:
        """Ask for a workflow to be started as `start` does, and return the evaluator's answer if it waits for one.

        The answer's `kind` is `command.repeated` if the run existed before. Raises as `start`.
        """
        command_id = command_id or (None if answer_timeout_s is None else drawn_id())
        command = self._start_command(workflow, inputs, workflow_id, program, None, command_id)
        return self._give(command, answer_timeout_s, _headers_of(if_exists))

    def start_many(
        self,
        starts: Iterable[StartRequest],
        *,
        requested_by: str | None = None,
        check: StartCheck | None = None,
        if_exists: IfExists | str | None = None,
    ) -> list[str]:
        """Ask for many workflows to be started, with one flush for each thousand, and return their ids in order.

        Each start is like one of `start`: the same id, program and inputs again start nothing new, so that a call that
        was cut short is repeated with the same ids. Starts that can be gone through twice, such as those of a list,
        are all checked before one is sent. An iterator may be of any length: it is checked and sent in lots. `check`
        gets program, workflow and inputs of each start, and raises an AFLError for what it refuses.

        `if_exists` is as in `start`, for all of them.

        Raises StartRefused, which names the start and has the error that `start` would raise as its `reason`, and
        StartsNotSent when starts were not acknowledged; SchemaUnavailable where the definitions cannot be read.
        """
        lots = self.start_in_lots(starts, requested_by=requested_by, check=check, if_exists=if_exists)
        return [workflow_id for lot in lots for workflow_id in lot]

    def start_in_lots(
        self,
        starts: Iterable[StartRequest],
        *,
        requested_by: str | None = None,
        check: StartCheck | None = None,
        if_exists: IfExists | str | None = None,
    ) -> Iterator[list[str]]:
        """Start as `start_many` does, and yield the ids of each lot when it is acknowledged, before the next one."""
        bulk = BulkStarts(
            self.definitions,
            StartRoute(self._codec, self._producer, self.topology.commands(), self._timeout_s),
            requested_by=requested_by,
            check=check,
            sensitive=self._sensitive,
            tracing=self._tracing,
            headers=_headers_of(if_exists),
        )
        return bulk.send(starts)

    def _start_command(
        self,
        workflow: str,
        inputs: Mapping[str, object] | None,
        workflow_id: str | None,
        program: str | None,
        requested_by: str | None,
        command_id: str | None,
    ) -> StartWorkflow:
        found, name = self.definitions.find(workflow, program, known_for_s=self._names_known_s)
        now_ms = epoch_ms()
        return StartWorkflow(
            workflow_id=check_workflow_id(workflow_id) if workflow_id is not None else time_ordered_id(now_ms),
            workflow=name,
            program=found.fingerprint,
            inputs=dict(inputs or {}),
            requested_by=requested_by,
            created_at=now_ms,
            command_id=command_id,
        )

    def wait(self, workflow_id: str, *, timeout_s: float) -> Lifecycle:
        """Wait for the end of a run, and return it as a milestone.

        Its `kind` is `workflow.completed`, with the `outputs`; `workflow.error`, with the `error`; or
        `workflow.cancelled`. A run that has ended already ends the wait at once; outputs and error are None where the
        lifecycle topic has dropped its end. Raises IdRefused, RefusedByEvaluator for a run that does not exist, and
        NotInTime: nothing was cancelled then.
        """
        deadline_s = time.monotonic() + timeout_s
        with closing(self.milestones(workflow_id)) as milestones:
            try:
                answer = self.describe(workflow_id, answer_timeout_s=timeout_s)
            except NotAnswered as error:
                raise NotEnded(workflow_id, timeout_s) from error
            if answer.status not in ENDS_BY_STATUS:
                return next_end(milestones, workflow_id, timeout_s, deadline_s)
        return past_end(self, answer, deadline_s)

    # --- external events ------------------------------------------------------------------------

    def raise_event(
        self,
        workflow_id: str,
        name: str,
        data: object = None,
        *,
        id: str | None = None,
        command_id: str | None = None,
        wait: bool = False,
        timeout_s: float = 10.0,
    ) -> EventReceipt:
        """Raise an external event, which a step of the workflow may wait for by its name, now or later.

        The workflow need not exist yet. The same `id` counts once; without one a new id is drawn, so that each call is
        an event of its own. With `wait` it waits until an evaluator has read the event, and the receipt has its
        `outcome`. The evaluator's answer is the milestone with the `command_id`, which is generated where it is needed
        and not given.

        Raises IdRefused, ValueRefused for data that is no AFL value, EventTooLarge, TopicMissing, and BrokerUnavailable
        when the event was not acknowledged; when it waits, NotAnswered after `timeout_s`: the event stays on its topic.
        """
        event = event_to_raise(workflow_id, name, data, drawn_id() if id is None else id, epoch_ms())
        topic, receipt = self.topology.external(), receipt_of(event)
        about = f"event {name} of {workflow_id}"
        try:
            answer = self._ask(topic, workflow_id, event, command_id, timeout_s if wait else None, about=about)
        except NotAnswered:
            raise NotAnswered(about, timeout_s, when_unanswered(receipt.id)) from None
        return receipt if answer is None else receipt.answered(answer)


def _headers_of(if_exists: IfExists | str | None) -> Headers:
    """Return the header of a start about a run that exists. Raises ValueError for what is none of `IfExists`."""
    return () if if_exists is None else IfExists(if_exists).headers()


def _event_facets(programs: Iterable[CompiledProgram]) -> list[str]:
    return sorted({facet.qualified_name for program in programs for facet in program.event_facets()})
