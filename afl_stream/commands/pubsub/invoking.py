"""The command `pubsub invoke`: a request to a workflow, in this process or to workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import click

from afl.core.clock import epoch_ms
from afl.core.ids import time_ordered_id
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, NothingThere, open_transport
from afl_stream.commands.pubsub.next_steps import NextSteps, questioned_topics
from afl_stream.commands.pubsub.workflows import load_workflow, workflow_argument
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.terminal import Terminal, value_text
from afl_stream.exit_codes import ExitCode
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.hosting.failures import RequestFailed, RequestNotAnswered

if TYPE_CHECKING:
    from afl_stream.pubsub.event_stores.store import RequestStatus, StoredRequest
    from afl_stream.pubsub.model.definition import WorkflowDefinition
    from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
    from afl_stream.transport import Transport


class Reached(NamedTuple):
    """How a request stood when its output had been shown, and on which topics its questions wait for answers."""

    status: RequestStatus | None
    questions: tuple[str, ...] = ()
    #: Whether it waited, and has gone on since: what that led to was not shown.
    has_gone_on: bool = False


class _Call(NamedTuple):
    """What a client tells the workers beside the input."""

    topic: str | None = None
    invoke_id: str = ""
    #: Ids of the output that was there before, where only what follows is wanted.
    before: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class InvokeOptions:
    """What `pubsub invoke` was given, beside the workflow, and what it has come to.

    `is_known`: the request's id was given, not made.
    """

    request_id: str
    is_known: bool
    data: object
    topic: str | None
    timeout_s: float | None
    #: The output, for a JSON document; and whether there was any.
    outputs: list[dict[str, object]] = field(default_factory=list)
    has_output: bool = False
    #: Whether the request is stored or on its way, so that it can be gone on with.
    has_begun: bool = False


@click.command("invoke")
@workflow_argument
@click.argument("given", metavar="[INPUT]", required=False)
@click.option("--request", "request_id", metavar="ID", help="The request's id; the same id again goes on with it.")
@click.option("--topic", metavar="NAME", help="The topic that INPUT answers on, where several questions are open.")
@click.option("--remote", is_flag=True, help="Ask the workers of `pubsub run`, on a cluster or on the embedded log.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Longest wait for the end of the request, or for its next question.",
)
@common
def invoke_command(
    invocation: Invocation,
    workflow: str,
    given: str | None,
    request_id: str | None,
    topic: str | None,
    remote: bool,
    timeout_s: float | None,
) -> ExitCode:
    """Send a request with INPUT, as JSON, and show its output as it comes; @FILE or - reads INPUT.

    Without --remote the nodes run in this process, on a cluster too. The events of the request are stored: the same
    --request goes on where it stands, without INPUT with what is unfinished or has failed, and with INPUT as the answer
    to its question, or as its next input. Ends with 1 when the request has failed, or waits for an answer.

    \b
    Examples:
      afl-stream pubsub invoke shop.flow:review '{"order": 17}'
      afl-stream pubsub invoke shop.flow:review '"a text has quotes of its own"' --request r1
      afl-stream pubsub invoke shop.flow:review '{"approved": true}' --request r1
      afl-stream pubsub invoke shop.flow:review @order.json --remote --timeout 60
    """
    from afl_stream.commands.inputs import json_value

    if given is None and request_id is None:
        raise click.UsageError("give INPUT, or --request ID of a request that is to go on")
    if topic is not None and given is None:
        raise click.UsageError("--topic goes with INPUT, which is the answer")
    remedy = "; a text has quotes of its own: '\"...\"'"
    data = None if given is None else json_value(given, "INPUT", remedy=remedy)
    if given is not None and data is None:
        raise CommandRefused("INPUT: null is no input; leave it out to go on with a request")
    loaded = load_workflow(workflow)
    if topic is not None:
        known = [each.name for each in loaded.definition.in_workflow_input_topics]
        if topic not in known:
            raise CommandRefused(
                f"--topic {topic}: workflow {loaded.name} takes answers on {', '.join(known) or 'no topic'}"
            )
    options = InvokeOptions(
        request_id=request_id or time_ordered_id(epoch_ms()),
        is_known=request_id is not None,
        data=data,
        topic=topic,
        timeout_s=timeout_s,
    )
    if remote:
        _require_workers(invocation, workflow)
    send = _through_workers if remote else _here
    steps = NextSteps(invocation=invocation, workflow=workflow, request_id=options.request_id, is_remote=remote)
    try:
        reached = asyncio.run(send(invocation, loaded, options))
    except (NodeFailed, RequestFailed) as error:
        return _ended(invocation, error, steps.after_failure())
    except (RequestNotAnswered, KeyboardInterrupt) as error:
        return _ended(invocation, error, steps.after_interruption() if options.has_begun else [])
    return _report(invocation, options, reached, steps)


async def _here(invocation: Invocation, workflow: EventDrivenWorkflow, options: InvokeOptions) -> Reached:
    """Run the request in this process, and return how it stands then."""
    from afl_stream.commands.pubsub.stores import described_event_store, opened_event_store
    from afl_stream.pubsub.event_stores.store import RequestKey
    from afl_stream.pubsub.model.context import InvokeContext

    config, terminal = invocation.settings(), invocation.terminal()
    async with opened_event_store(config, workflow, create=True) as store:
        where = ", in this process" if config.is_kafka else ""
        stored_at = described_event_store(config, workflow)
        terminal.remark(f"request {options.request_id} to {workflow.name}{where}; {stored_at}")
        runner = type(workflow)(workflow.definition, event_store=store)
        options.has_begun = True
        data = options.data if options.topic is None else {options.topic: options.data}
        context = InvokeContext(assistant_request_id=options.request_id)
        try:
            async with asyncio.timeout(options.timeout_s), aclosing(runner.invoke(context, data)) as events:
                async for event in events:
                    _show(terminal, options, event.name, event.data)
        except TimeoutError:
            if options.timeout_s is None:
                raise
            raise RequestNotAnswered(workflow.name, options.request_id, options.timeout_s) from None
        stored = await store.request(RequestKey(workflow.name, options.request_id))
    if stored is None:
        return Reached(None)
    return Reached(stored.status, tuple(questioned_topics(workflow.definition, stored)))


def _require_workers(invocation: Invocation, workflow: str) -> None:
    """Refuse a request to workers where none can run: the embedded log has no holder that lets this command in."""
    if not invocation.is_shared():
        worker = invocation.command_line("pubsub", "run", workflow)
        raise CommandRefused(
            f"--remote asks workers, and no process serves the embedded log {invocation.settings().log_path}; run one "
            f"beside this: {worker}; or name a cluster with --bootstrap HOST:PORT or kafka.bootstrap"
        )


async def _through_workers(invocation: Invocation, workflow: EventDrivenWorkflow, options: InvokeOptions) -> Reached:
    """Send the request to the workers, and return how it stands when they are done."""
    from afl_stream.pubsub.event_stores.store import RequestStatus
    from afl_stream.pubsub.hosting.client import WorkflowClient
    from afl_stream.pubsub.hosting.config import WorkerConfig
    from afl_stream.pubsub.model.context import InvokeContext

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport:
        call = await _call_to_workers(invocation, workflow, options, transport)
        async with WorkflowClient(workflow, transport, WorkerConfig(stream=config)) as client:
            terminal.remark(f"request {options.request_id} to {workflow.name}, to its workers")
            options.has_begun = True
            context = InvokeContext(assistant_request_id=options.request_id, invoke_id=call.invoke_id)
            events = client.invoke(context, options.data, topic=call.topic, timeout_s=options.timeout_s)
            async with aclosing(events):
                async for event in events:
                    if event.event_id not in call.before:
                        _show(terminal, options, event.name, event.data)
            if events.status is not RequestStatus.WAITING:
                return Reached(events.status)
        return reached_waiting(workflow.definition, await _stored(invocation, workflow, options, transport))


async def _call_to_workers(
    invocation: Invocation, workflow: EventDrivenWorkflow, options: InvokeOptions, transport: Transport
) -> _Call:
    """Return what INPUT is to a request that is stored: its input again, the answer to its question, or a next input.

    So it is the same as without --remote. Workers take what they are told.
    """
    from afl_stream.pubsub.event_stores.store import RequestStatus

    if options.data is None or options.topic is not None or not options.is_known:
        return _Call(topic=options.topic)
    stored = await _stored(invocation, workflow, options, transport)
    if stored is None:
        return _Call()
    topics = questioned_topics(workflow.definition, stored)
    answers = {topic.name for topic in workflow.definition.in_workflow_input_topics}
    names_them = isinstance(options.data, dict) and options.data and set(options.data) <= answers
    if names_them:
        return _Call()
    if not topics and stored.status is RequestStatus.FINISHED:
        before = frozenset(event.event_id for event in stored.events)
        return _Call(invoke_id=time_ordered_id(epoch_ms()), before=before)
    if not topics:
        return _Call()
    if len(topics) > 1:
        raise CommandRefused(
            f"request {options.request_id}: questions are open for {' and '.join(topics)}; name one with --topic"
        )
    return _Call(topic=topics[0])


async def _stored(
    invocation: Invocation, workflow: EventDrivenWorkflow, options: InvokeOptions, transport: Transport
) -> StoredRequest | None:
    """Return the request as the store of the workers has it; None also where that is not to be reached from here."""
    from afl_stream.commands.pubsub.stores import opened_event_store
    from afl_stream.pubsub.event_stores.store import RequestKey

    try:
        async with opened_event_store(invocation.settings(), workflow, transport=transport) as store:
            return await store.request(RequestKey(workflow.name, options.request_id))
    except NothingThere:
        return None


def reached_waiting(definition: WorkflowDefinition, stored: StoredRequest | None) -> Reached:
    """Return how a request stands whose workers said that it waits; `stored`: what the store says of it after that.

    Others than this caller may have published meanwhile, and even the end of the request may be stored. Its output up
    to the wait is what was shown. One that stands as running may as well wait: workers tell it before they store it.
    """
    from afl_stream.pubsub.event_stores.store import RequestStatus

    if stored is None:
        return Reached(RequestStatus.WAITING)
    if stored.status in (RequestStatus.FINISHED, RequestStatus.FAILED):
        return Reached(RequestStatus.WAITING, has_gone_on=True)
    return Reached(RequestStatus.WAITING, tuple(questioned_topics(definition, stored)))


def _show(terminal: Terminal, options: InvokeOptions, topic: str, data: object) -> None:
    options.has_output = True
    if terminal.as_json:
        options.outputs.append({"topic": topic, "data": data})
    else:
        terminal.line(f"{topic}: {value_text(data)}")


def _report(invocation: Invocation, options: InvokeOptions, reached: Reached, steps: NextSteps) -> ExitCode:
    from afl_stream.pubsub.event_stores.store import RequestStatus

    terminal, status = invocation.terminal(), reached.status
    if terminal.as_json:
        terminal.document(
            {
                "request": options.request_id,
                "status": None if status is None else status.value,
                "outputs": options.outputs,
            }
        )
    if status is RequestStatus.FINISHED:
        silent = "" if options.has_output else f", and had no output for this call; its events: {steps.showing()}"
        terminal.remark(f"request {options.request_id} is finished{silent}")
        return ExitCode.OK
    for line in [steps.after_wait()] if reached.has_gone_on else steps.while_waiting(reached.questions):
        terminal.remark(line)
    return ExitCode.WORK_LEFT


def _ended(invocation: Invocation, error: BaseException, remarks: Sequence[str]) -> ExitCode:
    """Tell what ended the request or this command, and what can be done."""
    from afl_stream.commands.failures import report

    code, terminal = report(error, invocation), invocation.terminal()
    for line in remarks:
        terminal.remark(line)
    return code
