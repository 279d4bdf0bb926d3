"""The command `start`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from afl.core.clock import epoch_ms
from afl.core.errors import AFLError
from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import (
    allow_scripts_option,
    common,
    find_modules_here,
    handlers_option,
    if_exists_option,
    inputs_document_option,
    inputs_option,
    timeout_option,
    workflow_id_option,
)
from afl_stream.commands.completing.values import workflow_names
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.sensitive.shown import shown_ending
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl.engine.model.plan import WorkflowPlan
    from afl.engine.model.store import WorkflowRow
    from afl.engine.types import Value
    from afl_stream.client.client import Client
    from afl_stream.evaluator.runs import Ending
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport
    from afl_stream.wire.headers import IfExists
    from afl_stream.wire.messages import Lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options of `start`."""

    workflow: str
    inputs: Sequence[str] = ()
    inputs_document: str | None = None
    workflow_id: str | None = None
    wait: bool = False
    timeout_s: float | None = None
    handlers: Sequence[str] = ()
    if_exists: IfExists | None = None


@click.command("start")
@click.argument("workflow", required=False, shell_complete=workflow_names)
@click.option(
    "--many", metavar="FILE", help="Start all runs of this file, one JSON object a line; - reads standard input."
)
@inputs_option
@inputs_document_option
@workflow_id_option
@if_exists_option
@click.option("--wait", is_flag=True, help="Wait for the run's end and show its outputs.")
@timeout_option
@handlers_option
@allow_scripts_option
@common
def start_command(invocation: Invocation, **given: Any) -> ExitCode:
    """Start a run of a deployed WORKFLOW, named in full or by its short name, and print its id.

    Inputs are checked first: if one does not fit, nothing is started.

    With --wait it waits for the evaluators' report of the run's end, and prints what the run waits for when that takes
    long. Without --wait it waits for the evaluator's answer, 5 s at most. On an embedded log that no `afl-stream
    server` holds, an evaluator runs in this process with --wait, and an agent when --handlers is given, and without
    --wait nothing is waited for. A refused start, for instance with the id of another run, ends with 2.

    The same --id again starts nothing new; with another version deployed since, or other inputs, it is refused. With
    --if-exists use it is the run that exists in each case, so that a start may be repeated across deploys.

    With --many each line of a file is a start: {"workflow": "Checkout", "id": "order-17", "inputs": {"order": "17"}}.
    WORKFLOW is for the lines without one. All lines are checked before the first start is sent, and no answers are
    waited for. Where it was cut short, call it again: lines with an id start their runs once.

    \b
    Examples:
      afl-stream start billing.Checkout --input order=17 --input note="by hand"
      afl-stream start Checkout --inputs @inputs.json --id order-17
      afl-stream start Checkout --input order=17 --wait --timeout 30 --handlers shop.handlers
      afl-stream start --many orders.jsonl
    """
    from afl_stream.wire.headers import IfExists

    many, workflow = given.pop("many"), given.pop("workflow")
    if_exists = IfExists(found) if (found := given.pop("if_exists")) is not None else None
    if many is not None:
        if invocation.allow_scripts or any(given.values()) or given["timeout_s"] is not None:
            raise click.UsageError("--many goes without --input, --inputs, --id, --wait and what goes with it")
        from afl_stream.commands.starting.many import start_many

        return start_many(invocation, many, workflow, if_exists)
    if workflow is None:
        raise click.UsageError("Missing argument 'WORKFLOW'.")
    options = StartOptions(workflow=workflow, if_exists=if_exists, **given)
    if if_exists is not None and options.workflow_id is None:
        raise click.UsageError("--if-exists goes with --id, or with --many")
    if not options.wait and (options.handlers or options.timeout_s is not None or invocation.allow_scripts):
        raise click.UsageError("--handlers, --timeout and --allow-scripts go with --wait")
    find_modules_here()
    from afl_stream.wire.messages import check_workflow_id

    if options.workflow_id is not None:
        check_workflow_id(options.workflow_id)
    if not options.wait:
        return _start(invocation, options)
    if not invocation.is_shared():
        return _start_and_run(invocation, options)
    if options.handlers:
        agent = invocation.command_line("agent", *(word for name in options.handlers for word in ("--handlers", name)))
        where = "on Kafka" if invocation.settings().is_kafka else "beside the process that holds the embedded log"
        raise CommandRefused(f"--handlers: {where} an agent is a process of its own; start it with: {agent}")
    return _start_and_follow(invocation, options)


