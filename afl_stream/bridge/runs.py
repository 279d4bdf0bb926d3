"""A whole event-driven workflow as the agent of an event facet."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from afl.core.handlers.calling import Deferred
from afl.core.handlers.context import HandlerContext
from afl_stream.bridge.arrivals import Arrival
from afl_stream.bridge.cancelling import unless_cancelled
from afl_stream.bridge.errors import RequestUnknown
from afl_stream.bridge.payloads import FromPayload, data_of
from afl_stream.bridge.resources import BridgeResources, OneAtATime
from afl_stream.bridge.retrying import PASSING, is_elsewhere
from afl_stream.bridge.standings import Standing, WorkflowResults, result_of_outputs, standing_of
from afl_stream.bridge.steps import AnsweredStep
from afl_stream.pubsub import EventDrivenWorkflow, InvokeContext
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.store import RequestKey, StoredRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowAgent:
    """Answers the events of a facet by requests to a workflow: one request for each event, with the event's id.

    In this order:
      1. the agent has read the AFL event,
      2. the request runs, from where its stored events end, until nothing can go on,        (bridge.run)
      3. its open questions are published, where a topic is declared for them,               (bridge.asked)
      4. the agent answers with the result, or, when questions are open, leaves the step waiting; it commits the event.

    The reply to a question goes this way:
      5. it is read,
      6. it is given to the request, which runs on, as in 2 and 3,
      7. the step is answered, unless there is another question,                             (bridge.answered)
      8. the reply's offset moves.

    A crash before 4 runs the request again: nodes that had finished do not run, and the questions have the ids that
    they had. A crash before 8 gives the reply again: its id is known, and the step has its answer.
    """

    facet: str
    workflow: EventDrivenWorkflow
    input: FromPayload | None
    results: WorkflowResults
    #: The topic's name on the cluster; None: nobody is told.
    questions: str | None
    resources: BridgeResources
    turns: OneAtATime

    async def __call__(self, payload: dict[str, Any], context: HandlerContext) -> Mapping[str, object] | Deferred:
        """Run the request on the bridge's event loop; return its result, or Deferred when it asks somebody."""
        return await unless_cancelled(self.resources.loop.run(self._answer(payload, context)), context)

    async def _answer(self, payload: dict[str, Any], context: HandlerContext) -> Mapping[str, object] | Deferred:
        step = AnsweredStep.of(context)
        data = data_of(self.facet, payload, self.input)
        turn = self.turns.of(step.event_id)
        async with turn:
            standing = await self._run(step.context(step.event_id, step.event_id), data)
            if await self._asks(step, standing):
                return Deferred()
            return self._result(step, standing)

    async def _run(self, context: InvokeContext, given: object) -> Standing:
        async with aclosing(self.workflow.invoke(context, given)) as outputs:
            async for _ in outputs:
                # What it has yielded before a crash is in the store only, and so is the rest.
                pass
        stored = await self._stored(context.assistant_request_id)
        assert stored is not None
        self.resources.probe("bridge.run")
        return standing_of(self.workflow, stored)

    async def _stored(self, request_id: str) -> StoredRequest | None:
        return await self.workflow.event_store.request(RequestKey(self.workflow.name, request_id))

    async def _asks(self, step: AnsweredStep, standing: Standing) -> bool:
        """Publish the open questions, and return whether there are any."""
        if not standing.questions:
            return False
        if self.questions is not None:
            for question, reply_to in standing.questions:
                asked = {
                    "request_id": step.event_id,
                    "workflow": self.workflow.name,
                    "topic": question.name,
                    "reply_to": reply_to,
                    "question": question.data,
                    "afl_workflow_id": step.workflow_id,
                }
                headers = (("ce_id", question.event_id.encode()),)
                await self.resources.publisher.publish_and_wait(
                    self.questions, asked, key=step.event_id, headers=headers
                )
        self.resources.counters.add("deferred")
        self.resources.probe("bridge.asked")
        return True

    def _result(self, step: AnsweredStep, standing: Standing) -> dict[str, object]:
        return result_of_outputs(self.facet, self.workflow.name, standing.outputs, self.results, step.returns)

    async def reply(self, request_id: str, reply: object, reply_id: str) -> bool:
        """Give a reply to a request, and answer its step when it has ended; return whether it was answered.

        The same `reply_id` again gives nothing: what was unfinished goes on, and the answer is sent again. A reply that
        no question waits for gives nothing either. Raises RequestUnknown, AmbiguousAnswer, NoOpenQuestion and
        InputRefused.
        """
        turn = self.turns.of(request_id)
        async with turn:
            stored = await self._stored(request_id)
            step = None if stored is None else AnsweredStep.kept_in(stored.context)
            if stored is None or step is None or step.facet != self.facet:
                raise RequestUnknown(self.workflow.name, request_id)
            is_asking = bool(standing_of(self.workflow, stored).questions)
            if not is_asking:
                self.resources.counters.add("skipped")
            try:
                standing = await self._run(step.context(request_id, reply_id), reply if is_asking else None)
                if await self._asks(step, standing):
                    return False
            except NodeFailed as error:
                await step.fail_with(error, self.resources)
                return True
            await self._answer_step(step, standing)
            return True

    async def _answer_step(self, step: AnsweredStep, standing: Standing) -> None:
        """Answer with the result; with a failure when the output makes none, or one that no record can hold."""
        try:
            await step.continue_with(self._result(step, standing), self.resources)
        except Exception as error:
            if isinstance(error, PASSING) or is_elsewhere(error):
                raise
            # The reply is no dead letter: the step would wait for ever, and the output stays what it is.
            await step.fail_with(error, self.resources)

    async def take_reply(self, arrival: Arrival) -> None:
        """Give the data of a record to the request that is the record's key."""
        await self.reply(arrival.key, arrival.data, arrival.id)
        self.resources.counters.add("replies")
