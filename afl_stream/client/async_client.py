"""The client for asyncio programs: all that `Client` does, awaited."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from afl.compiled.program import CompiledProgram
from afl_stream.client.async_connection import within
from afl_stream.client.async_schedules import AsyncScheduleConnection
from afl_stream.client.bulk_starts import StartCheck, StartRequest
from afl_stream.client.connection import about_command, drawn_id
from afl_stream.client.ends import ENDS_BY_STATUS, NotEnded, past_end
from afl_stream.client.external_events import EventReceipt, when_unanswered
from afl_stream.client.milestones import NotAnswered
from afl_stream.topics.declared import TopicPlan
from afl_stream.transport import TransportError
from afl_stream.wire.headers import IfExists
from afl_stream.wire.messages import DescribeWorkflow, Lifecycle, Pause, check_workflow_id


class AsyncClient(AsyncScheduleConnection):
    """A deployment seen from an event loop. Each method is that of `Client` of the same name, awaited.

    A `Client` in a thread of its own sends one command after another; answers and ends of runs are read by one task
    for all that wait, so that thousands of coroutines may wait at once. The loop is never held up.

    Cancelling a method is safe at any time. What has not been sent is not sent; a command that was being sent may have
    been, so repeat it with the same `workflow_id`, `command_id` or `id`: it counts once. A wait that is cancelled ends
    at once, and cancels nothing of the run.

    Belongs to the event loop on which it was opened. Callbacks (`on_failure`, `check`, iterators of starts) are called
    in the client's thread.
    """

    # --- topics and programs ------------------------------------------------------------------------------------

    async def plan_topics(self, programs: Iterable[CompiledProgram] = ()) -> list[TopicPlan]:
        """Return what would have to be created for these programs; see `Client.plan_topics`."""
        return await self._call(lambda client: client.plan_topics(programs))

    async def apply_topics(
        self,
        programs: Iterable[CompiledProgram] = (),
        *,
        on_failure: Callable[[TopicPlan, TransportError], None] | None = None,
    ) -> list[TopicPlan]:
        """Create the topics that are missing; see `Client.apply_topics`."""
        return await self._call(lambda client: client.apply_topics(programs, on_failure=on_failure))

    async def deploy(self, program: CompiledProgram) -> None:
        """Publish a compiled program; see `Client.deploy`."""
        await self._call(lambda client: client.deploy(program))

    async def require_topics(self, *purposes: str) -> None:
        """Raise TopicMissing when a topic for these does not exist; see `Client.require_topics`."""
        await self._call(lambda client: client.require_topics(*purposes))

    # --- pauses -------------------------------------------------------------------------------------------------

    async def pause(
        self,
        *,
        facet: str | None = None,
        workflow_id: str | None = None,
        everything: bool = False,
        reason: str | None = None,
    ) -> bool:
        """Pause a facet, a workflow, or everything; see `Client.pause`."""
        return await self._call(
            lambda client: client.pause(facet=facet, workflow_id=workflow_id, everything=everything, reason=reason)
        )

    async def resume(
        self, *, facet: str | None = None, workflow_id: str | None = None, everything: bool = False
    ) -> bool:
        """End a pause; see `Client.resume`."""
        return await self._call(
            lambda client: client.resume(facet=facet, workflow_id=workflow_id, everything=everything)
        )

    async def pauses(self) -> list[Pause]:
        """Return the pauses that hold now; see `Client.pauses`."""
        return await self._call(lambda client: client.pauses())

    # --- runs ---------------------------------------------------------------------------------------------------

    async def start(
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
        """Ask for a workflow to be started, and return its id; see `Client.start`."""
        workflow_id = drawn_id() if workflow_id is None else workflow_id

        return await self._sent(
            lambda client, sent: client.start(
                workflow,
                inputs,
                workflow_id=workflow_id,
                program=program,
                requested_by=requested_by,
                command_id=sent,
                if_exists=if_exists,
            ),
            command_id,
            answer_timeout_s,
            f"StartWorkflow of {workflow_id}",
        )

    async def ask_to_start(
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
        """Ask for a workflow to be started, and return the evaluator's answer; see `Client.ask_to_start`."""
        workflow_id = drawn_id() if workflow_id is None else workflow_id

        return await self._answered(
            lambda client, sent: client.start(
                workflow, inputs, workflow_id=workflow_id, program=program, command_id=sent, if_exists=if_exists
            ),
            command_id,
            answer_timeout_s,
            f"StartWorkflow of {workflow_id}",
        )

    async def start_many(
        self,
        starts: Iterable[StartRequest],
        *,
        requested_by: str | None = None,
        check: StartCheck | None = None,
        if_exists: IfExists | str | None = None,
    ) -> list[str]:
        """Ask for many workflows to be started, and return their ids in order; see `Client.start_many`."""
        return await self._call(
            lambda client: client.start_many(starts, requested_by=requested_by, check=check, if_exists=if_exists)
        )

    async def start_in_lots(
        self,
        starts: Iterable[StartRequest],
        *,
        requested_by: str | None = None,
        check: StartCheck | None = None,
        if_exists: IfExists | str | None = None,
    ) -> AsyncIterator[list[str]]:
        """Start as `start_many` does, and yield the ids of each lot when it is acknowledged."""
        lots = await self._call(
            lambda client: client.start_in_lots(starts, requested_by=requested_by, check=check, if_exists=if_exists)
        )
        while (lot := await self._call(lambda _: next(lots, None))) is not None:
            yield lot

    async def wait(self, workflow_id: str, *, timeout_s: float) -> Lifecycle:
        """Wait for the end of a run, and return it as a milestone; see `Client.wait`."""
        deadline_s = time.monotonic() + timeout_s
        async with self._answers.end_of(check_workflow_id(workflow_id)) as end:
            try:
                answer = await self.describe(workflow_id, answer_timeout_s=timeout_s)
                if answer.status not in ENDS_BY_STATUS:
                    return await within(end, deadline_s)
            except (NotAnswered, TimeoutError) as error:
                raise NotEnded(workflow_id, timeout_s) from error
        return await self._call(lambda client: past_end(client, answer, deadline_s))

    async def describe(self, workflow_id: str, *, answer_timeout_s: float) -> Lifecycle:
        """Ask the evaluators for the state of a workflow; see `Client.describe`."""
        command_id = drawn_id()
        command = DescribeWorkflow(workflow_id=check_workflow_id(workflow_id), command_id=command_id)

        answer = await self._answered(
            lambda client, _: client._give(command, None), command_id, answer_timeout_s, about_command(command)
        )
        assert answer is not None
        return answer

    async def cancel(
        self,
        workflow_id: str,
        reason: str = "",
        *,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to be cancelled, and return the command's id; see `Client.cancel`."""
        return await self._sent(
            lambda client, sent: client.cancel(workflow_id, reason, command_id=sent),
            command_id,
            answer_timeout_s,
            f"CancelWorkflow of {workflow_id}",
        )

    async def retry(
        self,
        workflow_id: str,
        step_id: str | None = None,
        *,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for what has failed to be retried, and return the command's id; see `Client.retry`."""
        return await self._sent(
            lambda client, sent: client.retry(workflow_id, step_id, reason=reason, command_id=sent),
            command_id,
            answer_timeout_s,
            f"RetryStep of {workflow_id}",
        )

    async def rerun(
        self, step_id: str, *, reason: str = "", command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> str:
        """Ask for a step to be run again, and return the command's id; see `Client.rerun`."""
        return await self._sent(
            lambda client, sent: client.rerun(step_id, reason=reason, command_id=sent),
            command_id,
            answer_timeout_s,
            f"RerunStep of {step_id}",
        )

    async def reset(
        self,
        workflow_id: str,
        *,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to be run again from its start; see `Client.reset`."""
        return await self._sent(
            lambda client, sent: client.reset(workflow_id, reason=reason, command_id=sent),
            command_id,
            answer_timeout_s,
            f"ResetWorkflow of {workflow_id}",
        )

    async def continue_as_new(
        self,
        workflow_id: str,
        inputs: Mapping[str, object] | None = None,
        *,
        program: str | None = None,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to continue as its next execution; see `Client.continue_as_new`."""
        return await self._sent(
            lambda client, sent: client.continue_as_new(
                workflow_id, inputs, program=program, reason=reason, command_id=sent
            ),
            command_id,
            answer_timeout_s,
            f"ContinueAsNew of {workflow_id}",
        )

    async def migrate(
        self,
        workflow_id: str,
        program: str,
        *,
        reason: str = "",
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> str:
        """Ask for a workflow to continue by another version of its program; see `Client.migrate`."""
        return await self._sent(
            lambda client, sent: client.migrate(workflow_id, program, reason=reason, command_id=sent),
            command_id,
            answer_timeout_s,
            f"MigrateWorkflow of {workflow_id}",
        )

    # --- answers and events -------------------------------------------------------------------------------------

    async def continue_step(
        self,
        step_id: str,
        result: Mapping[str, object],
        *,
        attempt: int | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> Lifecycle | None:
        """Answer a step's event with a result; see `Client.continue_step`."""
        return await self._answered(
            lambda client, sent: client.continue_step(step_id, result, attempt=attempt, command_id=sent),
            command_id,
            answer_timeout_s,
            f"the answer of step {step_id}",
        )

    async def fail_step(
        self,
        step_id: str,
        message: str,
        error_type: str = "Failed",
        *,
        attempt: int | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> Lifecycle | None:
        """Answer a step's event with a failure; see `Client.fail_step`."""
        return await self._answered(
            lambda client, sent: client.fail_step(step_id, message, error_type, attempt=attempt, command_id=sent),
            command_id,
            answer_timeout_s,
            f"the answer of step {step_id}",
        )

    async def raise_event(
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
        """Raise an external event; see `Client.raise_event`."""
        event_id = drawn_id() if id is None else id

        about = f"event {name} of {workflow_id}"
        try:
            receipt, answer = await self._give(
                lambda client, sent: client.raise_event(workflow_id, name, data, id=event_id, command_id=sent),
                command_id,
                timeout_s if wait else None,
                about,
            )
        except NotAnswered:
            raise NotAnswered(about, timeout_s, when_unanswered(event_id)) from None
        return receipt if answer is None else receipt.answered(answer)
