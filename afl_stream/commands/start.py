"""The command `start`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from afl.compiled import CompiledProgram
from afl.core.clock import epoch_ms
from afl.core.signals import draining
from afl.core.stopping import Stop, StopFlag
from afl.runtime.persistence import CANCELLED, COMPLETED, ERROR, ErrorRecord, WorkflowRow
from afl.runtime.types import workflow_id_v7
from afl_stream.client import REJECTED, Client, Milestones, NotInTime
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.programs import checked_inputs, deployed_program
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.reports import exit_code_of_run, run_document, show_ending
from afl_stream.config import StreamConfig
from afl_stream.exit_codes import ExitCode
from afl_stream.messages import Lifecycle, check_workflow_id
from afl_stream.runs import Ending, check_same_start
from afl_stream.service import tune_collector
from afl_stream.transport import BrokerUnavailable, Transport
from afl_stream.watchdog import Watchdog

_READ_TIMEOUT_S = 0.5
_STARTED = "workflow.started"
#: The status of a run by the milestone of its end.
_ENDINGS = {f"workflow.{status.lower()}": status for status in (COMPLETED, ERROR, CANCELLED)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """What `start` was told."""

    workflow: str
    inputs: Sequence[str] = ()
    inputs_document: str | None = None
    workflow_id: str | None = None
    wait: bool = False
    timeout_s: float | None = None
    handlers: Sequence[str] = ()


def start(invocation: Invocation, options: StartOptions) -> ExitCode:
    """Start a run once its inputs are known to fit; wait for its end if told to."""
    if options.workflow_id is not None:
        check_workflow_id(options.workflow_id)
    if not options.wait:
        return _start(invocation, options)
    if not invocation.settings().is_kafka:
        return _start_and_run(invocation, options)
    if options.handlers:
        agent = invocation.command_line("agent", *(word for name in options.handlers for word in ("--handlers", name)))
        raise CommandRefused(f"--handlers: on Kafka an agent is a process of its own; start it with: {agent}")
    return _start_and_follow(invocation, options)


def _start(invocation: Invocation, options: StartOptions) -> ExitCode:
    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport, Client(config, transport) as client:
        program, name = deployed_program(client, transport, options.workflow)
        _, inputs = checked_inputs(program, name, options.inputs, options.inputs_document)
        _check_id(config, transport, options.workflow_id, name, program, inputs)
        workflow_id = client.start(name, inputs, workflow_id=options.workflow_id, program=program.fingerprint)
    if terminal.as_json:
        document = {"workflow_id": workflow_id, "workflow": name, "program": program.fingerprint}
        terminal.document(document)
    else:
        terminal.line(workflow_id)
        terminal.remark(f"{name} is asked for; {invocation.who_applies_it('starts')}")
    return ExitCode.OK


def _start_and_run(invocation: Invocation, options: StartOptions) -> ExitCode:
    """On the embedded log: with an evaluator, and an agent if there are handlers, in this process."""
    from afl_stream.dev import LocalDeployment

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
        workflow_id = deployment.start(name, inputs, workflow_id=options.workflow_id)
        if not terminal.as_json:
            terminal.line(workflow_id)
        ending = deployment.wait(workflow_id, timeout_s=options.timeout_s)
    deployment.check()
    if ending is None:
        assert options.timeout_s is not None
        raise NotInTime(f"the end of workflow {workflow_id}", options.timeout_s)
    if terminal.as_json:
        terminal.document(run_document(ending, program))
    else:
        show_ending(invocation, terminal, ending, plan, program)
    return exit_code_of_run(ending)


def _start_and_follow(invocation: Invocation, options: StartOptions) -> ExitCode:
    """On Kafka: evaluators and agents are other processes, and the lifecycle topic tells how the run ends."""
    config, terminal = invocation.settings(), invocation.terminal()
    workflow_id = options.workflow_id or workflow_id_v7(epoch_ms())
    stop = StopFlag()
    with open_transport(config) as transport, Client(config, transport) as client:
        program, name = deployed_program(client, transport, options.workflow)
        plan, inputs = checked_inputs(program, name, options.inputs, options.inputs_document)
        _check_id(config, transport, options.workflow_id, name, program, inputs)
        # A run whose id was chosen may be there already, and be over.
        with closing(client.milestones(workflow_id, from_beginning=options.workflow_id is not None)) as milestones:
            client.start(name, inputs, workflow_id=workflow_id, program=program.fingerprint)
            if not terminal.as_json:
                terminal.line(workflow_id)
            with draining(stop.set):
                ending = _followed(config, milestones, workflow_id, options.timeout_s, stop)
        ending = _told_by_the_store(config, transport, ending)
    if terminal.as_json:
        terminal.document(run_document(ending, program))
    else:
        show_ending(invocation, terminal, ending, plan, program)
    return exit_code_of_run(ending)


def _followed(
    config: StreamConfig, milestones: Milestones, workflow_id: str, timeout_s: float | None, stop: Stop
) -> Ending:
    """How the run ended, or that the wait was interrupted. Raises NotInTime, and BrokerUnavailable after an outage."""
    began_s = time.monotonic()
    watchdog = Watchdog(config.kafka, f"the wait for {workflow_id}")
    started_at_ms = 0
    while not stop.is_set():
        now_s = time.monotonic()
        if timeout_s is not None and now_s - began_s >= timeout_s:
            raise NotInTime(f"the end of workflow {workflow_id}", timeout_s)
        left_s = _READ_TIMEOUT_S if timeout_s is None else min(_READ_TIMEOUT_S, timeout_s - (now_s - began_s))
        try:
            found = milestones.read(left_s)
            watchdog.read(milestones.consumer, len(found))
        except BrokerUnavailable as error:
            # The command is acknowledged: the run goes on without us, and the broker may come back.
            stop.wait(min(watchdog.failed(error), left_s))
            continue
        for milestone in found:
            if milestone.kind == _STARTED:
                started_at_ms = milestone.at
            elif milestone.kind == REJECTED:
                return Ending(workflow_id=workflow_id, rejected=milestone.error)
            elif milestone.kind in _ENDINGS:
                return Ending(workflow_id=workflow_id, row=_row_of(milestone, started_at_ms))
    return Ending(workflow_id=workflow_id)


def _row_of(milestone: Lifecycle, started_at_ms: int) -> WorkflowRow:
    """A run as far as the milestone of its end tells of it."""
    error = None
    if milestone.error is not None:
        reason = milestone.error
        error = ErrorRecord(
            type=reason.type,
            message=reason.message,
            step_id=milestone.step_id or "",
            facet=milestone.facet or "",
        )
    return WorkflowRow(
        id=milestone.workflow_id,
        revision=0,
        program="",
        name=milestone.workflow or "",
        status=_ENDINGS[milestone.kind],
        outputs=milestone.outputs,  # type: ignore[arg-type]  # decoded values
        error=error,
        created_at_ms=started_at_ms,
        ended_at_ms=milestone.at if started_at_ms else 0,
    )


def _check_id(
    config: StreamConfig,
    transport: Transport,
    workflow_id: str | None,
    name: str,
    program: CompiledProgram,
    inputs: Mapping[str, object],
) -> None:
    """Look at the run of an id that was chosen, where the store is on this machine."""
    if workflow_id is not None:
        with store_here(config, transport) as store:
            if store is not None:
                check_same_start(store, workflow_id, name, program, inputs)


def _told_by_the_store(config: StreamConfig, transport: Transport, ending: Ending) -> Ending:
    """The same ending with all that the store knows of the run, where it is on this machine: path and line, say."""
    if ending.row is not None:
        with store_here(config, transport) as store:
            row = None if store is None else store.load_workflow(ending.workflow_id)
        if row is not None:
            return Ending(workflow_id=ending.workflow_id, row=row)
    return ending