def _start(invocation: Invocation, options: StartOptions) -> ExitCode:
    from afl.engine.model.store import ENDED_STATUSES
    from afl.engine.types import workflow_id_v7
    from afl_stream.client.client import Client
    from afl_stream.commands.asking import ask, what_comes_next
    from afl_stream.commands.programs import checked_inputs, deployed_program
    from afl_stream.commands.reports import what_runs_again
    from afl_stream.commands.run_status import shown_status

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport, Client(config, transport) as client:
        program, name = deployed_program(client, transport, options.workflow)
        _, inputs = checked_inputs(program, name, options.inputs, options.inputs_document)
        known = check_id(config, transport, options.workflow_id, name, program, inputs, options.if_exists)
        workflow_id = options.workflow_id or workflow_id_v7(epoch_ms())

        def give(answer_timeout_s: float | None) -> Lifecycle | None:
            return client.ask_to_start(
                name,
                inputs,
                workflow_id=workflow_id,
                program=program.fingerprint,
                answer_timeout_s=answer_timeout_s,
                if_exists=options.if_exists,
            )

        was_over = known is not None and known.status in ENDED_STATUSES
        # Of a run that has ended the store says all that an evaluator would.
        answer = None if was_over else ask(invocation, client, give)
    is_answered, status = was_over or answer is not None, _status_before(known, answer)
    if terminal.as_json:
        runs = program.fingerprint if known is None else known.program
        document = {"workflow_id": workflow_id, "workflow": name, "program": runs}
        stood = {} if status is None else {"status": shown_status(status), "was_over": status in ENDED_STATUSES}
        terminal.document({**document, "answered": is_answered, **stood})
        return ExitCode.OK
    terminal.line(workflow_id)
    if status is None:
        said = f"{name} {'is started' if is_answered else 'is asked for'}"
        terminal.remark(f"{said}; {what_comes_next(invocation, 'starts', is_answered=is_answered)}")
    elif status in ENDED_STATUSES:
        again = what_runs_again(invocation, workflow_id, status)
        terminal.warn(f"Note: {workflow_id} exists already: it ended as {status}, nothing was started. {again}")
    else:
        continues = "continues" if is_answered else f"continues as it is, {shown_status(status)}"
        look = invocation.command_line("status", workflow_id)
        terminal.remark(f"{workflow_id} exists already: nothing new was started, and it {continues}: {look}")
    return ExitCode.OK


def _status_before(known: WorkflowRow | None, answer: Lifecycle | None) -> str | None:
    """Return the status of a run that existed before, by the evaluator or the store; None: it is new, or may be."""
    from afl_stream.wire.command_answers import REPEATED

    if answer is not None:
        return answer.status if answer.kind == REPEATED else None
    return None if known is None else known.status


def _start_and_run(invocation: Invocation, options: StartOptions) -> ExitCode:
    """Start on the embedded log: with an evaluator, and an agent if there are handlers, in this process."""
    from afl_stream.client.client import NotInTime
    from afl_stream.commands.programs import checked_inputs, deployed_program
    from afl_stream.commands.reports import exit_code_of_run, run_document, show_ending
    from afl_stream.commands.unanswered import report_deferred, report_not_ended, report_unanswered
    from afl_stream.dev import LocalDeployment
    from afl_stream.evaluator.service import tune_collector

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config):
        pass  # Only to refuse, with the usual message, a log that is not there or not free.
    with (
        LocalDeployment(config, handlers=options.handlers) as deployment,
        draining(deployment.stop, deployment.remaining),
    ):
        program, name = deployed_program(deployment.client, deployment.transport, options.workflow)
        plan, inputs = checked_inputs(program, name, options.inputs, options.inputs_document)
        tune_collector()
        deployment.run()
        workflow_id = deployment.start(name, inputs, workflow_id=options.workflow_id, if_exists=options.if_exists)
        if not terminal.as_json:
            terminal.line(workflow_id)
        ending = deployment.wait(
            workflow_id,
            timeout_s=options.timeout_s,
            on_long_wait=lambda: report_unanswered(
                invocation, f"Note: {workflow_id} has not ended yet", deployment.unhandled(workflow_id), plan
            ),
            on_deferred=lambda steps: report_deferred(invocation, workflow_id, steps, plan),
        )
        if ending is None:
            report_not_ended(invocation, deployment, workflow_id)
        else:
            program = _program_of(deployment.client, ending, program)
    deployment.check()
    if ending is None:
        assert options.timeout_s is not None
        raise NotInTime(f"the end of workflow {workflow_id}", options.timeout_s)
    ending = shown_ending(invocation.settings(), ending, program)
    if terminal.as_json:
        terminal.document(run_document(ending, program))
    else:
        show_ending(invocation, terminal, ending, plan, program)
    return exit_code_of_run(ending)


