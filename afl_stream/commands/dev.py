"""The command `dev`: a file, its agents, and all services that it needs, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from afl.core.process.signals import draining
from afl_stream.commands.arguments import (
    allow_scripts_option,
    common,
    facets_option,
    files_argument,
    find_modules_here,
    handlers_option,
    inputs_document_option,
    inputs_option,
    metrics_port_option,
    new_store_option,
    service,
    timeout_option,
    workflow_id_option,
)
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.refusals import CommandRefused, refuse_unused_facets
from afl_stream.commands.sensitive.shown import shown_ending
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl.engine.model.plan import WorkflowPlan
    from afl_stream.commands.terminal import Terminal
    from afl_stream.dev import LocalDeployment, Progress


#: How often a deployment that stays looks whether a service has ended, and whether files were saved.
_STAY_INTERVAL_S: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """The options of `dev`."""

    files: Sequence[str]
    handlers: Sequence[str] = ()
    facets: Sequence[str] = ()
    workflow: str | None = None
    inputs: Sequence[str] = ()
    inputs_document: str | None = None
    workflow_id: str | None = None
    timeout_s: float | None = None
    audit_file: str | None = None
    stay: bool = False
    watch: bool = False
    skip_time: bool = False


@click.command("dev")
@files_argument(required=True)
@handlers_option
@facets_option
@click.option(
    "--start", "--workflow", "workflow", metavar="NAME", help="Workflow to start; by default the only one in FILEs."
)
@inputs_option
@inputs_document_option
@workflow_id_option
@timeout_option
@click.option("--audit", "audit_file", metavar="PATH", help="Audit file; by default audit.jsonl in the data directory.")
@click.option("--skip-time", is_flag=True, help="Jump over waits for a time instead of waiting.")
@click.option("--stay", is_flag=True, help="Continue after the run's end, until Ctrl-C, as `server` does.")
@click.option("--watch", is_flag=True, help="Stay, and take FILEs and handlers anew when they are saved.")
@allow_scripts_option
@new_store_option
@metrics_port_option
@common
@service
def dev_command(invocation: Invocation, **given: Any) -> ExitCode:
    """Run FILEs in one process: topics, evaluator, agents and audit, and a run of the workflow.

    Ends with the run. If the run waits for events without a handler, or for external events, it ends with 1 and nothing
    is lost: `afl-stream continue` answers and `afl-stream raise` raises an event, and `afl-stream evaluator
    --until-idle` (or dev with the same --id) continues. Where a handler leaves its answer to others it says what it
    waits for, and takes the answer from another terminal. With --skip-time, events without a handler time out.

    While it runs it holds the log, and commands in other terminals use it. With --stay it is a server that has begun
    with a run.

    \b
    Examples:
      afl-stream dev orders.afl --handlers shop.handlers --input order=17
      afl-stream dev orders.afl --start Refund --inputs @refund.json --json
      afl-stream dev orders.afl --id order-17 --input order=17
      afl-stream dev orders.afl --handlers shop.handlers --input order=17 --watch
    """
    find_modules_here()
    from afl.core.clock import SkippingClock
    from afl_stream.commands.monitoring.local import monitored_deployment
    from afl_stream.commands.programs import checked_inputs, compile_program
    from afl_stream.dev import LocalDeployment
    from afl_stream.evaluator.service import tune_collector
    from afl_stream.wire.messages import check_workflow_id

    options = DevOptions(**given)
    # It stays in this process, also where the settings name a cluster.
    invocation = replace(invocation, is_embedded=True)
    config, terminal = invocation.settings(), invocation.terminal()
    if options.workflow_id is not None:
        check_workflow_id(options.workflow_id)
    program = compile_program(options.files, terminal, invocation.strictness)
    workflow = _chosen(program, options)
    planned = None
    if workflow is not None:
        planned = checked_inputs(program, workflow, options.inputs, options.inputs_document)
    audit_path = Path(options.audit_file) if options.audit_file is not None else config.data_dir / "audit.jsonl"
    with LocalDeployment(
        config,
        handlers=options.handlers,
        facets=options.facets,
        audit_path=audit_path,
        new_store=invocation.new_store,
        clock=SkippingClock() if options.skip_time else None,
    ) as deployment, draining(deployment.stop, deployment.remaining):  # fmt: skip
        tune_collector()
        check_handlers(deployment, options.handlers, options.facets, program)
        deployment.deploy(program)
        deployment.run()
        _introduce(terminal, deployment, program)
        look = _reloading(invocation, deployment, options)
        code = ExitCode.OK
        with monitored_deployment(terminal.remark, deployment):
            if planned is None:
                terminal.remark(f"nothing is started; name a workflow with --start: {_names(program)}")
            else:
                plan, inputs = planned
                workflow_id = deployment.start(plan.name, inputs, workflow_id=options.workflow_id)
                code = _follow(invocation, deployment, workflow_id, plan, program, options.timeout_s, look)
            if planned is None or ((options.stay or options.watch) and not deployment.is_stopping):
                _stay(invocation, deployment, look)
    deployment.check()
    terminal.remark(f"every record is in {audit_path}")
    return ExitCode.WORK_LEFT if deployment.has_work_left else code


def _reloading(invocation: Invocation, deployment: LocalDeployment, options: DevOptions) -> Callable[[], None]:
    """Return what takes saved files anew; without --watch it does nothing."""
    if not options.watch:
        return lambda: None
    from afl_stream.commands.server.reloading import Reloading

    return Reloading(invocation, deployment, options.files, options.handlers).look


def _stay(invocation: Invocation, deployment: LocalDeployment, look: Callable[[], None]) -> None:
    """Serve other terminals, and the dashboard, until the deployment is told to stop."""
    from afl_stream.commands.server.dashboard import dashboard_beside

    terminal = invocation.terminal()
    with dashboard_beside(deployment.config, deployment.opened_transport) as address:
        if address is not None:
            terminal.remark(f"dashboard: {address}")
        terminal.remark(f"other terminals use it: {invocation.command_line('start', 'WORKFLOW', '--wait')}, ...")
        terminal.remark("running; Ctrl-C drains and ends it")
        while not deployment.wait_for_stop(_STAY_INTERVAL_S):
            look()


def _follow(
    invocation: Invocation,
    deployment: LocalDeployment,
    workflow_id: str,
    plan: WorkflowPlan,
    program: CompiledProgram,
    timeout_s: float | None,
    look: Callable[[], None],
) -> ExitCode:
    from afl_stream.client.client import NotInTime
    from afl_stream.commands.reports import exit_code_of_run, run_document, show_ending
    from afl_stream.commands.unanswered import report_deferred, report_not_ended, report_unanswered

    terminal = invocation.terminal()
    terminal.remark(f"run {workflow_id} of {plan.name}")
    with _progress(terminal, plan.name) as on_progress:

        def on_turn(now: Progress) -> None:
            on_progress(now)
            look()

        ending = deployment.wait(
            workflow_id,
            timeout_s=timeout_s,
            on_progress=on_turn,
            on_long_wait=lambda: report_unanswered(
                invocation, f"Note: {workflow_id} has not ended yet", deployment.unhandled(workflow_id), plan
            ),
            on_deferred=lambda steps: report_deferred(invocation, workflow_id, steps, plan),
        )
    if ending is None:
        assert timeout_s is not None
        report_not_ended(invocation, deployment, workflow_id)
        raise NotInTime(f"the end of workflow {workflow_id}", timeout_s)
    done = deployment.progress()
    ending = shown_ending(invocation.settings(), ending, program)
    if terminal.as_json:
        counts = {"events": done.asked, "answers": done.answered, "elapsed_s": round(done.elapsed_s, 3)}
        terminal.document({**run_document(ending, program), **counts})
    else:
        show_ending(invocation, terminal, ending, plan, program)
    code = exit_code_of_run(ending)
    # Ending a development session with Ctrl-C is not an error.
    return ExitCode.OK if code is ExitCode.INTERRUPTED else code


def check_handlers(
    deployment: LocalDeployment, handlers: Sequence[str], facets: Sequence[str], program: CompiledProgram | None
) -> None:
    """Refuse handlers that no event of the program would ever reach."""
    from afl.compiled.program import Kind

    registered = () if deployment.agent is None else deployment.agent.registered_names()
    if handlers:
        refuse_unused_facets(facets, registered)
    for name in registered if program is not None else ():
        assert program is not None
        declared = program.declarations.get(name)
        if declared is not None and declared.is_library:
            raise CommandRefused(
                f"a handler is registered for {name}, which the runtime answers itself: its steps ask no handler"
            )
        if declared is not None and declared.kind is not Kind.EVENT_FACET:
            raise CommandRefused(
                f"a handler is registered for {name}, which is a {declared.kind.value} without events: its steps ask no"
                f" handler; declare it as: event facet {name.rpartition('.')[2]}(...)"
            )


def _chosen(program: CompiledProgram, options: DevOptions) -> str | None:
    """Return the workflow to start: the one that was named, or the only one there is."""
    if options.workflow is not None:
        return program.workflow(options.workflow).qualified_name
    workflows = program.workflows()
    if len(workflows) == 1:
        return workflows[0].qualified_name
    if options.inputs or options.inputs_document is not None or options.workflow_id is not None:
        raise CommandRefused(f"which workflow are the inputs for? Name one with --start: {_names(program)}")
    return None


def _names(program: CompiledProgram) -> str:
    return ", ".join(workflow.qualified_name for workflow in program.workflows()) or "the files have none"


def _introduce(terminal: Terminal, deployment: LocalDeployment, program: CompiledProgram) -> None:
    config = deployment.config
    terminal.remark(f"evaluator, agents and audit run in this process; files are in {config.data_dir}")
    if config.kafka.bootstrap is not None:
        terminal.remark("dev does not use the Kafka cluster of the settings: it has its own log and store")
    unhandled = [f.qualified_name for f in program.event_facets() if not deployment.handles(f.qualified_name)]
    if unhandled:
        terminal.remark(f"no handler answers {', '.join(unhandled)} (--handlers MODULE)")


@contextmanager
def _progress(terminal: Terminal, title: str) -> Iterator[Callable[[Progress], None]]:
    """Show a live bar on a terminal, and nothing elsewhere."""
    if terminal.as_json or not terminal.remarks.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bar(
        *columns, TextColumn("events answered"), TimeElapsedColumn(), console=terminal.remarks, transient=True
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda now: bar.update(task, completed=now.answered, total=now.asked or None)
