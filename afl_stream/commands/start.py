"""The command `start`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl_stream.client import Client, NotInTime
from afl_stream.commands.interrupts import draining
from afl_stream.commands.invocation import Invocation, open_store, open_transport
from afl_stream.commands.programs import checked_inputs, deployed_program
from afl_stream.commands.reports import exit_code_of_run, run_document, show_ending
from afl_stream.exit_codes import ExitCode
from afl_stream.messages import check_workflow_id
from afl_stream.runs import check_same_start
from afl_stream.service import tune_collector


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
    return _start_and_wait(invocation, options) if options.wait else _start(invocation, options)


def _start(invocation: Invocation, options: StartOptions) -> ExitCode:
    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport, Client(config, transport) as client:
        program, name = deployed_program(client, transport, options.workflow)
        _, inputs = checked_inputs(program, name, options.inputs, options.inputs_document)
        if options.workflow_id is not None and config.store_path.exists():
            with open_store(config) as store:
                check_same_start(store.load_workflow(options.workflow_id), name, program.fingerprint, inputs)
        workflow_id = client.start(name, inputs, workflow_id=options.workflow_id, program=program.fingerprint)
    if terminal.as_json:
        document = {"workflow_id": workflow_id, "workflow": name, "program": program.fingerprint}
        terminal.document(document)
    else:
        terminal.line(workflow_id)
        runner = invocation.command_line("evaluator", "--until-idle")
        terminal.remark(f"{name} is asked for; an evaluator starts it: {runner}")
    return ExitCode.OK


def _start_and_wait(invocation: Invocation, options: StartOptions) -> ExitCode:
    from afl_stream.dev import LocalDeployment

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config):
        pass  # Only to refuse, with the usual message, a log that is not there or not free.
    with LocalDeployment(config, handlers=options.handlers) as deployment, draining(deployment.stop):
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
        terminal.document(run_document(ending))
    else:
        show_ending(invocation, terminal, ending, plan)
    return exit_code_of_run(ending)