def _start_and_follow(invocation: Invocation, options: StartOptions) -> ExitCode:
    """Start where evaluators and agents are other processes: the lifecycle topic reports the run's end."""
    from afl.engine.model.store import ENDED_STATUSES
    from afl_stream.client.client import Client
    from afl_stream.commands.programs import checked_inputs, deployed_program
    from afl_stream.commands.reports import exit_code_of_run, run_document, show_ending
    from afl_stream.evaluator.runs import Ending

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport, Client(config, transport) as client:
        program, name = deployed_program(client, transport, options.workflow)
        plan, inputs = checked_inputs(program, name, options.inputs, options.inputs_document)
        known = check_id(config, transport, options.workflow_id, name, program, inputs, options.if_exists)
        if known is not None and known.status in ENDED_STATUSES:
            # The store's answer needs no evaluator.
            if not terminal.as_json:
                terminal.line(known.id)
            ending = Ending(workflow_id=known.id, row=known, was_over=True)
        else:
            ending = _followed(invocation, options, transport, client, name, plan, inputs)
        ending = _ending_in_store(config, transport, ending)
        program = _program_of(client, ending, program)
    ending = shown_ending(invocation.settings(), ending, program)
    if terminal.as_json:
        terminal.document(run_document(ending, program))
    else:
        show_ending(invocation, terminal, ending, plan, program)
    return exit_code_of_run(ending)


def _followed(
    invocation: Invocation,
    options: StartOptions,
    transport: Transport,
    client: Client,
    name: str,
    plan: WorkflowPlan,
    inputs: Mapping[str, Value],
) -> Ending:
    """Start the run, and wait for its end, or for a request to stop.

    Raises NotInTime, after it has printed what the run waits for.
    """
    from afl.engine.types import workflow_id_v7
    from afl_stream.client.client import NotInTime, drawn_id
    from afl_stream.commands.following import RunFollower
    from afl_stream.commands.reports import facets_of
    from afl_stream.commands.unanswered import why_it_waits
    from afl_stream.commands.waiting.why_lines import why_lines
    from afl_stream.reading.watchdog import Watchdog

    config, terminal, stop = invocation.settings(), invocation.terminal(), StopFlag()
    workflow_id, command_id = options.workflow_id or workflow_id_v7(epoch_ms()), drawn_id()

    def tell_why() -> None:
        lines = why_it_waits(invocation, transport, client, workflow_id, facets_of(plan))
        terminal.warn_of(f"Note: {workflow_id} has not ended yet", lines)

    with closing(client.milestones(workflow_id)) as milestones:
        client.start(
            name,
            inputs,
            workflow_id=workflow_id,
            program=plan.fingerprint,
            command_id=command_id,
            if_exists=options.if_exists,
        )
        if not terminal.as_json:
            terminal.line(workflow_id)
        follower = RunFollower(workflow_id, command_id, is_drawn=options.workflow_id is None)
        watchdog = Watchdog(config.kafka, f"the wait for {workflow_id}")
        with draining(stop.set, lambda: "closing the reader; the run goes on"):
            try:
                return follower.follow(
                    milestones, watchdog, timeout_s=options.timeout_s, stop=stop, on_long_wait=tell_why
                )
            except NotInTime:
                try:
                    with store_here(config, transport) as store:
                        lines = why_lines(invocation, store, transport, workflow_id)
                except AFLError as error:
                    # In an outage the time is up all the same.
                    lines = [f"what it waits for is not known: {error}"]
                terminal.warn_of(f"Note: {workflow_id} has not ended", lines)
                raise


def check_id(
    config: StreamConfig,
    transport: Transport,
    workflow_id: str | None,
    name: str,
    program: CompiledProgram,
    inputs: Mapping[str, object],
    if_exists: IfExists | None = None,
) -> WorkflowRow | None:
    """Return the run of a chosen id, if the store is on this machine and has it. Raises AlreadyExists and IdInUse."""
    if workflow_id is None:
        return None
    from afl_stream.evaluator.runs import check_same_start
    from afl_stream.evaluator.sensitive.sealed_store import sealed
    from afl_stream.sensitive.deployment import deployment_sealer

    with store_here(config, transport) as store:
        if store is None:
            return None
        plain = sealed(store, deployment_sealer(config), config.sensitive.patterns)
        return check_same_start(plain, workflow_id, name, program, inputs, config.sensitive.patterns, if_exists)


def _program_of(client: Client, ending: Ending, program: CompiledProgram) -> CompiledProgram:
    """Return the program that a run has, by which it is shown: one that existed may be of another version."""
    from afl_stream.programs.definitions import UnknownProgram

    row = ending.row
    if row is None or row.program in ("", program.fingerprint):
        return program
    try:
        return client.definitions.find(row.name, row.program)[0]
    except UnknownProgram:
        return program


def _ending_in_store(config: StreamConfig, transport: Transport, ending: Ending) -> Ending:
    """Return the ending with all that the store knows of the run, such as path and line, if it is on this machine."""
    if ending.row is not None:
        with store_here(config, transport) as store:
            row = None if store is None else store.load_workflow(ending.workflow_id)
        if row is not None:
            return replace(ending, row=row)
    return ending
