"""The command `server`: it holds the embedded log and the store, and runs all services beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from afl.core.process.signals import draining
from afl_stream.commands.arguments import (
    allow_scripts_option,
    common,
    facets_option,
    files_argument,
    find_modules_here,
    handlers_option,
    new_store_option,
    service,
)
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.server.dashboard import dashboard_beside
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram, Declaration
    from afl.workers.server_record import ServerRecord
    from afl_stream.dev import LocalDeployment

#: How often the command looks whether a service has ended.
_LOOK_S = 0.5
#: Workflows that the introduction names.
_MOST_NAMED = 5


@click.command("server")
@files_argument(required=False)
@handlers_option
@facets_option
@click.option("--audit", "audit_file", metavar="PATH", help="Audit file; by default audit.jsonl in the data directory.")
@allow_scripts_option
@new_store_option
@common
@service
def server_command(
    invocation: Invocation,
    files: Sequence[str],
    handlers: Sequence[str],
    facets: Sequence[str],
    audit_file: str | None,
) -> ExitCode:
    """Run a whole deployment in this process, without a broker: log, store, evaluator and audit, until it is stopped.

    It deploys FILEs, if there are any, and runs agents for --handlers. Other terminals use it: every command finds the
    process that holds the data directory and goes through its socket, agents and further evaluators too.

    SIGTERM and Ctrl-C drain it. Killing it loses nothing: what was acknowledged is on disk, agents in other terminals
    wait for the next server, and runs go on where they were.

    \b
    Examples:
      afl-stream server
      afl-stream server orders.afl --handlers shop.handlers
      afl-stream server --data-dir /var/lib/orders --json
    """
    find_modules_here()
    from afl.workers.heartbeat import registered_server
    from afl_stream.commands.dev import check_handlers
    from afl_stream.commands.programs import compile_program
    from afl_stream.dev import LocalDeployment
    from afl_stream.evaluator.service import tune_collector

    # It holds the log of the data directory, also where the settings name a cluster.
    invocation = replace(invocation, is_embedded=True)
    config, terminal = invocation.settings(), invocation.terminal()
    program = compile_program(files, terminal, invocation.strictness) if files else None
    audit_path = Path(audit_file) if audit_file is not None else config.data_dir / "audit.jsonl"
    with LocalDeployment(
        config, handlers=handlers, facets=facets, audit_path=audit_path, new_store=invocation.new_store
    ) as deployment, draining(deployment.stop, deployment.remaining):  # fmt: skip
        tune_collector()
        check_handlers(deployment, handlers, facets, program)
        deployment.deploy(*(() if program is None else (program,)))
        deployment.run()
        with (
            registered_server(_record_of(deployment), lambda: _names(deployment)),
            dashboard_beside(config, deployment.opened_transport) as address,
        ):
            _introduce(invocation, deployment, program, address)
            while not deployment.wait_for_stop(_LOOK_S):
                pass
    deployment.check()
    terminal.remark(f"everything is on disk; {invocation.command_line('server')} goes on with it")
    return ExitCode.WORK_LEFT if deployment.has_work_left else ExitCode.OK


def _record_of(deployment: LocalDeployment) -> ServerRecord:
    """Return the server as the list of servers shows it: the evaluator's group, and the agent's handlers."""
    from afl.core.clock import SystemClock
    from afl.workers.server_record import ServerRecord

    group = deployment.config.evaluator_group
    return ServerRecord(deployment.store, SystemClock(), service_name="afl-server", server_group=group, server_name="")


def _names(deployment: LocalDeployment) -> list[str]:
    return [] if deployment.agent is None else deployment.agent.registered_names()


def _introduce(
    invocation: Invocation, deployment: LocalDeployment, program: CompiledProgram | None, address: str | None
) -> None:
    """Print where it is, and what to type next."""
    terminal, config = invocation.terminal(), deployment.config
    if terminal.as_json:
        document = {"data_dir": str(config.data_dir), "pid": os.getpid(), "socket": str(deployment.socket_path)}
        terminal.document({**document, "dashboard": address})
        return
    terminal.line(f"afl-stream server: process {os.getpid()} holds {config.data_dir.resolve()}")
    if address is not None:
        terminal.line(f"dashboard: {address}")
    agents = _names(deployment)
    parts = f"evaluator, audit and an agent for {', '.join(agents)}" if agents else "evaluator and audit"
    terminal.remark(f"{parts} run in this process; every record is in {deployment.audit_path}")
    if config.kafka.bootstrap is not None:
        terminal.remark("it does not use the Kafka cluster of the settings: it has its own log and store")
    unhandled = [] if program is None else [f.qualified_name for f in program.event_facets()]
    unhandled = [name for name in unhandled if not deployment.handles(name)]
    if unhandled:
        terminal.remark(f"no handler here answers {', '.join(unhandled)}; an agent in another terminal may")
    terminal.remark("in other terminals, in this folder:")
    for words in _next_commands(program, has_agent=bool(agents) and not unhandled):
        terminal.remark(f"  {invocation.command_line(*words)}")
    terminal.remark("Ctrl-C drains and ends it; killing it loses nothing")


def _next_commands(program: CompiledProgram | None, *, has_agent: bool) -> Iterator[Sequence[str]]:
    """Yield what one would type next."""
    workflows = [] if program is None else program.workflows()
    if program is None:
        yield "topics", "apply", "FILE.afl"
        yield "deploy", "FILE.afl"
    if not has_agent:
        yield "agent", "--handlers", "MODULE"
    for workflow in workflows[:_MOST_NAMED]:
        inputs = [word for name in _required(workflow) for word in ("--input", f"{name}=...")]
        yield "start", workflow.qualified_name, *inputs, "--wait"
    if not workflows:
        yield "start", "WORKFLOW", "--wait"
    yield ("status",)


def _required(workflow: Declaration) -> list[str]:
    """Return the inputs without a default."""
    return [str(param["name"]) for param in workflow.params if "default" not in param]
